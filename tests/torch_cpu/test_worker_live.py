"""The worker process with the real recorder and torch on the CPU."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attention.workload import DType, Workload
from profiling.recording import Progress, Recording, RunRequest
from profiling.worker import Worker

pytestmark = pytest.mark.torch
PROJECT = Path(__file__).parent.parent.parent
SMALL = Workload(
    backend="naive",
    batch_size=1,
    num_heads=2,
    kv_heads=2,
    seq_len_q=64,
    seq_len_kv=64,
    head_dim=32,
    dtype=DType.FLOAT32,
)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    made.warm()
    yield made
    made.close()


def request(*workloads: Workload) -> RunRequest:
    return RunRequest(workloads=workloads, device="cpu")


def one_recording(worker: Worker, workload: Workload) -> Recording:
    (recording,) = (item for item in worker.record(request(workload)) if isinstance(item, Recording))
    return recording


def test_a_whole_recording_comes_back(worker: Worker) -> None:
    items = list(worker.record(request(SMALL)))
    stages = [item.stage for item in items if isinstance(item, Progress)]
    assert stages[0] == "queue"
    assert {"first_call", "timing", "profile", "correctness"} <= set(stages)
    recording = items[-1]
    assert isinstance(recording, Recording)
    assert recording.failures == ()
    assert recording.trace_gz is not None
    assert recording.correctness[0].within_budget
    assert recording.environment is not None
    assert type(recording.environment.torch) is str


def test_both_runs_are_served_by_one_process(worker: Worker) -> None:
    one_recording(worker, SMALL)
    before = worker_pids()
    assert len(before) == 1
    one_recording(worker, SMALL)
    assert worker_pids() == before


def worker_pids() -> set[int]:
    """Children of this process that own a device."""
    pids = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (entry / "cmdline").is_file():
            status, command = (entry / "status").read_text(), (entry / "cmdline").read_text()
            if f"PPid:\t{os.getpid()}\n" in status and "profiling.worker_child" in command:
                pids.add(int(entry.name))
    return pids


def test_a_refused_backend_is_a_result_and_the_process_goes_on(worker: Worker) -> None:
    refused = one_recording(worker, replace(SMALL, backend="sdpa_cudnn"))
    assert [failure.kind for failure in refused.failures] == ["refused"]
    assert one_recording(worker, SMALL).failures == ()


def test_a_long_run_stops_in_the_middle_and_the_next_one_works(worker: Worker) -> None:
    long = replace(SMALL, backend="sdpa_math", num_heads=8, kv_heads=8, seq_len_q=4096, seq_len_kv=4096)
    items = worker.record(request(long))
    for item in items:
        if isinstance(item, Progress) and item.stage in ("first_call", "warmup", "timing"):
            break
    started = time.monotonic()
    worker.stop()
    (recording,) = (item for item in items if isinstance(item, Recording))
    assert time.monotonic() - started < 3
    assert [failure.kind for failure in recording.failures] == ["stopped"]
    assert one_recording(worker, SMALL).failures == ()


def test_the_calling_process_imports_no_torch() -> None:
    code = (
        "import sys\n"
        "from profiling.worker import Worker\n"
        "from profiling.recording import Recording, RunRequest\n"
        "worker = Worker(warm_up=None)\n"
        "items = list(worker.record(RunRequest(workloads=(), depth='environment', device='cpu')))\n"
        "assert isinstance(items[-1], Recording) and not items[-1].failures, items\n"
        "assert items[-1].environment.torch\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True, timeout=60)
