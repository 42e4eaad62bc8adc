"""The process that owns the device: what reaches the caller when it works, stops, hangs, dies or is misused."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from attention.workload import DType, Workload
from profiling.recording import Failure, Progress, Recording, RunRequest
from profiling.worker import Worker
from profiling.worker_channel import read_frame, write_frame

HERE = Path(__file__).parent
ONE = RunRequest(workloads=(Workload(backend="naive"),))
THREE = RunRequest(workloads=tuple(Workload(backend=name) for name in ("naive", "sdpa_math", "sdpa_flash")))
MakeWorker = Callable[..., Worker]


@pytest.fixture
def make_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeWorker]:
    """Makes workers whose recorders are in worker_recorders, and checks that none leaves a process behind."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    workers: list[Worker] = []

    def make(record: str, warm_up: str | None = None, **limits: float) -> Worker:
        worker = Worker(
            f"worker_recorders:{record}",
            warm_up=warm_up and f"worker_recorders:{warm_up}",
            **limits,
        )
        workers.append(worker)
        return worker

    others.clear()
    others.update(child_pids())
    yield make
    for worker in workers:
        worker.close()
    assert not child_pids()


others: set[int] = set()  # children that a test found: another folder's fixtures keep servers for the whole session


def child_pids() -> set[int]:
    """Children of this process that the test started, zombies among them, from /proc."""
    own = os.getpid()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and parent_pid(int(entry.name)) == own:
            found.add(int(entry.name))
    return found - others


def read_stat(pid: int) -> list[str]:
    """State, parent and what follows of /proc/PID/stat; nothing when the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return stat.rpartition(")")[2].split()


def parent_pid(pid: int) -> int | None:
    stat = read_stat(pid)
    return int(stat[1]) if stat else None


def stage(item: Progress | Recording) -> str:
    assert isinstance(item, Progress)
    return item.stage


def read_until(items: Iterator[Progress | Recording], wanted: str) -> None:
    while stage(next(items)) != wanted:
        pass


def recordings(items: Iterator[Progress | Recording]) -> list[Recording]:
    return [item for item in items if isinstance(item, Recording)]


def only_failure(recording: Recording) -> Failure:
    (failure,) = recording.failures
    return failure


def made_by(recording: Recording) -> int:
    assert recording.environment is not None
    return int(recording.environment.device_name)


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while read_stat(pid)[:1] not in ([], ["Z"]):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_the_process_survives_between_runs(make_worker: MakeWorker) -> None:
    worker = make_worker("finishes")
    items = list(worker.record(THREE))
    assert next(item.stage for item in items if isinstance(item, Progress)) == "queue"
    first = [item for item in items if isinstance(item, Recording)]
    assert tuple(recording.workload for recording in first) == THREE.workloads
    assert not any(recording.failures for recording in first)
    assert all(recording.trace_gz == b"\x00" * 300_000 for recording in first)
    (second,) = recordings(worker.record(ONE))
    assert {made_by(recording) for recording in [*first, second]} == {made_by(second)}
    assert made_by(second) != os.getpid()


def test_an_iterator_closed_at_its_last_recording_costs_nothing(make_worker: MakeWorker) -> None:
    worker = make_worker("finishes")
    makers = []
    for _ in range(3):
        with closing(worker.record(ONE)) as items:
            makers.append(made_by(next(item for item in items if isinstance(item, Recording))))
    assert len(set(makers)) == 1


def test_what_a_run_prints_does_not_reach_the_channel(
    make_worker: MakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    worker = make_worker("writes_to_standard_output")
    (recording,) = recordings(worker.record(ONE))
    assert recording.failures == ()
    worker.close()
    captured = capfd.readouterr()
    assert captured.out == ""
    for said in ("a print in the middle of a run", "bytes of a C library", "a grandchild"):
        assert said in captured.err


def test_stop_from_another_thread_ends_the_run(make_worker: MakeWorker) -> None:
    worker = make_worker("first_then_never_ends")
    results: list[Recording] = []
    for item in worker.record(THREE):
        if isinstance(item, Progress) and item.stage == "first_call" and not results[1:]:
            stopped_at = time.monotonic()
            threading.Thread(target=worker.stop).start()
        if isinstance(item, Recording):
            results.append(item)
    assert time.monotonic() - stopped_at < 5
    assert tuple(recording.workload for recording in results) == THREE.workloads
    assert results[0].failures == ()
    assert [only_failure(recording).kind for recording in results[1:]] == ["stopped", "stopped"]
    # The second was in its first call, the third had not begun.
    assert [only_failure(recording).stage for recording in results[1:]] == ["first_call", "queue"]
    assert worker.stop() is False


def test_closing_the_iterator_ends_the_process_and_all_it_started(make_worker: MakeWorker) -> None:
    worker = make_worker("ends_only_by_sigkill")
    with closing(worker.record(ONE)) as items:
        read_until(items, "profile")
        (pid,) = child_pids()
        grandchildren = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        grandchildren = [candidate for candidate in grandchildren if parent_pid(candidate) == pid]
        assert len(grandchildren) == 1
    assert pid not in child_pids()
    wait_until_gone(grandchildren[0])


def test_the_next_run_after_a_stop_is_served_by_a_new_process(make_worker: MakeWorker) -> None:
    worker = make_worker("naive_never_ends")
    quick = RunRequest(workloads=(Workload(backend="sdpa_math"),))
    (before,) = recordings(worker.record(quick))
    items = worker.record(ONE)
    read_until(items, "timing")
    items.close()
    (after,) = recordings(worker.record(quick))
    assert after.failures == ()
    assert made_by(after) != made_by(before)


def test_a_silent_stage_repeats_its_progress(make_worker: MakeWorker) -> None:
    worker = make_worker("never_ends")
    items = worker.record(ONE)
    read_until(items, "timing")
    started = time.monotonic()
    again = [stage(next(items)) for _ in range(2)]
    assert time.monotonic() - started < 3
    assert again == ["timing", "timing"]
    items.close()


def test_the_time_limit_ends_the_run(make_worker: MakeWorker) -> None:
    worker = make_worker("never_ends", time_limit_s=0.7)
    (recording,) = recordings(worker.record(ONE))
    failure = only_failure(recording)
    assert (failure.kind, failure.stage) == ("timeout", "timing")
    assert "0.7 s" in failure.message
    assert "smaller shape" in failure.hint


def test_the_time_limit_frees_the_device_when_nobody_reads(make_worker: MakeWorker) -> None:
    worker = make_worker("never_ends", time_limit_s=0.7)
    abandoned = worker.record(ONE)
    next(abandoned)
    next(abandoned)
    (pid,) = child_pids()
    wait_until_gone(pid)
    (other,) = recordings(worker.record(ONE))
    assert only_failure(other).kind == "timeout"
    (late,) = recordings(abandoned)
    assert only_failure(late).kind == "timeout"


@pytest.mark.parametrize(
    ("dtype", "kind", "words"),
    [
        (DType.FLOAT16, "crashed", ("SIGSEGV", "signal 11", "the last words before the fault")),
        (DType.FLOAT64, "crashed", ("exit code 3",)),
        (DType.BFLOAT16, "error", ("ValueError: a recorder's own fault", "Traceback")),
    ],
)
def test_a_fault_fails_its_run_and_not_the_next(
    make_worker: MakeWorker, dtype: DType, kind: str, words: tuple[str, ...]
) -> None:
    worker = make_worker("by_dtype")
    faulty = RunRequest(workloads=(Workload(dtype=dtype), Workload(dtype=dtype, backend="naive")))
    results = recordings(worker.record(faulty))
    assert tuple(recording.workload for recording in results) == faulty.workloads
    assert [only_failure(recording).kind for recording in results] == [kind, kind]
    assert [only_failure(recording).stage for recording in results] == ["warmup", "queue"]
    assert all(word in only_failure(results[0]).message for word in words)
    (after,) = recordings(worker.record(RunRequest(workloads=(Workload(dtype=DType.FLOAT32),))))
    assert after.failures == ()


def test_an_out_of_memory_kill_says_so(make_worker: MakeWorker) -> None:
    (recording,) = recordings(make_worker("killed").record(ONE))
    failure = only_failure(recording)
    assert (failure.kind, failure.stage) == ("crashed", "memory")
    assert "SIGKILL" in failure.message
    assert "memory" in failure.hint


def test_a_process_that_died_between_runs_is_replaced(make_worker: MakeWorker) -> None:
    worker = make_worker("finishes")
    (first,) = recordings(worker.record(ONE))
    os.kill(made_by(first), signal.SIGKILL)
    wait_until_gone(made_by(first))
    (second,) = recordings(worker.record(ONE))
    assert second.failures == ()


def test_a_lost_context_is_delivered_and_costs_the_process(make_worker: MakeWorker) -> None:
    worker = make_worker("loses_the_context")
    lost, unbegun = recordings(worker.record(RunRequest(workloads=THREE.workloads[:2])))
    assert only_failure(lost).sticky
    assert only_failure(unbegun).kind == "crashed"
    assert "lost the CUDA context" in only_failure(unbegun).message
    again, _ = recordings(worker.record(RunRequest(workloads=THREE.workloads[:2])))
    assert made_by(again) != made_by(lost)


def test_a_recorder_that_ends_short_still_accounts_for_every_workload(make_worker: MakeWorker) -> None:
    results = recordings(make_worker("ends_short").record(THREE))
    assert [recording.workload for recording in results if not recording.failures] == [THREE.workloads[1]]
    assert [only_failure(recording).kind for recording in results if recording.failures] == ["error", "error"]
    assert len(results) == 3


def test_a_request_for_the_environment_alone_is_owed_one_recording(make_worker: MakeWorker) -> None:
    (recording,) = recordings(make_worker("killed").record(RunRequest(workloads=(), depth="environment")))
    assert recording.workload is None
    assert only_failure(recording).kind == "crashed"


def test_only_this_projects_types_cross_the_channel(make_worker: MakeWorker) -> None:
    (recording,) = recordings(make_worker("sends_a_foreign_type").record(ONE))
    failure = only_failure(recording)
    assert failure.kind == "crashed"
    assert "pathlib" in failure.message


def test_enums_cross_also_where_python_would_write_a_call_of_getattr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.0 to 3.11.3, Debian 12's among them."""
    monkeypatch.setattr(DType, "__reduce_ex__", lambda self, protocol: (getattr, (DType, self.name)))
    pipe = io.BytesIO()
    write_frame(pipe, ONE)
    pipe.seek(0)
    assert read_frame(pipe) == ONE


def test_warm_returns_at_once_and_the_run_waits_for_it(make_worker: MakeWorker) -> None:
    worker = make_worker("finishes", warm_up="warm_up_slowly")
    started = time.monotonic()
    worker.warm()
    assert time.monotonic() - started < 0.5
    items = list(worker.record(ONE))
    assert time.monotonic() - started > 1.4
    assert items[-1] == recordings(iter(items))[0]
    assert sum(isinstance(item, Progress) and item.stage == "queue" for item in items) >= 3


@pytest.mark.parametrize(
    ("warm_up", "kind", "start_limit_s"), [("warm_up_for_ever", "timeout", 0.5), ("warm_up_dies", "crashed", 60.0)]
)
def test_a_process_that_cannot_start_is_a_failure(
    make_worker: MakeWorker, warm_up: str, kind: str, start_limit_s: float
) -> None:
    worker = make_worker("finishes", warm_up=warm_up, start_limit_s=start_limit_s)
    (recording,) = recordings(worker.record(ONE))
    assert (only_failure(recording).kind, only_failure(recording).stage) == (kind, "queue")


def test_a_failed_warm_up_leaves_the_reason_to_the_run(
    make_worker: MakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    worker = make_worker("finishes", warm_up="warm_up_fails")
    (recording,) = recordings(worker.record(ONE))
    assert recording.failures == ()
    worker.close()
    assert "no driver on this machine" in capfd.readouterr().err


def test_a_second_caller_waits_for_its_turn(make_worker: MakeWorker) -> None:
    worker = make_worker("never_ends", queue_limit_s=60)
    first, second = worker.record(ONE), worker.record(ONE)
    read_until(first, "timing")
    assert [stage(next(second)) for _ in range(3)] == ["queue"] * 3
    assert worker.stop()
    assert only_failure(recordings(first)[0]).kind == "stopped"
    read_until(second, "timing")
    second.close()


def test_a_caller_that_waited_too_long_is_told(make_worker: MakeWorker) -> None:
    worker = make_worker("never_ends", queue_limit_s=0.1)
    first = worker.record(ONE)
    read_until(first, "timing")
    (recording,) = recordings(worker.record(ONE))
    assert (only_failure(recording).kind, only_failure(recording).stage) == ("timeout", "queue")
    assert "busy" in only_failure(recording).message
    assert stage(next(first)) == "timing"
    first.close()


def test_an_iterator_may_be_read_by_one_thread_and_closed_by_another(make_worker: MakeWorker) -> None:
    worker = make_worker("never_ends")
    items = worker.record(ONE)
    reader = threading.Thread(target=lambda: [next(items) for _ in range(3)])
    reader.start()
    reader.join(20)
    items.close()
    assert worker.stop() is False


def test_close_ends_a_run_and_refuses_the_next(make_worker: MakeWorker) -> None:
    worker = make_worker("never_ends")
    items = worker.record(ONE)
    read_until(items, "timing")
    worker.close()
    (recording,) = recordings(items)
    assert only_failure(recording).kind == "stopped"
    with pytest.raises(RuntimeError, match="closed"):
        list(worker.record(ONE))


PARENT = """
import sys
from profiling.worker import Worker
from profiling.recording import Progress, RunRequest
from attention.workload import Workload

worker = Worker("worker_recorders:never_ends", warm_up=None)
for item in worker.record(RunRequest(workloads=(Workload(),))):
    if item.stage == "timing":
        print(worker._process.pid, "torch" in sys.modules, flush=True)
        {then}
"""


@pytest.mark.parametrize("then", ["input()", "sys.exit()"])
def test_the_process_never_outlives_its_parent(then: str) -> None:
    """Killed without a chance to clean up, or leaving through atexit: either way the process is gone soon."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(then=then)],
        cwd=HERE.parent.parent,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid, torch_imported = parent.stdout.readline().split()
        assert torch_imported == "False"
        if then == "input()":
            parent.kill()
        parent.wait(10)
    wait_until_gone(int(pid))
