"""ZeroGPU on a real GPU: the real ``spaces`` package forks the worker, the parent sees no GPU, the recorder profiles.

The scheduler is a stand-in on loopback; everything else is what runs on a Space.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent.parent
SCHEDULER = PROJECT / "tests" / "torch_cpu" / "fake_zero_gpu_scheduler.py"

PROGRAM = """
import json, multiprocessing, time
import spaces
import app
from attention.validation import parse_workload
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording

for backend in ("sdpa_flash", "naive", "sdpa_flash"):
    request = RunRequest(workloads=(parse_workload({"backend": backend}),))
    began = time.perf_counter()
    recordings = [item for item in app.choose_recorder()(request) if isinstance(item, Recording)]
    seconds = time.perf_counter() - began
    report = analyze_recording(recordings[0]).report
    items = report.device_items_per_step
    print("RUN", json.dumps({
        "seconds": seconds,
        "failures": [failure.message for failure in report.failures],
        "family": report.observed_backend and report.observed_backend.family,
        "kernels": items and items.kernels,
        "device": report.environment and report.environment.device_name,
        "on_zero_gpu": report.environment and report.environment.on_zero_gpu,
        "health": report.trace_health and report.trace_health.status,
        "within_budget": [delta.within_budget for delta in report.correctness],
    }), flush=True)

# The worker waits for the next visitor for ever, and this process would wait for it.
for worker in multiprocessing.active_children():
    worker.kill()
"""


def gpu_uuid() -> str:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    return listed.partition("UUID: ")[2].partition(")")[0]


def test_the_recorder_profiles_in_the_forked_worker():
    pytest.importorskip("spaces")
    spec = importlib.util.spec_from_file_location("fake_zero_gpu_scheduler", SCHEDULER)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with module.serve(gpu_uuid=gpu_uuid()) as scheduler:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=PROJECT,
            env={**os.environ, **scheduler.environment(), "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    runs = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("RUN ")]
    print("ZeroGPU stand-in, seconds a run, cold then warm:", [round(run["seconds"], 2) for run in runs])
    assert [run["family"] for run in runs] == ["flash", "naive", "flash"]
    for run in runs:
        assert run["failures"] == []
        assert run["health"] == "ok"
        assert run["on_zero_gpu"]
        assert "NVIDIA" in run["device"]
        assert run["within_budget"] == [True]
    assert [run["kernels"] for run in runs] == [1, 5, 1]
