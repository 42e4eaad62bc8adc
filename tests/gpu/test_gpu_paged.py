"""Decoding over a block table on the GPU: right for every shape, seen as what it is, in memory as estimated."""

import functools

import pytest

from attention.backends import BACKENDS
from attention.call import build_call
from attention.cost import estimate_memory
from attention.inputs import build_inputs
from attention.lookup import find
from attention.paging import DecodeConfig, build_block_table
from attention.validation import default_fields, parse_workload
from profiling.correctness import check_results
from profiling.environment import build_device_facts, capture_environment
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording

FAMILIES = {"paged_gather": "paged_gather", "paged_flex": "flex", "paged_triton": "paged_triton"}
BASE = {
    "batch_size": 4,
    "num_heads": 32,
    "kv_heads": 8,
    "seq_len_q": 1,
    "seq_len_kv": 2000,
    "head_dim": 128,
    "mask": "none",
}
RAGGED = {"mask": "padding", "mask_lengths": "2000,1,1024,777"}
ONE_EMPTY = {"mask": "padding", "mask_lengths": "2000,0,16,17"}
CASES = (
    {},
    RAGGED,
    ONE_EMPTY,
    {"mask": "causal", "mask_alignment": "lower_right"},
    {"kv_heads": 32},
    {"kv_heads": 1} | RAGGED,
    {"num_heads": 96, "kv_heads": 1} | RAGGED,
    {"num_heads": 24} | RAGGED,
    {"layout": "transposed"} | RAGGED,
    {"layout": "expanded_kv"},
    {"head_dim": 64, "head_dim_v": 128} | RAGGED,
    {"head_dim": 256, "kv_heads": 2},
    {"head_dim": 16, "dtype": "float16"},
    {"dtype": "float32"} | RAGGED,
    {"dtype": "float32", "head_dim": 256},
    {"batch_size": 1, "seq_len_kv": 16384},
    {"batch_size": 1, "seq_len_kv": 1},
    {"scale": 0.25} | RAGGED,
)
# Rounding of the allocator, libraries' workspaces, and the parts of a split.
SLACK_BYTES = 64 * 2**20


def build(backend, **fields):
    return parse_workload(default_fields("cuda") | BASE | fields | {"backend": backend})


@functools.cache
def report_of(backend, ragged):
    lengths = ",".join(map(str, range(256, 4097, 256)))
    mask = {"mask": "padding", "mask_lengths": lengths} if ragged else {}
    workload = build(backend, batch_size=16, seq_len_kv=4096, **mask)
    (recording,) = (item for item in record(RunRequest(workloads=(workload,))) if isinstance(item, Recording))
    return analyze_recording(recording).report


@pytest.mark.parametrize("backend", FAMILIES)
@pytest.mark.parametrize("fields", CASES, ids=str)
def test_what_the_rule_accepts_is_within_budget(backend, fields):
    workload = build(backend, **fields)
    entry = find(backend, BACKENDS, field="backend")
    decision = entry.check(workload, build_device_facts(capture_environment("cuda")))
    if decision.verdict == "rejected":
        pytest.skip(decision.reason)
    inputs = build_inputs(workload, "cuda")
    with build_call(entry, workload, inputs) as call:
        (delta,) = check_results(workload, inputs, call())
    assert delta.within_budget, f"{workload}: {delta.max_abs_error} over {delta.error_budget}, {delta}"
    assert (delta.nan_count, delta.inf_count) == (0, 0), delta


@pytest.mark.parametrize("fields", [{}, RAGGED, ONE_EMPTY, {"dtype": "float32", "head_dim": 64} | RAGGED], ids=str)
@pytest.mark.parametrize("splits", [1, 2, 7, 32])
def test_every_launch_of_the_kernel_gives_the_same_answer(fields, splits):
    import torch

    from attention.backends.paged import build_table_tensor, fill_cache
    from attention.backends.paged_kernel import paged_decode

    workload = build("paged_triton", **fields)
    inputs, table = build_inputs(workload, "cuda"), build_block_table(workload)
    lengths = torch.tensor(table.lengths, dtype=torch.int32, device="cuda")
    rows = build_table_tensor(table, inputs.query.device)
    caches = fill_cache(inputs.key, table), fill_cache(inputs.value, table)
    for tokens, warps, stages in ((16, 4, 1), (32, 2, 3), (64, 4, 3), (128, 8, 2)):
        if tokens > 64 and workload.dtype == "float32":
            continue  # more shared memory than the launch would ever ask for
        config = DecodeConfig(tokens_per_step=tokens, num_warps=warps, num_stages=stages, splits=splits)
        output = paged_decode(inputs.query, *caches, rows, lengths, workload.softmax_scale, config)
        (delta,) = check_results(workload, inputs, (output,))
        assert delta.within_budget, f"{config}: {delta.max_abs_error} over {delta.error_budget}"
        assert delta.nan_count == 0, f"{config}: {delta.nan_count} NaN"


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("backend", FAMILIES)
def test_a_whole_run_is_right_and_proven(backend, ragged):
    report = report_of(backend, ragged)
    assert report.failures == ()
    assert report.trace_health.status == "ok", report.trace_health.problems
    assert all(delta.within_budget for delta in report.correctness), report.correctness
    kernels = [(kernel.short_name, kernel.calls_per_step, kernel.mean_ns) for kernel in report.kernels]
    observed = report.observed_backend
    assert (observed.family, observed.confidence) == (FAMILIES[backend], "proven"), (observed, kernels)
    assert report.latency.device is not None
    print(f"{backend}, ragged {ragged}: {report.latency.device.median_ns / 1e3:.1f} µs, kernels a step: {kernels}")


def test_a_full_device_takes_one_kernel_and_an_empty_one_the_reduction_too():
    assert report_of("paged_triton", False).device_items_per_step.kernels in (1, 2)
    workload = build("paged_triton", batch_size=1, seq_len_kv=16384)
    (recording,) = (item for item in record(RunRequest(workloads=(workload,))) if isinstance(item, Recording))
    report = analyze_recording(recording).report
    names = {kernel.short_name for kernel in report.kernels if kernel.kind == "kernel"}
    assert names == {"paged_decode_kernel", "paged_decode_reduce_kernel"}, names
    assert {kernel.family for kernel in report.kernels} == {"AttnScope paged decode"}
    assert {kernel.launched_by for kernel in report.kernels} == {"attnscope::paged_decode"}


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("backend", FAMILIES)
def test_memory_is_what_the_table_and_the_estimate_say(backend, ragged):
    report = report_of(backend, ragged)
    paging, memory, estimate = report.paging, report.memory, estimate_memory(report.workload)
    numbers = f"peak {memory.peak_bytes:,}, besides {memory.materialized_bytes:,}, {paging}, {estimate}"
    assert memory.peak_bytes <= estimate.total_bytes + SLACK_BYTES, numbers
    assert memory.peak_bytes >= memory.inputs_bytes + paging.cache_bytes + paging.table_bytes, numbers
    copies = paging.gather_extra_bytes // 2
    assert copies <= memory.materialized_bytes <= copies + SLACK_BYTES, numbers
    assert (copies > 0) == (backend == "paged_gather")


def test_the_kernel_reads_in_place_and_is_faster_than_gathering():
    triton, gather = (report_of(slug, False).latency.device.median_ns for slug in ("paged_triton", "paged_gather"))
    assert triton < gather, f"paged_triton {triton} ns, paged_gather {gather} ns"


@pytest.mark.parametrize("backend", FAMILIES)
def test_a_run_gives_its_memory_back(backend):
    import gc

    import torch

    def run():
        list(record(RunRequest(workloads=(build(backend, **RAGGED),))))
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_allocated()

    run()  # workspaces that stay for the process
    before = run()
    after = run()
    assert after <= before + 2**20, f"{before:,} bytes, then {after:,}"
