"""flash-attn 4 on the GPU: the rule is what the package does, its answers are right, and the trace says that it ran."""

import functools
import itertools
import random

import pytest

from attention.backends import BACKENDS
from attention.backends.flash_attn4 import FLASH_ATTN4, VERSION
from attention.call import build_call
from attention.inputs import build_inputs
from attention.kernel_source import FLASH_ATTN_4, read_packages
from attention.known_faults import find_known_faults
from attention.lookup import find
from attention.validation import default_fields, parse_workload
from profiling.correctness import check_results
from profiling.environment import build_device_facts, capture_environment
from profiling.failures import is_sticky
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording


def _missing() -> str | None:
    found = read_packages()[FLASH_ATTN_4]
    if found != VERSION:
        return f"{FLASH_ATTN_4} {VERSION} is not installed here; found {found}"
    try:
        import flash_attn.cute  # noqa: F401
    except Exception as error:  # noqa: BLE001  whatever it is, the reason is shown
        return f"{FLASH_ATTN_4} does not import: {type(error).__name__}: {error}"
    return None


pytestmark = pytest.mark.skipif(_missing() is not None, reason=_missing() or "")

BASE = {"batch_size": 2, "num_heads": 4, "seq_len_q": 130, "seq_len_kv": 200}
MASKS = (
    {"mask": "none"},
    {"mask": "causal", "mask_alignment": "lower_right"},
    {"mask": "sliding_window", "mask_window": 17, "mask_alignment": "lower_right"},
)
HEAD_DIMS = (8, 32, 64, 72, 96, 104, 128, 160, 192, 224, 256)
DIRECTIONS = ("forward", "forward_backward")
# Of the package and cuDNN: short with small heads, and long with large ones.
SHAPES = (
    {"batch_size": 8, "seq_len_q": 1024, "seq_len_kv": 1024, "head_dim": 64},
    {"batch_size": 4, "seq_len_q": 4096, "seq_len_kv": 4096, "head_dim": 128},
    {"batch_size": 1, "seq_len_q": 16384, "seq_len_kv": 16384, "head_dim": 128},
)
DRAWN = 60
VALUE_DIMS = (8, 32, 56, 64, 96, 128, 160, 192)


@functools.cache
def facts():
    return build_device_facts(capture_environment("cuda"))


def build(**fields):
    return parse_workload(default_fields("cuda") | BASE | {"kv_heads": 4} | fields | {"backend": "flash_attn4"})


def attend(workload):
    """The inputs, and what the package gives for them, gradients included; the rule is not asked."""
    import torch

    inputs = build_inputs(workload, "cuda")
    with build_call(FLASH_ATTN4, workload, inputs) as call:
        results = call()
        torch.cuda.synchronize()
    return inputs, results


def wrong_deltas(workload):
    """What is outside its budget; a known fault is expected to show, so that its end is noticed."""
    inputs, results = attend(workload)
    if find_known_faults(workload, facts()):
        deltas = check_results(workload, inputs, results)
        return [] if any(delta.within_budget is False for delta in deltas) else [f"{workload.describe()}: no fault now"]
    return [
        f"{workload.describe()} {workload.direction} {workload.layout} {workload.mask.parameters}: {delta.tensor} "
        f"off by {delta.max_abs_error}, budget {delta.error_budget}, {delta.nan_count} NaN, {delta.dead_rows} dead rows"
        for delta in check_results(workload, inputs, results)
        if not delta.within_budget
    ]


# One test a head_dim: most of its time is compiling, which separate processes do side by side (pytest -n).
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_what_the_rule_accepts_is_right(head_dim):
    """Both directions with each mask; dtype, grouping and layout take turns."""
    turns = itertools.cycle(
        itertools.product(("bfloat16", "float16"), (4, 1, 2), ("contiguous", "transposed", "expanded_kv"))
    )
    # Another start for each, or head dims would meet the same turns.
    turns = itertools.islice(turns, HEAD_DIMS.index(head_dim) * len(DIRECTIONS) * len(MASKS), None)
    wrong, ran = [], 0
    for (direction, mask), (dtype, kv_heads, layout) in zip(itertools.product(DIRECTIONS, MASKS), turns, strict=False):
        workload = build(head_dim=head_dim, direction=direction, dtype=dtype, kv_heads=kv_heads, layout=layout, **mask)
        if FLASH_ATTN4.check(workload, facts()).verdict != "accepted":
            continue
        wrong += wrong_deltas(workload)
        ran += 1
    print(f"{ran} of {len(DIRECTIONS) * len(MASKS)} combinations accepted, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
    assert ran >= 5


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "fields",
    [
        {"seq_len_q": 1},
        {"seq_len_kv": 1, "seq_len_q": 1},
        {"seq_len_q": 192, "seq_len_kv": 100},  # the first 92 rows may attend to nothing
        {"seq_len_q": 300, "seq_len_kv": 7, "kv_heads": 1},
        {"kv_heads": 1, "layout": "expanded_kv"},
        {"scale": 0.5, "dtype": "float16"},
        {"seq_len_q": 1000, "seq_len_kv": 1000, "head_dim": 128},
    ],
    ids=str,
)
@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask["mask"])
def test_the_edges_are_right(mask, fields, direction):
    workload = build(direction=direction, **mask, **fields)
    assert FLASH_ATTN4.check(workload, facts()).verdict == "accepted"
    wrong = wrong_deltas(workload)
    assert not wrong, "\n".join(wrong)


def draw(source):
    head_dim = source.choice((1, 8, 16, 20, 32, 63, 64, 64, 80, 96, 104, 112, 128, 128, 160, 192, 224, 256, 264))
    return build(
        head_dim=head_dim,
        # Larger ones the rule leaves out for all of head_dim, though some tiles take them.
        head_dim_v=source.choice((None, None, None, *(size for size in VALUE_DIMS if size <= head_dim))),
        kv_heads=source.choice((1, 2, 4, 4)),
        dtype=source.choice(("float32", "float16", "bfloat16", "bfloat16")),
        direction=source.choice(DIRECTIONS),
        layout=source.choice(("contiguous", "transposed", "expanded_kv")),
        **source.choice(MASKS),
    )


def test_the_rule_is_what_the_package_does():
    """Only masks that its flags can say are drawn: what it does with another corner is a wrong answer, no refusal."""
    source, disagreements, accepted = random.Random(5), [], 0
    for _ in range(DRAWN):
        workload = draw(source)
        decision = FLASH_ATTN4.check(workload, facts())
        accepted += decision.verdict == "accepted"
        try:
            attend(workload)
            did, said = "accepted", "it ran"
        except Exception as error:  # asserts, compiler errors and torch's own are all refusals
            if is_sticky(error):
                raise
            did, said = "rejected", f"{type(error).__name__}: {str(error)[:160]}"
        if did != decision.verdict:
            disagreements.append(
                f"{workload.describe()} {workload.direction} {workload.layout}: the rule says {decision.verdict} "
                f"({decision.reason}); {said}"
            )
    print(f"{DRAWN} workloads, {accepted} accepted by rule, {len(disagreements)} disagreements")
    assert not disagreements, "\n".join(disagreements)
    assert 10 <= accepted <= DRAWN - 10


@functools.cache
def report_of(backend, shape):
    fields = {"num_heads": 16, "kv_heads": 16, "dtype": "bfloat16", "mask": "causal", "backend": backend}
    workload = parse_workload(default_fields("cuda") | fields | SHAPES[shape])
    (recording,) = (item for item in record(RunRequest(workloads=(workload,))) if isinstance(item, Recording))
    return analyze_recording(recording).report


def test_a_whole_run_is_right_proven_and_says_where_it_came_from():
    report = report_of("flash_attn4", 0)
    assert report.failures == (), report.failures
    assert report.trace_health.status == "ok", report.trace_health.problems
    assert all(delta.within_budget for delta in report.correctness), report.correctness
    assert report.observed_backend.family == "flash_attn4", report.observed_backend
    assert report.observed_backend.confidence == "proven", report.observed_backend
    assert report.device_items_per_step.kernels == 1, report.kernels
    assert {kernel.family for kernel in report.kernels if kernel.kind == "kernel"} == {"flash attention 4"}
    decision = next(decision for decision in report.decisions if decision.backend == "flash_attn4")
    assert (decision.verdict, decision.basis) == ("accepted", "probe")
    source = report.kernel_source
    assert (source.package, source.package_version, source.origin) == (FLASH_ATTN_4, VERSION, "installed")
    assert source.compiler.startswith("nvidia-cutlass-dsl ")
    print(f"first call {report.latency.first_call_ns / 1e9:.2f} s; {report.observed_backend.evidence}")


@pytest.mark.parametrize("backend", ["hub_flash_attn2", "hub_flash_attn3"])
def test_a_hub_kernel_runs_or_says_why_not(backend):
    report = report_of(backend, 0)
    decision = next(decision for decision in report.decisions if decision.backend == backend)
    if report.failures:
        (failure,) = report.failures
        print(f"{backend}: {failure.kind}: {failure.message} → {failure.hint}\n{decision.raw_message}")
        assert (failure.stage, failure.kind) == ("first_call", "unavailable"), failure
        assert failure.hint == decision.remedy != ""
        return
    assert all(delta.within_budget for delta in report.correctness), report.correctness
    observed = report.observed_backend
    assert observed.family in find(backend, BACKENDS, field="backend").families, observed
    assert observed.confidence == "proven", observed
    assert report.kernel_source.repository.startswith("kernels-community/")


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_device_time_beside_cudnn(shape):
    clocks = {}
    for backend in ("flash_attn4", "sdpa_cudnn"):
        report = report_of(backend, shape)
        clocks[backend] = report.latency.device
        assert report.latency.device is not None, report.failures
        rate = report.cost.flops / report.latency.device.median_ns / 1e3
        print(
            f"{report.workload.describe()} {backend}: {report.latency.device.median_ns / 1e3:.1f} µs "
            f"± {report.latency.device.iqr_ns / 2e3:.1f} ({report.latency.device.method}), {rate:.0f} TFLOP/s"
        )
    ratio = clocks["flash_attn4"].median_ns / clocks["sdpa_cudnn"].median_ns
    # Both keep tensor cores busy: another order of magnitude would mean that something else was timed.
    assert 0.2 < ratio < 5, ratio
