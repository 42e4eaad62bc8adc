"""The child process that owns the GPU: warm runs, a lost context, a crash, Stop, the time limit; then the next run."""

import subprocess
import sys
import time

import pytest

from attention.validation import default_fields, parse_workload
from profiling.recording import Progress, Recording, RunRequest
from profiling.worker import Worker

FAULTS = {"lose_context": 13, "crash": 14, "hang": 15}
RECORD = "tests.gpu.faulty_recorder:record"


@pytest.fixture(scope="module")
def worker():
    worker = Worker(RECORD, time_limit_s=60)
    worker.warm()
    yield worker
    worker.close()


def request(seed: int = 0, *backends: str) -> RunRequest:
    workloads = tuple(
        parse_workload(default_fields("cuda") | {"backend": backend, "seed": seed})
        for backend in backends or ("sdpa_flash",)
    )
    return RunRequest(workloads=workloads)


def run(worker, request):
    return [item for item in worker.record(request) if isinstance(item, Recording)]


def assert_next_run_is_whole(worker):
    (recording,) = run(worker, request())
    assert recording.failures == ()
    assert recording.correctness[0].within_budget


def test_runs_and_survives(worker):
    assert_next_run_is_whole(worker)
    (recording,) = run(worker, request())
    assert recording.environment.device == "cuda"
    # The child is warm: nothing of a first import or context is in here.
    assert recording.gpu_seconds < 3


def test_a_lost_context_is_a_failure_and_costs_only_its_own_run(worker):
    (recording,) = run(worker, request(FAULTS["lose_context"]))
    assert any(failure.sticky for failure in recording.failures)
    assert recording.failures[-1].stage == "correctness"
    assert recording.trace_gz is not None
    assert_next_run_is_whole(worker)


def test_a_crash_is_a_failure_and_the_next_run_works(worker):
    (recording,) = run(worker, request(FAULTS["crash"]))
    assert [failure.kind for failure in recording.failures] == ["crashed"]
    assert recording.failures[0].stage == "correctness"
    assert "SIGSEGV" in recording.failures[0].message
    assert_next_run_is_whole(worker)


def test_stop_frees_the_gpu_and_the_next_run_works(worker):
    items = worker.record(request(FAULTS["hang"]))
    for item in items:
        if isinstance(item, Progress) and item.stage == "correctness":
            break
    began = time.monotonic()
    worker.stop()
    recordings = [item for item in items if isinstance(item, Recording)]
    assert time.monotonic() - began < 10
    assert [failure.kind for failure in recordings[-1].failures] == ["stopped"]
    assert_next_run_is_whole(worker)


def test_the_time_limit_ends_a_hang():
    worker = Worker(RECORD, time_limit_s=5)
    try:
        (recording,) = run(worker, request(FAULTS["hang"]))
        assert [failure.kind for failure in recording.failures] == ["timeout"]
        assert_next_run_is_whole(worker)
    finally:
        worker.close()


def test_the_parent_never_touches_cuda():
    code = (
        "import sys\n"
        "from attention.validation import parse_workload\n"
        "from profiling.recording import Recording, RunRequest\n"
        "from profiling.worker import Worker\n"
        "worker = Worker()\n"
        "items = list(worker.record(RunRequest(workloads=(parse_workload({}),))))\n"
        "assert isinstance(items[-1], Recording) and not items[-1].failures, items[-1]\n"
        "assert 'torch' not in sys.modules\n"
        "worker.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
