"""The tutorial's case on the GPU: counts by correlation, the observed backend, correctness, the clocks."""

import functools

import pytest

from attention.backends import BACKENDS
from attention.validation import default_fields, parse_workload
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import Analysis, analyze_recording

# Compiled and graph-replayed ones have tests of their own.
SLUGS = tuple(backend.slug for backend in BACKENDS if backend.is_probed)
# kernels, memcpy a step: B8 H16 S1024 D64 bfloat16 causal.
COUNTS = {
    "naive": (5, 1),
    "naive_inplace": (5, 0),
    "sdpa_math": (20, 0),
    "sdpa_flash": (1, 0),
    "sdpa_efficient": (1, 0),
    "sdpa_cudnn": (1, 0),
}


def run(**fields) -> Recording:
    workload = parse_workload(default_fields("cuda") | fields)
    recordings = [item for item in record(RunRequest(workloads=(workload,))) if isinstance(item, Recording)]
    assert len(recordings) == 1
    return recordings[0]


@functools.cache
def analyze(backend: str) -> Analysis:
    return analyze_recording(run(backend=backend))


@pytest.mark.parametrize("backend", COUNTS)
def test_counts_per_step(backend):
    items = analyze(backend).report.device_items_per_step
    assert (items.kernels, items.memcpy) == COUNTS[backend]


@pytest.mark.parametrize("backend", SLUGS)
def test_run_is_whole_healthy_and_right(backend):
    report = analyze(backend).report
    assert report.failures == ()
    assert report.trace_health.status == "ok", report.trace_health.problems
    assert report.trace_health.linked_kernels == report.trace_health.launches > 0
    assert report.steps_recorded == report.schedule.active == 3
    assert report.correctness[0].within_budget
    assert report.correctness[0].nan_count == report.correctness[0].inf_count == 0


@pytest.mark.parametrize("backend", SLUGS)
def test_observed_is_what_was_asked_for(backend):
    observed = analyze(backend).report.observed_backend
    entry = next(entry for entry in BACKENDS if entry.slug == backend)
    assert observed.family in entry.families
    assert observed.confidence == "proven", observed


def test_auto_is_cudnn_on_hopper():
    import torch

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("SDPA prefers cuDNN on Hopper")
    report = analyze("sdpa_auto").report
    assert report.observed_backend.family == "cudnn"
    assert report.predicted_backend == "sdpa_cudnn"


@pytest.mark.parametrize("backend", SLUGS)
def test_graph_replay_agrees_with_kernel_records(backend):
    # Two clocks of one quantity. A graph leaves out the gaps between kernels that an eager step has, and
    # keeps the short ones between its own nodes, up to about 2 µs each.
    report = analyze(backend).report
    items = report.device_items_per_step
    slack_ns = 2_500 * (items.kernels + items.memcpy + items.memset)
    difference = abs(report.latency.device.median_ns - report.device_time_per_step_ns)
    assert difference <= slack_ns + 0.1 * report.device_time_per_step_ns


def test_graph_replay_agrees_with_do_bench():
    import torch
    from triton.testing import do_bench_cudagraph

    from attention.inputs import build_inputs

    workload = parse_workload(default_fields("cuda") | {"backend": "sdpa_flash"})
    backend = next(entry for entry in BACKENDS if entry.slug == "sdpa_flash")
    with backend.build(workload, build_inputs(workload, "cuda")) as call, torch.cuda.stream(torch.cuda.Stream()):
        theirs_ns = do_bench_cudagraph(call, return_mode="median") * 1e6
    ours_ns = analyze("sdpa_flash").report.latency.device.median_ns
    assert ours_ns == pytest.approx(theirs_ns, rel=0.1)


def test_naive_holds_two_score_matrices_and_flash_none():
    naive, flash = analyze("naive").report, analyze("sdpa_flash").report
    assert 2 * naive.cost.score_matrix_bytes <= naive.memory.materialized_bytes < 3 * naive.cost.score_matrix_bytes
    assert flash.memory.materialized_bytes < flash.cost.score_matrix_bytes / 32


def test_peak_stays_within_the_estimate():
    from attention.cost import estimate_memory

    for backend in SLUGS:
        analysis = analyze(backend)
        estimate = estimate_memory(analysis.recording.workload)
        call_bytes = estimate.inputs_bytes + estimate.output_bytes + estimate.mask_bytes + estimate.score_matrices_bytes
        # 64 MiB for cuBLAS and cuDNN workspaces and softmax statistics.
        assert analysis.report.memory.peak_bytes <= call_bytes + 64 * 2**20, backend
