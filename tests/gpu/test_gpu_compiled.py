"""The compiled and graph-replayed backends on the GPU: what ran, once compiled, right, and nothing left behind."""

import functools

import pytest

from attention.backends import BACKENDS
from attention.call import build_call
from attention.cost import estimate_memory
from attention.inputs import build_inputs
from attention.lookup import find
from attention.validation import default_fields, parse_workload
from attention.workload import DType
from profiling.correctness import check_results
from profiling.environment import build_device_facts, capture_environment
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording

# Those that take the tutorial's case: decoding over a block table has tests of its own.
WHOLE = tuple(backend for backend in BACKENDS if not backend.measure_paging)
SLUGS = tuple(backend.slug for backend in WHOLE if backend.compiles or backend.holds_graph)
COMPILED = tuple(backend.slug for backend in WHOLE if backend.compiles and backend.slug != "flex_eager")
GRAPHS = tuple(backend.slug for backend in BACKENDS if backend.holds_graph)
SMALL = {"batch_size": 2, "num_heads": 4, "kv_heads": 2, "seq_len_q": 256, "seq_len_kv": 256, "head_dim": 64}
# Allocator rounding, a library's workspace, row statistics, and the 48 MiB of query, key and value that a compiled
# graph copies into its own memory.
MEMORY_SLACK_BYTES = 128 * 2**20


def build(backend, **fields):
    return parse_workload(default_fields("cuda") | fields | {"backend": backend})


@functools.cache
def report_of(backend):
    """The tutorial's case: B8 H16 S1024 D64 bfloat16 causal."""
    items = record(RunRequest(workloads=(build(backend),)))
    (recording,) = (item for item in items if isinstance(item, Recording))
    return analyze_recording(recording).report


@pytest.mark.parametrize("backend", SLUGS)
def test_a_whole_run_is_right_and_proven(backend):
    report = report_of(backend)
    # Not compiled, flex moves a scalar from the host on every call, which a CUDA graph cannot hold.
    untimed = {"timing"} if backend == "flex_eager" else set()
    assert {failure.stage for failure in report.failures} == untimed
    assert report.trace_health.status == "ok", report.trace_health.problems
    assert all(delta.within_budget for delta in report.correctness), report.correctness
    observed = report.observed_backend
    assert observed.family in find(backend, BACKENDS, field="backend").families, observed
    assert observed.confidence == "proven", observed
    decision = next(decision for decision in report.decisions if decision.backend == backend)
    assert (decision.verdict, decision.basis) == ("accepted", "probe")


@pytest.mark.parametrize("backend", COMPILED)
def test_it_compiles_once(backend):
    report = report_of(backend)
    compilation = report.compilation
    assert compilation is not None
    assert (compilation.graph_breaks, compilation.recompiles) == (0, 0)
    assert 0 < compilation.compile_ns <= report.latency.first_call_ns
    assert report.latency.first_call_ns > 10 * report.latency.wall.median_ns
    seconds = report.latency.first_call_ns / 1e9
    print(f"{backend}: first call {seconds:.2f} s, of it compiling {compilation.compile_ns / 1e9:.2f} s")


def test_flex_is_one_kernel():
    report = report_of("flex")
    assert (report.device_items_per_step.kernels, report.device_items_per_step.memcpy) == (1, 0)
    assert report.observed_backend.family == "flex"


@pytest.mark.parametrize("backend", ["compiled_naive", "compiled_naive_max_autotune"])
def test_compiled_naive_fuses_all_but_the_products(backend):
    # naive itself has five kernels and a copy.
    assert report_of(backend).device_items_per_step.kernels <= 4


@pytest.mark.parametrize("backend", ["compiled_naive", "compiled_naive_cudagraph", "compiled_naive_max_autotune"])
def test_a_masked_compiled_formula_is_seen_as_one(backend):
    assert report_of(backend).observed_backend.family == "compiled_naive"


@pytest.mark.parametrize("backend", GRAPHS)
def test_a_graph_is_one_launch_and_is_timed_as_such(backend):
    report = report_of(backend)
    assert any(text.startswith("launch cudaGraphLaunch") for text in report.observed_backend.evidence)
    assert "the backend's own CUDA graph" in report.latency.device.method
    # A call whose device time is not the kernels' would show a host that is slower than the device.
    assert report.latency.device.median_ns == pytest.approx(report.device_time_per_step_ns, rel=0.25)


@pytest.mark.parametrize("backend", SLUGS)
def test_the_estimate_of_memory_is_no_less_than_the_peak(backend):
    report = report_of(backend)
    estimate = estimate_memory(report.workload)
    print(f"{backend}: peak {report.memory.peak_bytes / 2**20:.0f} MiB, {report.memory.materialized_bytes / 2**20:.0f}")
    assert report.memory.peak_bytes <= estimate.total_bytes + MEMORY_SLACK_BYTES
    matrices = find(backend, BACKENDS, field="backend").score_matrices
    if not matrices:
        assert report.memory.materialized_bytes < report.cost.score_matrix_bytes


@pytest.mark.parametrize(
    ("mask", "dtype", "direction"),
    [
        ("none", "bfloat16", "forward"),
        ("causal", "float32", "forward"),
        ("alibi", "float16", "forward"),
        ("causal", "bfloat16", "forward_backward"),
        ("alibi", "float32", "forward_backward"),
        ("causal", "float64", "forward_backward"),
    ],
)
def test_small_calls_are_within_budget(mask, dtype, direction):
    facts = build_device_facts(capture_environment("cuda"))
    ran = []
    for slug in SLUGS:
        if slug == "compiled_naive_max_autotune":
            continue  # the same formula as compiled_naive, and half a minute of tuning each
        workload = build(slug, mask=mask, dtype=dtype, direction=direction, **SMALL)
        backend = find(slug, BACKENDS, field="backend")
        if backend.check(workload, facts).verdict != "accepted":
            continue
        inputs = build_inputs(workload, "cuda")
        with build_call(backend, workload, inputs) as call:
            for _ in range(3):  # a graph is recorded by the second call and replayed from the third on
                results = call()
            deltas = check_results(workload, inputs, results)
        assert all(delta.within_budget for delta in deltas), (slug, deltas)
        ran.append(slug)
    assert "compiled_naive" in ran


@pytest.mark.parametrize("fields", [{"dtype": "float64"}, {"head_dim": 8}], ids=str)
def test_what_the_flex_rule_rejects_torch_does_not_run(fields):
    workload = build("flex", **SMALL | fields)
    backend = find("flex", BACKENDS, field="backend")
    assert backend.check(workload, build_device_facts(capture_environment("cuda"))).verdict == "rejected"
    inputs = build_inputs(workload, "cuda")
    # The compiler's own error, or NotImplementedError, which is one too.
    with build_call(backend, workload, inputs) as call, pytest.raises(RuntimeError, match=r"\S") as raised:
        call()
    print(f"{fields}: {type(raised.value).__name__}: {str(raised.value)[:300]}")


@pytest.mark.parametrize("backend", SLUGS)
def test_a_run_gives_its_memory_back(backend):
    import gc

    import torch

    if backend == "compiled_naive_max_autotune":
        pytest.skip("leaves what compiled_naive leaves, and takes half a minute")

    def run():
        list(record(RunRequest(workloads=(build(backend, dtype=DType.BFLOAT16, **SMALL),))))
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_allocated()

    run()  # workspaces that stay for the process
    before = run()
    assert run() <= before + 2**20
