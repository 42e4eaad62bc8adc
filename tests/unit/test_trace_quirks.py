"""Small hand-written traces in tests/data/quirks, one quirk a file, with what each must read as.

A line says: linked device items of how many, runtime calls, operators, steps, health, and each problem.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiling.report import analyze_trace
from profiling.statistics import build_kernel_summaries, build_operator_summaries, unattributed_device_time_ns
from profiling.trace import read_trace
from profiling.trace.events import Trace
from profiling.trace.health import build_health
from tests.conftest import TRACES

QUIRKS = TRACES.parent / "quirks"

READINGS = {
    "ambiguous_quotes": "0/0 items, 0 calls, 1 operators, 0 steps, suspect, unreadable event × 1",
    "backward_thread": "1/1 items, 1 calls, 2 operators, 1 steps, ok",
    "bad_utf8": "0/0 items, 0 calls, 2 operators, 0 steps, ok, bad UTF-8 × 3",
    "bare_list": "1/1 items, 1 calls, 1 operators, 0 steps, ok",
    "byte_order_mark": "0/0 items, 0 calls, 1 operators, 0 steps, ok",
    "clock_from_zero": "0/0 items, 0 calls, 2 operators, 0 steps, ok",
    "control_characters": "0/0 items, 0 calls, 3 operators, 0 steps, ok, control characters × 2",
    "cpu_only": "0/0 items, 0 calls, 2 operators, 1 steps, ok",
    "crossing_operators": "0/0 items, 0 calls, 3 operators, 0 steps, ok",
    "cuda_graph": "3/3 items, 1 calls, 0 operators, 1 steps, ok",
    "cut_off": "0/0 items, 0 calls, 1 operators, 0 steps, suspect, cut-off file × 1",
    "decimal_microseconds": "0/0 items, 0 calls, 2 operators, 0 steps, ok",
    "driver_under_runtime": "1/1 items, 2 calls, 0 operators, 0 steps, ok",
    "empty_list": "0/0 items, 0 calls, 0 operators, 0 steps, unusable, no events × 1",
    "graph_capture": "1/1 items, 4 calls, 0 operators, 0 steps, ok",
    "half_surrogate": "0/0 items, 0 calls, 2 operators, 0 steps, ok, bad UTF-8 × 1",
    "kernel_before_its_launch": "1/1 items, 1 calls, 0 operators, 0 steps, suspect, device item before its launch × 1",
    "kernel_without_launch": "1/2 items, 1 calls, 0 operators, 0 steps, suspect, device item without launch × 1",
    "label_as_step": "2/2 items, 2 calls, 0 operators, 1 steps, ok",
    "label_copies_are_no_work": "1/1 items, 1 calls, 0 operators, 1 steps, ok",
    "label_only_on_the_device": "1/1 items, 1 calls, 0 operators, 0 steps, suspect, labels lost under stacks × 1",
    "labels_lost_under_stacks": "0/0 items, 0 calls, 1 operators, 0 steps, suspect, labels lost under stacks × 1",
    "log_line_between_events": "0/0 items, 0 calls, 2 operators, 0 steps, suspect, unreadable event × 1",
    "lost_kernels": "1/1 items, 3 calls, 0 operators, 0 steps, suspect, launch without device item × 1",
    "missing_brace": "0/0 items, 0 calls, 1 operators, 0 steps, ok, missing end × 1",
    "missing_step": "0/0 items, 0 calls, 2 operators, 2 steps, suspect, missing steps × 2",
    "negative_duration": "1/1 items, 1 calls, 1 operators, 0 steps, suspect, negative duration × 1",
    "no_duration": "0/0 items, 0 calls, 1 operators, 0 steps, suspect, event without a usable time × 2",
    "no_kernel_at_all": "0/0 items, 1 calls, 1 operators, 0 steps, unusable, launch without device item × 1",
    "not_a_number": "1/1 items, 1 calls, 0 operators, 0 steps, ok, not a number × 3",
    "older_categories": "2/2 items, 2 calls, 1 operators, 1 steps, ok",
    "operator_around_the_step": "1/1 items, 1 calls, 1 operators, 1 steps, ok",
    "over_long_integers": "1/1 items, 1 calls, 0 operators, 0 steps, ok, over-long integer × 1",
    "overlap_of_one_tick": "2/2 items, 2 calls, 0 operators, 0 steps, ok, overlap of one clock tick × 1",
    "overlap_on_one_stream": "3/3 items, 3 calls, 0 operators, 0 steps, suspect, overlap on one stream × 2",
    "plain": "1/1 items, 1 calls, 1 operators, 1 steps, ok",
    "profiler_buffer_in_step": "1/1 items, 1 calls, 1 operators, 1 steps, suspect, profiler buffer work in a step × 1",
    "profiler_buffer_without_steps": "0/0 items, 0 calls, 1 operators, 0 steps, ok, profiler buffer work × 2",
    "repeated_keys": "0/0 items, 0 calls, 1 operators, 0 steps, suspect, repeated traceEvents × 1",
    "rocm": "2/2 items, 2 calls, 1 operators, 0 steps, ok",
    "same_start": "0/0 items, 0 calls, 2 operators, 0 steps, ok",
    "shapes": "0/0 items, 0 calls, 2 operators, 0 steps, ok",
    "steps_at_the_same_time": "0/0 items, 0 calls, 2 operators, 3 steps, suspect, steps at the same time × 1",
    "strange_entries": "1/1 items, 1 calls, 1 operators, 0 steps, suspect, not an event × 6, unexpected value × 8",
    "times_in_every_notation": "0/0 items, 0 calls, 4 operators, 0 steps, ok",
    "trailing_commas": "0/0 items, 0 calls, 2 operators, 0 steps, ok, trailing comma × 3",
    "two_processes": "0/0 items, 0 calls, 2 operators, 0 steps, ok",
    "two_streams": "2/2 items, 2 calls, 0 operators, 0 steps, ok",
    "unescaped_quotes": "0/0 items, 0 calls, 3 operators, 0 steps, ok, unescaped quote × 4",
    "warm_up_leak": "1/2 items, 1 calls, 0 operators, 1 steps, suspect, warm-up leak × 1",
    "whole_microseconds": "0/0 items, 0 calls, 2 operators, 0 steps, ok",
    "xpu": "3/3 items, 3 calls, 1 operators, 0 steps, ok",
    "zero_duration_kernel": "2/2 items, 2 calls, 0 operators, 0 steps, suspect, zero duration × 1",
    "zero_timestamp": "2/2 items, 2 calls, 1 operators, 0 steps, suspect, device item before its launch × 1, "
    "zero timestamp × 1, zero duration × 1",
}

# What the line above leaves open.
DETAILS: dict[str, tuple[Callable[[Trace], Any], Any]] = {
    "backward_thread": (
        lambda trace: [(item.operator, trace.operators[1].thread) for item in trace.device_items],
        [(1, 2)],
    ),
    "bad_utf8": (lambda trace: trace.operators[0].name, "caf\ufffd"),
    "clock_from_zero": (lambda trace: (trace.start_ns, trace.operators[1].start_ns), (0, 4000)),
    "control_characters": (lambda trace: [op.name for op in trace.operators], ["line\x01feed", "tab\tinside", "clean"]),
    "crossing_operators": (lambda trace: [op.parent for op in trace.operators], [None, None, 1]),
    "cuda_graph": (
        lambda trace: [(item.kind, item.launch, item.step) for item in trace.device_items][1:],
        [("kernel", 0, 0), ("memset", 0, 0)],
    ),
    "cut_off": (lambda trace: trace.metadata, {"cuda_runtime_version": 12080}),
    "decimal_microseconds": (
        lambda trace: (trace.start_ns, [(op.start_ns, op.duration_ns) for op in trace.operators]),
        (1_700_000_000_000_123_001, [(0, 999), (456, 543)]),
    ),
    "driver_under_runtime": (lambda trace: trace.device_items[0].launch, 0),
    "graph_capture": (lambda trace: [call.launches_work for call in trace.launches], [False, False, False, True]),
    "half_surrogate": (
        lambda trace: [op.name for op in trace.operators],
        ["half \ufffd of a sign", "whole \U0001f600 sign"],
    ),
    "label_as_step": (lambda trace: [item.step for item in trace.device_items], [0, None]),
    "negative_duration": (lambda trace: trace.launches[0].duration_ns, 0),
    "not_a_number": (lambda trace: trace.device_items[0].occupancy_reported, None),
    "older_categories": (
        lambda trace: (trace.operators[0].input_shapes, [i.kind for i in trace.device_items]),
        (((8, 128), (), ()), ["kernel", "memcpy"]),
    ),
    "operator_around_the_step": (lambda trace: unattributed_device_time_ns(trace), 8000),
    "over_long_integers": (lambda trace: trace.device_items[0].bytes, None),
    "repeated_keys": (lambda trace: [(op.name, trace.start_ns) for op in trace.operators], [("last", 12_000)]),
    "rocm": (
        lambda trace: [(item.device, item.stream, item.grid) for item in trace.device_items],
        [(2, 0, (4096, 1, 1)), (2, 0, None)],
    ),
    "same_start": (lambda trace: [(op.name, op.parent) for op in trace.operators], [("outer", None), ("inner", 0)]),
    "shapes": (
        lambda trace: [op.input_shapes for op in trace.operators],
        [((64, 128), (128, 32)), (((2, 3), (2, 3)), ())],
    ),
    "strange_entries": (
        lambda trace: [(item.grid, item.block, item.device, item.stream) for item in trace.device_items],
        [(None, None, 0, 7)],
    ),
    "times_in_every_notation": (
        lambda trace: [(op.start_ns + trace.start_ns, op.duration_ns) for op in trace.operators],
        [(12_000, 1000), (13_500, 1250), (15_000, 1001), (17_000, 2500)],
    ),
    "trailing_commas": (lambda trace: trace.metadata, {"traceName": "commas.json"}),
    "two_processes": (lambda trace: [op.thread for op in trace.operators], ["100/1", "200/1"]),
    "unescaped_quotes": (
        lambda trace: [op.name for op in trace.operators][:2],
        ['model["layer.0"].forward', 'say "hello" twice'],
    ),
    "warm_up_leak": (lambda trace: [item.step for item in trace.device_items], [None, 0]),
    "zero_timestamp": (lambda trace: trace.start_ns, 1_690_000_000_000_000),
}


def trace_of(name: str) -> Trace:
    return read_trace((QUIRKS / f"{name}.json").read_bytes())


def test_every_file_is_read_by_a_test_and_small() -> None:
    files = sorted(QUIRKS.iterdir())
    assert [path.name for path in files] == [f"{name}.json" for name in sorted(READINGS)]
    assert len(files) >= 30
    assert all(path.stat().st_size <= 3000 for path in files)


@pytest.mark.parametrize("name", READINGS)
def test_reading(name: str) -> None:
    trace = trace_of(name)
    health = build_health(trace, expected_steps=None)
    problems = "".join(f", {problem.kind} × {problem.count}" for problem in health.problems)
    reading = (
        f"{health.linked_kernels}/{len(trace.device_items)} items, {len(trace.launches)} calls, "
        f"{len(trace.operators)} operators, {len(trace.steps)} steps, {health.status}{problems}"
    )
    assert reading == READINGS[name]


@pytest.mark.parametrize("name", DETAILS)
def test_detail(name: str) -> None:
    read, value = DETAILS[name]
    assert read(trace_of(name)) == value


@pytest.mark.parametrize(
    "path", [*sorted(QUIRKS.iterdir()), *sorted(TRACES.iterdir())], ids=lambda path: str(path.stem)
)
def test_self_device_time_and_the_unattributed_rest_make_the_whole(path: Path) -> None:
    analysis = analyze_trace(path.read_bytes())
    trace = analysis.trace
    assert trace is not None
    counted = [item for item in trace.device_items if item.step is not None or not trace.steps]
    whole = sum(item.duration_ns for item in counted)
    attributed = sum(row.self_device_time_ns or 0 for row in build_operator_summaries(trace))
    assert attributed + unattributed_device_time_ns(trace) == whole
    assert sum(row.device_time_ns for row in build_kernel_summaries(trace)) == whole
    assert all((row.device_time_ns or 0) <= whole for row in analysis.report.operators)
