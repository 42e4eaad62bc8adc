"""Six traces recorded on an NVIDIA H200, torch 2.11, CUDA 13: B8 H16 S1024 D64 bfloat16 causal, three steps.

Expected values were counted when they were recorded; the cross-checks compute the same from the JSON by other means.
"""

import gzip
import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from profiling.statistics import (
    build_activity,
    build_kernel_summaries,
    build_operator_summaries,
    count_items_per_step,
    device_time_per_step_ns,
    unattributed_device_time_ns,
)
from profiling.trace import read_trace
from profiling.trace.events import Trace
from profiling.trace.health import build_health
from profiling.trace.kernel_names import read_kernel_name

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
STEPS = 3
# Per step: kernels, memcpy, memset; and the summed device time in µs as recorded beside the trace.
EXPECTED = {
    "naive": ((5, 1, 1), "1064"),
    "math": ((20, 0, 0), "2625.5"),
    "efficient": ((1, 0, 0), "177.7"),
    "flash": ((1, 0, 0), "97.2"),
    "cudnn": ((1, 0, 1), "58.0"),
    "flex": ((1, 0, 0), "80.5"),
}
# The attention or largest kernel: role, family, tensor cores, reported and recomputed occupancy, its limiter.
HEAVIEST = {
    "naive": ("mask", "ATen elementwise", None, 1.0, 1.0, "threads"),
    "math": ("gemm", "cuBLAS xmma", False, 0.13, 0.125, "registers"),
    "efficient": ("attention_forward", "cutlassF efficient attention", True, 0.25, 0.25, "registers"),
    "flash": ("attention_forward", "flash attention", True, 0.13, 0.125, "registers"),
    "cudnn": ("attention_forward", "cuDNN", True, 0.0, 0.1875, "registers and shared memory"),
    "flex": ("attention_forward", "Triton/Inductor", None, 0.0, 0.125, "registers and shared memory"),
}
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")

every_trace = pytest.mark.parametrize("name", EXPECTED)


@cache
def data_of(name: str) -> bytes:
    return (TRACES / f"{name}.json.gz").read_bytes()


@cache
def trace_of(name: str) -> Trace:
    return read_trace(data_of(name))


@cache
def events_of(name: str) -> list[dict[str, Any]]:
    """Complete events with times as exact decimals."""
    document = json.loads(gzip.decompress(data_of(name)), parse_float=Decimal)
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


@every_trace
def test_counts_and_device_time_per_step_are_the_recorded_ones(name: str) -> None:
    trace = trace_of(name)
    (kernels, memcpy, memset), device_time_us = EXPECTED[name]
    counts = count_items_per_step(trace)
    assert counts is not None
    assert (counts.kernels, counts.memcpy, counts.memset) == (kernels, memcpy, memset)
    assert len(trace.steps) == STEPS
    measured = device_time_per_step_ns(trace)
    assert measured is not None
    assert (Decimal(measured) / 1000).quantize(Decimal(device_time_us)) == Decimal(device_time_us)


@every_trace
def test_device_time_is_the_sum_in_the_json_to_the_nanosecond(name: str) -> None:
    durations = [event["dur"] for event in events_of(name) if event["cat"] in DEVICE_CATEGORIES]
    assert sum(item.duration_ns for item in trace_of(name).device_items) == sum(durations) * 1000
    assert device_time_per_step_ns(trace_of(name)) == round(sum(durations) * 1000 / STEPS)


@every_trace
def test_times_are_exact_and_count_from_the_first_event(name: str) -> None:
    trace = trace_of(name)
    written = sorted((event["ts"] * 1000, event["name"]) for event in events_of(name) if event["cat"] == "cpu_op")
    assert [(op.start_ns + trace.start_ns, op.name) for op in trace.operators] == written
    assert min(annotation.start_ns for annotation in trace.annotations) == 0


@every_trace
def test_health_is_ok_and_everything_is_linked(name: str) -> None:
    trace = trace_of(name)
    health = build_health(trace, STEPS)
    items = len(trace.device_items)
    assert (health.status, health.problems, health.launches, health.linked_kernels) == ("ok", (), items, items)
    assert all(item.operator is not None and item.step is not None for item in trace.device_items)
    assert all(step.label_start_ns is not None for step in trace.steps)


@every_trace
def test_links_agree_with_a_search_through_the_json(name: str) -> None:
    trace = trace_of(name)
    host = [event for event in events_of(name) if event["cat"] in ("cuda_runtime", "cuda_driver")]
    by_correlation = {event["args"]["correlation"]: event for event in host}
    operators = [event for event in events_of(name) if event["cat"] == "cpu_op"]
    steps = [event for event in events_of(name) if event["name"].startswith("ProfilerStep#")]
    for item in trace.device_items:
        assert item.correlation is not None
        assert item.operator is not None
        assert item.step is not None
        launch = by_correlation[item.correlation]
        around = [op for op in operators if op["ts"] <= launch["ts"] < op["ts"] + op["dur"]]
        assert trace.operators[item.operator].name == min(around, key=lambda op: op["dur"])["name"]
        inside = [step["name"] for step in steps if step["ts"] <= launch["ts"] <= step["ts"] + step["dur"]]
        assert [trace.steps[item.step].name] == inside


@every_trace
def test_self_device_time_and_the_unattributed_rest_make_the_whole(name: str) -> None:
    trace = trace_of(name)
    attributed = sum(row.self_device_time_ns or 0 for row in build_operator_summaries(trace))
    whole = sum(item.duration_ns for item in trace.device_items if item.step is not None)
    assert attributed + unattributed_device_time_ns(trace) == whole
    assert sum(row.device_time_ns for row in build_kernel_summaries(trace)) == whole
    assert sum(row.share_of_device_time for row in build_kernel_summaries(trace)) == pytest.approx(1)


@every_trace
def test_busy_and_idle_make_the_span(name: str) -> None:
    trace = trace_of(name)
    activity = build_activity(trace)
    assert activity is not None
    # One stream and no overlap: busy time is the sum of durations.
    assert activity.busy_ns == sum(item.duration_ns for item in trace.device_items)
    assert activity.busy_ns + activity.idle_ns == activity.span_ns
    assert sum(gap.duration_ns for gap in activity.gaps) == activity.idle_ns


@every_trace
def test_every_device_item_is_known_by_its_name(name: str) -> None:
    for item in trace_of(name).device_items:
        identity = read_kernel_name(item.name, item.kind, None)
        assert identity.family != "unknown", item.name
        assert identity.role != "other", item.name
        assert identity.description


@every_trace
def test_heaviest_kernel_is_read_and_its_occupancy_recomputed(name: str) -> None:
    top = build_kernel_summaries(trace_of(name))[0]
    found = (
        top.role,
        top.family,
        top.uses_tensor_cores,
        top.occupancy_reported,
        top.occupancy_recomputed,
        top.occupancy_limiter,
    )
    assert found == HEAVIEST[name]


def test_naive_copies_under_masked_fill_and_math_runs_float32_without_tensor_cores() -> None:
    naive = {row.role: row for row in build_kernel_summaries(trace_of("naive")) if row.kind != "memset"}
    assert naive["memcpy"].bytes == 8 * 16 * 1024 * 1024 * 2  # one bfloat16 score matrix
    masked_fill = next(row for row in build_operator_summaries(trace_of("naive")) if row.name == "aten::masked_fill")
    assert masked_fill.self_device_time_ns == 0
    assert masked_fill.device_time_ns == naive["memcpy"].device_time_ns + naive["mask"].device_time_ns
    math = build_kernel_summaries(trace_of("math"))
    assert {row.uses_tensor_cores for row in math if row.role == "gemm"} == {False}
    assert {read_kernel_name(row.name, row.kind, None).data_type for row in math if row.role == "gemm"} == {"float32"}


def test_head_facts_are_read() -> None:
    trace = trace_of("flash")
    device = trace.devices[0]
    assert (device.name, device.compute_capability, device.sm_count) == ("NVIDIA H200", (9, 0), 132)
    assert trace.metadata["cuda_runtime_version"] == 13000
    assert trace.event_count == 147
