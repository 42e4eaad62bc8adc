"""The app's ZeroGPU entry under the real ``spaces`` package: forked worker, refusals, and a lost CUDA context.

Each case is a process of its own, because ``spaces`` patches torch for good when it is imported in this mode.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.torch
HERE = Path(__file__).parent
PROJECT = HERE.parent.parent

# Prints one JSON line for each run: a list of what came out of the app's recorder.
PROGRAM = """
import json, os, sys
import spaces
import app
from dataclasses import replace
from attention.workload import DType, Workload
from profiling import recorder
from profiling.recording import Failure, Progress, Recording, RunRequest

# The only two steps of a worker's start that need a driver.
spaces.zero.torch.init = lambda nvidia_uuid: None
spaces.zero.torch.move = lambda callback=None: None

small = Workload(batch_size=1, num_heads=2, kv_heads=2, seq_len_q=64, seq_len_kv=64, head_dim=32, dtype=DType.FLOAT32)
request = RunRequest(workloads=(replace(small, backend="naive"), replace(small, backend="sdpa_math")))

def run():
    items = list(app.choose_recorder()(request))
    print("ITEMS", json.dumps([describe(item) for item in items]), flush=True)

def describe(item):
    if isinstance(item, Progress):
        return item.stage
    return {
        "backend": item.workload.backend,
        "failures": [[failure.kind, failure.message, failure.hint] for failure in item.failures],
        "trace": item.trace_gz is not None,
        "device": item.environment and item.environment.device,
        "pid": dict(item.inputs_fingerprint).get("pid"),
    }

def stand_in(record):
    recorder.record = record

def lose_context(request):
    yield Progress(stage="timing", workload_index=0, workload_count=2, done=0, total=2)
    failure = Failure(stage="timing", kind="crashed", message="illegal memory access", hint="", sticky=True)
    yield Recording(workload=request.workloads[0], failures=(failure,), inputs_fingerprint={"pid": os.getpid()},
                    trace_gz=bytes(300_000))
    yield Recording(workload=request.workloads[1])

def tell_pid(request):
    for workload in request.workloads:
        yield Recording(workload=workload, inputs_fingerprint={"pid": os.getpid()})

def die(request):
    yield Progress(stage="first_call", workload_index=0, workload_count=2, done=0, total=2)
    os._exit(9)

def raise_fault(request):
    yield Progress(stage="first_call", workload_index=0, workload_count=2, done=0, total=2)
    raise KeyError("a fault of the recorder")

%s
"""


@pytest.fixture(scope="module")
def scheduler_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fake_zero_gpu_scheduler", HERE / "fake_zero_gpu_scheduler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def scheduler(scheduler_module: ModuleType) -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    pytest.importorskip("spaces")
    if torch.version.cuda is None:
        pytest.skip("spaces in ZeroGPU mode needs a CUDA build of torch")
    with scheduler_module.serve() as running:
        yield running


def run(scheduler: Any, body: str) -> list[list[Any]]:
    """The items of each ``run()`` in ``body``."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % body],
        cwd=PROJECT,
        env={**os.environ, **scheduler.environment(), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("ITEMS ")]


def results(items: list[Any]) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)]


def test_the_real_recorder_runs_in_the_forked_worker(scheduler: Any) -> None:
    (items,) = run(scheduler, "run()")
    first, second = results(items)
    assert [first["backend"], second["backend"]] == ["naive", "sdpa_math"]
    assert first["failures"] == second["failures"] == []
    assert first["trace"]
    assert second["trace"]
    assert first["device"] == "cpu"
    assert "profile" in items
    paths = [path for path, _ in scheduler.calls]
    assert paths == ["/schedule", "/allow", "/release"]
    asked = dict(scheduler.calls)["/schedule"]
    assert 5 < int(asked["durationSeconds"]) < 60  # computed, after the scheduler's own factor
    assert dict(scheduler.calls)["/release"]["fail"] == "false"


def test_a_worker_that_ended_well_is_used_again(scheduler: Any) -> None:
    first, second = run(scheduler, "stand_in(tell_pid); run(); run()")
    assert len({result["pid"] for result in [*results(first), *results(second)]}) == 1


def test_a_lost_context_is_delivered_and_meets_nobody_else(scheduler: Any) -> None:
    # The worker is forked with the first recorder in place; one that was used again would run that one again.
    first, second = run(scheduler, "stand_in(lose_context); run(); stand_in(tell_pid); run()")
    lost, unbegun = results(first)
    assert lost["failures"][0][:2] == ["crashed", "illegal memory access"]
    assert lost["trace"]
    ((kind, message, _),) = unbegun["failures"]
    assert kind == "crashed"
    assert "lost the CUDA context" in message
    assert [result["failures"] for result in results(second)] == [[], []]
    assert lost["pid"] not in {result["pid"] for result in results(second)}


def test_a_refusal_of_the_scheduler_is_a_failure_of_each_workload(scheduler: Any) -> None:
    expected = {
        "quota": ("quota", "quota exceeded"),
        "too_long": ("quota", "larger than the maximum allowed"),
        "no_gpu": ("unavailable", "No GPU was available"),
        "queue_timeout": ("unavailable", "No GPU was available after 60s"),
    }
    scheduler.answers = [*expected, "grant"]
    *refused, granted = run(scheduler, "stand_in(tell_pid)\nfor _ in range(5): run()")
    for items, (kind, words) in zip(refused, expected.values(), strict=True):
        assert [result["backend"] for result in results(items)] == ["naive", "sdpa_math"]
        for result in results(items):
            ((failure_kind, message, hint),) = result["failures"]
            assert failure_kind == kind
            assert words in message
            assert hint
    assert [result["failures"] for result in results(granted)] == [[], []]


def test_a_worker_that_dies_is_a_crash_and_an_exception_an_error_with_its_name(scheduler: Any) -> None:
    died, raised = run(scheduler, "stand_in(die); run(); stand_in(raise_fault); run()")
    assert [result["failures"][0][0] for result in results(died)] == ["crashed", "crashed"]
    assert "GPU task aborted" in results(died)[0]["failures"][0][1]
    assert [result["failures"][0][0] for result in results(raised)] == ["error", "error"]
    assert "KeyError" in results(raised)[0]["failures"][0][1]


def test_a_closed_iterator_ends_the_run_at_its_next_item(scheduler: Any) -> None:
    body = (
        "items = app.choose_recorder()(request)\n"
        "seen = [next(items) for _ in range(3)]\n"
        "items.close()\n"
        "print('ITEMS', json.dumps([describe(item) for item in seen]))"
    )
    (items,) = run(scheduler, body)
    assert results(items) == []
    assert [path for path, _ in scheduler.calls] == ["/schedule", "/allow", "/release"]
