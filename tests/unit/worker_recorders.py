"""Recorders that the worker's tests run in its process: each does one thing a real one can do, without torch."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from profiling.recording import Environment, Failure, Progress, Recording, RunRequest, Stage


def progress(stage: Stage, index: int = 0, count: int = 1) -> Progress:
    return Progress(stage=stage, workload_index=index, workload_count=count, done=index + 1, total=count + 1)


def whole(request: RunRequest, index: int) -> Recording:
    """A finished recording whose environment tells which process made it."""
    return Recording(
        workload=request.workloads[index],
        environment=Environment(device="cpu", device_name=str(os.getpid())),
        trace_gz=b"\x00" * 300_000,  # several pipe buffers
    )


def finishes(request: RunRequest) -> Iterator[Progress | Recording]:
    for index in range(len(request.workloads)):
        yield progress("timing", index, len(request.workloads))
        yield whole(request, index)


def writes_to_standard_output(request: RunRequest) -> Iterator[Progress | Recording]:
    print("a print in the middle of a run")
    os.write(1, b"bytes of a C library\n")
    subprocess.run([sys.executable, "-c", "print('a grandchild')"], check=True)
    yield whole(request, 0)


def never_ends(request: RunRequest) -> Iterator[Progress | Recording]:
    yield progress("environment")
    yield progress("timing")
    time.sleep(3600)


def naive_never_ends(request: RunRequest) -> Iterator[Progress | Recording]:
    yield from never_ends(request) if request.workloads[0].backend == "naive" else finishes(request)


def ends_only_by_sigkill(request: RunRequest) -> Iterator[Progress | Recording]:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    yield progress("profile")
    time.sleep(3600)


def first_then_never_ends(request: RunRequest) -> Iterator[Progress | Recording]:
    yield from finishes(RunRequest(workloads=request.workloads[:1]))
    yield progress("first_call", 1, len(request.workloads))
    time.sleep(3600)


def by_dtype(request: RunRequest) -> Iterator[Progress | Recording]:
    """float16 dies by a segmentation fault, float64 by exit, bfloat16 raises, float32 finishes."""
    yield progress("warmup")
    match request.workloads[0].dtype:
        case "float16":
            print("the last words before the fault", file=sys.stderr, flush=True)
            ctypes.string_at(0)
        case "float64":
            os._exit(3)
        case "bfloat16":
            raise ValueError("a recorder's own fault")
    yield from finishes(request)


def killed(request: RunRequest) -> Iterator[Progress | Recording]:
    yield progress("memory")
    os.kill(os.getpid(), 9)


def loses_the_context(request: RunRequest) -> Iterator[Progress | Recording]:
    failure = Failure(stage="timing", kind="error", message="illegal memory access", hint="", sticky=True)
    yield Recording(
        workload=request.workloads[0],
        environment=Environment(device="cuda", device_name=str(os.getpid())),
        failures=(failure,),
    )


def ends_short(request: RunRequest) -> Iterator[Progress | Recording]:
    yield whole(request, 1)


def sends_a_foreign_type(request: RunRequest) -> Iterator[object]:
    yield Path("/")


def warm_up_slowly() -> None:
    time.sleep(1.5)


def warm_up_for_ever() -> None:
    time.sleep(3600)


def warm_up_fails() -> None:
    raise RuntimeError("no driver on this machine")


def warm_up_dies() -> None:
    os._exit(7)
