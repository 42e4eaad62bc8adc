"""Operations beyond attention on the GPU: how many kernels each form runs, what fusing gains, are both right."""

import functools

import pytest

from attention.call import build_call
from attention.fusion import OPERATIONS
from attention.fusion.backends import FUSION_BACKENDS
from attention.fusion.inputs import build_inputs
from attention.kinds import FUSION
from attention.validation import complete_fields, parse_workload
from profiling.correctness import check_results
from profiling.export.replay_script import EXPORTER
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording

NAMES = [operation.slug for operation in OPERATIONS]
CASES = [(name, backend.slug) for name in NAMES for backend in FUSION_BACKENDS]
SMALL = {
    "swiglu": {"tokens": 300, "hidden_size": 256, "intermediate_size": 704},
    "residual_rms_norm": {"tokens": 300, "hidden_size": 1000},
}
# Allocator rounding, cuBLAS's workspace, and a few numbers a row.
MEMORY_SLACK_BYTES = 64 * 2**20


@functools.cache
def run(operation, backend):
    """The GPU's default case of the operation: the feed-forward block and the norm of an 8 B model, bfloat16."""
    fields = complete_fields({"operation": operation, "backend": backend}, "cuda")
    items = record(RunRequest(workloads=(parse_workload(fields),)))
    (recording,) = (item for item in items if isinstance(item, Recording))
    return analyze_recording(recording)


def roles(report):
    """Kernels a step by role."""
    counts = {}
    for kernel in report.kernels:
        if kernel.kind == "kernel":
            counts[kernel.role] = counts.get(kernel.role, 0) + kernel.calls_per_step
    return counts


def listed(report):
    return [(kernel.short_name, kernel.role, kernel.calls_per_step, kernel.mean_ns) for kernel in report.kernels]


@pytest.mark.parametrize(("operation", "backend"), CASES)
def test_a_whole_run_is_right_and_proven(operation, backend):
    report = run(operation, backend).report
    assert report.failures == (), report.failures
    assert report.trace_health.status == "ok", report.trace_health.problems
    observed = report.observed_backend
    assert (observed.family, observed.confidence) == (backend, "proven"), (observed, listed(report))
    (delta,) = report.correctness
    print(f"{operation}, {backend}: {delta.max_abs_error:.3g} of {delta.error_budget:.3g}, {report.gpu_seconds:.2f} s")
    assert delta.within_budget, delta
    assert report.latency.device is not None
    said = {verdict.rule: (verdict.status, verdict.severity, verdict.explanation) for verdict in report.verdicts}
    assert said["backend_match"][0] == "clear", said["backend_match"]
    assert said["score_matrix"][0] == "not_evaluated"
    # A healthy run fires nothing above "info", but that its host may be slower than its device.
    loud = {rule for rule, (_, severity, _) in said.items() if severity in ("warning", "error")} - {"host_bound"}
    assert not loud, said
    if backend == "compiled":
        assert (report.compilation.graph_breaks, report.compilation.recompiles) == (0, 0), report.compilation


def test_rms_norm_is_one_kernel_compiled_and_several_eager():
    eager, compiled = (run("residual_rms_norm", backend).report for backend in ("eager", "compiled"))
    assert compiled.device_items_per_step.kernels == 1, listed(compiled)
    # add, cast, square, mean, add epsilon, rsqrt, multiply, cast back, weight
    assert eager.device_items_per_step.kernels == 9, listed(eager)
    assert compiled.memory.materialized_bytes < compiled.memory.output_bytes, compiled.memory


def test_swiglu_keeps_its_products_and_fuses_the_rest():
    eager, compiled = (run("swiglu", backend).report for backend in ("eager", "compiled"))
    assert roles(eager).get("gemm") == 3, listed(eager)
    assert roles(compiled).get("gemm") == 3, listed(compiled)
    assert eager.device_items_per_step.kernels == 5, listed(eager)
    assert compiled.device_items_per_step.kernels == 4, listed(compiled)


@pytest.mark.parametrize("operation", NAMES)
def test_fusing_gains_where_no_product_dominates(operation):
    eager, compiled = (run(operation, backend).report for backend in ("eager", "compiled"))
    times = [report.latency.device.median_ns for report in (eager, compiled)]
    ratio = times[0] / times[1]
    shares = {
        role: sum(kernel.share_of_device_time for kernel in compiled.kernels if kernel.role == role)
        for role in roles(compiled)
    }
    print(f"{operation}: eager {times[0] / 1e3:.1f} µs, compiled {times[1] / 1e3:.1f} µs, eager/compiled {ratio:.3f}")
    print(f"{operation}: compiled's device time by role {shares}, roofline {compiled.roofline}")
    if operation == "residual_rms_norm":
        assert ratio > 2, (times, listed(eager), listed(compiled))
    else:
        assert 0.9 < ratio < 1.3, (times, listed(eager), listed(compiled))
        assert shares["gemm"] > 0.8, shares


@pytest.mark.parametrize(("operation", "backend"), CASES)
def test_the_estimate_of_memory_is_no_less_than_the_peak(operation, backend):
    report = run(operation, backend).report
    memory, estimate = report.memory, FUSION.estimate_memory(report.workload)
    held = estimate.inputs_bytes + estimate.call_bytes
    print(f"{operation}, {backend}: peak {memory.peak_bytes}, inputs and call {held}, whole {estimate.total_bytes}")
    assert memory.inputs_bytes == estimate.inputs_bytes
    assert memory.peak_bytes <= held + MEMORY_SLACK_BYTES, memory
    assert memory.peak_bytes <= estimate.total_bytes, memory


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("operation", NAMES)
def test_small_calls_are_within_budget(operation, dtype):
    for backend in FUSION_BACKENDS:
        fields = {"operation": operation, "backend": backend.slug, "dtype": dtype, "seed": 7} | SMALL[operation]
        workload = parse_workload(fields)
        inputs = build_inputs(workload, "cuda")
        with build_call(backend, workload, inputs) as call:
            call()
            (delta,) = check_results(workload, inputs, call())
        assert delta.within_budget, (backend.slug, delta)


@pytest.mark.parametrize("operation", NAMES)
def test_a_replay_passes(operation, tmp_path, monkeypatch, capsys):
    import runpy
    import sys

    path = tmp_path / "replay.py"
    path.write_bytes(EXPORTER.write(run(operation, "compiled")))
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    output = capsys.readouterr().out
    assert ended.value.code == 0, output


def test_runs_give_their_memory_back():
    import gc

    import torch

    def once():
        fields = {"operation": "swiglu", "backend": "compiled"} | SMALL["swiglu"]
        list(record(RunRequest(workloads=(parse_workload(fields),))))
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_allocated()

    once()  # workspaces that stay for the process
    before = once()
    after = once()
    assert after <= before + 2**20, (before, after)
