"""The report's tables: sums that must come out to the nanosecond, and None where nothing was recorded."""

import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.recording import Samples
from profiling.statistics import (
    build_activity,
    build_kernel_summaries,
    build_operator_summaries,
    count_items_per_step,
    device_time_per_step_ns,
    summarize_samples,
    unattributed_device_time_ns,
)
from tests.unit.trace_builder import annotation, device_item, launch, operator, read, two_steps


def test_kernels_are_grouped_and_sorted_by_device_time() -> None:
    rows = build_kernel_summaries(read(*two_steps()))
    assert [(row.name, row.calls, row.calls_per_step, row.device_time_ns) for row in rows] == [
        ("gemm_kernel", 2, 1.0, 160_000),
        ("softmax_kernel", 2, 1.0, 80_000),
    ]
    assert [row.launched_by for row in rows] == ["aten::bmm", "aten::_softmax"]
    assert [row.items for row in rows] == [(1, 3), (0, 2)]
    assert rows[0].share_of_device_time == pytest.approx(2 / 3)


def test_one_name_with_two_shapes_or_two_operators_is_two_rows() -> None:
    trace = read(
        operator("a", 0, 10),
        operator("b", 20, 10),
        *[launch(correlation, ts) for correlation, ts in ((1, 1), (2, 5), (3, 21))],
        device_item(1, 30, 4, grid=[1, 1, 1], block=[128, 1, 1]),
        device_item(2, 40, 4, grid=[2, 1, 1], block=[128, 1, 1]),
        device_item(3, 50, 4, grid=[1, 1, 1], block=[128, 1, 1]),
    )
    rows = build_kernel_summaries(trace)
    assert {(row.launched_by, row.grid) for row in rows} == {("a", (1, 1, 1)), ("a", (2, 1, 1)), ("b", (1, 1, 1))}
    assert {row.calls_per_step for row in rows} == {None}


def test_occupancy_is_recomputed_from_the_devices_limits() -> None:
    facts: dict[str, Any] = {
        "block": [128, 1, 1],
        "registers per thread": 255,
        "shared memory": 65536,
        "est. achieved occupancy %": 0,
    }
    (row,) = build_kernel_summaries(read(launch(1, 0), device_item(1, 10, 4, **facts)))
    assert (row.occupancy_reported, row.occupancy_recomputed, row.occupancy_limiter) == (0.0, 0.125, "registers")
    (row,) = build_kernel_summaries(read(launch(1, 0), device_item(1, 10, 4, **{**facts, "device": 3})))
    assert row.occupancy_recomputed is None  # a device that the head does not describe


def test_only_work_launched_inside_steps_counts() -> None:
    trace = read(*two_steps(), launch(9, 900), device_item(9, 1001, 20))
    assert sum(row.calls for row in build_kernel_summaries(trace)) == 4
    counts = count_items_per_step(trace)
    assert counts is not None
    assert (counts.kernels, counts.memcpy, counts.memset) == (2.0, 0.0, 0.0)
    assert device_time_per_step_ns(trace) == 120_000


def test_operators_have_total_and_self_times_on_both_sides() -> None:
    rows = {row.name: row for row in build_operator_summaries(read(*two_steps()))}
    outer, inner = rows["aten::softmax"], rows["aten::_softmax"]
    assert (outer.calls, outer.cpu_time_ns, outer.self_cpu_time_ns) == (2, 60_000, 20_000)
    assert (outer.device_time_ns, outer.self_device_time_ns) == (80_000, 0)
    assert (inner.device_time_ns, inner.self_device_time_ns) == (80_000, 80_000)


def test_an_operator_inside_one_of_the_same_name_is_counted_once_in_totals() -> None:
    trace = read(operator("aten::mul", 0, 30), operator("aten::mul", 5, 20), launch(1, 10), device_item(1, 20, 7))
    (row,) = build_operator_summaries(trace)
    assert (row.calls, row.cpu_time_ns, row.self_cpu_time_ns) == (1, 30_000, 30_000)
    assert (row.device_time_ns, row.self_device_time_ns) == (7_000, 7_000)


def test_an_operator_that_began_before_the_step_is_not_charged_for_its_children() -> None:
    trace = read(operator("loop", 0, 100), annotation("ProfilerStep#1", 10, 50), operator("aten::mm", 20, 10))
    assert [(row.name, row.self_cpu_time_ns) for row in build_operator_summaries(trace)] == [("aten::mm", 10_000)]


def test_a_cpu_trace_has_no_device_numbers() -> None:
    trace = read(annotation("ProfilerStep#1", 0, 10), operator("aten::mm", 1, 5))
    (row,) = build_operator_summaries(trace)
    assert (row.device_time_ns, row.self_device_time_ns) == (None, None)
    assert build_kernel_summaries(trace) == ()
    assert build_activity(trace) is None
    assert count_items_per_step(trace) is None
    assert device_time_per_step_ns(trace) is None


def test_activity_is_summed_over_steps_and_gaps_are_named() -> None:
    activity = build_activity(read(*two_steps()))
    assert activity is not None
    # Step 0 runs 30-70 and 70-150; step 1 runs 150-190 and 195-275: one hole of 5 µs.
    assert (activity.span_ns, activity.busy_ns, activity.idle_ns) == (245_000, 240_000, 5_000)
    (gap,) = activity.gaps
    assert (gap.start_ns, gap.duration_ns, gap.step, gap.before) == (190_000, 5_000, 1, "gemm_kernel")


def test_a_name_on_many_paths_counts_each_call_once() -> None:
    trace = read(
        operator("a", 0, 100),
        operator("b", 10, 50),
        operator("a", 20, 20),
        operator("b", 25, 10),
        operator("b", 200, 5),
        *[launch(number, at) for number, at in enumerate((5, 27, 202))],
        *[device_item(number, 300 + 10 * number, 1 + number) for number in range(3)],
    )
    rows = {row.name: row for row in build_operator_summaries(trace)}
    found = {name: (row.calls, row.cpu_time_ns, row.self_cpu_time_ns) for name, row in rows.items()}
    assert found == {"a": (2, 100_000, 60_000), "b": (3, 55_000, 45_000)}
    device = {name: (row.device_time_ns, row.self_device_time_ns) for name, row in rows.items()}
    assert device == {"a": (3_000, 1_000), "b": (5_000, 5_000)}


def test_work_of_an_operator_that_began_before_its_step_is_unattributed() -> None:
    trace = read(operator("loop", 0, 100), annotation("ProfilerStep#1", 10, 50), launch(1, 20), device_item(1, 30, 4))
    assert unattributed_device_time_ns(trace) == 4_000
    assert build_operator_summaries(trace) == ()


works = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 300), st.integers(0, 50), st.integers(7, 9)), min_size=1, max_size=12
)


calls = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 300), st.integers(0, 200), st.integers(1, 2)), max_size=10
)


@given(works, st.booleans(), calls)
def test_device_time_is_split_without_loss(
    found: list[tuple[int, int, int, int]], steps: bool, made: list[tuple[str, int, int, int]]
) -> None:
    events = [operator(name, at, duration, tid=9 + thread) for name, at, duration, thread in made]
    if steps:
        events += [annotation("ProfilerStep#1", 40, 120), annotation("ProfilerStep#2", 170, 100)]
    for number, (at, wait, duration, stream) in enumerate(found):
        events += [launch(number, at, 1), device_item(number, at + wait, duration, f"k{number % 3}", stream=stream)]
    trace = read(*events)
    whole = sum(item.duration_ns for item in trace.device_items if not steps or item.step is not None)
    rows = build_operator_summaries(trace)
    assert sum(row.self_device_time_ns or 0 for row in rows) + unattributed_device_time_ns(trace) == whole
    assert sum(row.device_time_ns for row in build_kernel_summaries(trace)) == whole
    assert all((row.self_device_time_ns or 0) <= (row.device_time_ns or 0) <= whole for row in rows)
    activity = build_activity(trace)
    if activity is not None:
        assert activity.busy_ns <= activity.span_ns
        assert activity.busy_ns + activity.idle_ns == activity.span_ns
        assert sum(gap.duration_ns for gap in activity.gaps) == activity.idle_ns
        assert activity.busy_ns <= whole


@given(works, calls)
def test_operator_totals_agree_with_a_walk_from_every_call(
    found: list[tuple[int, int, int, int]], made: list[tuple[str, int, int, int]]
) -> None:
    events = [operator(name, at, duration, tid=9 + thread) for name, at, duration, thread in made]
    for number, (at, wait, duration, stream) in enumerate(found):
        events += [launch(number, at, 1), device_item(number, at + wait, duration, stream=stream)]
    trace = read(*events)

    def around(index: int | None) -> list[str]:
        return [] if index is None else [trace.operators[index].name, *around(trace.operators[index].parent)]

    for row in build_operator_summaries(trace):
        own = [op for op in trace.operators if op.name == row.name]
        assert row.cpu_time_ns == sum(op.duration_ns for op in own if row.name not in around(op.parent))
        inside = [op for op in trace.operators if around(op.parent)[:1] == [row.name]]
        assert row.self_cpu_time_ns == sum(op.duration_ns for op in own) - sum(op.duration_ns for op in inside)
        under = [item for item in trace.device_items if row.name in around(item.operator)]
        assert row.device_time_ns == sum(item.duration_ns for item in under)
        directly = [item for item in under if around(item.operator)[0] == row.name]
        assert row.self_device_time_ns == sum(item.duration_ns for item in directly)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=200))
def test_percentiles_agree_with_the_standard_library(samples: list[int]) -> None:
    summary = summarize_samples(Samples(samples_ns=tuple(samples), method="graph replay", l2="warm"))
    deciles = statistics.quantiles(samples, n=10, method="inclusive")
    quarters = statistics.quantiles(samples, n=4, method="inclusive")
    assert summary.p10_ns == pytest.approx(deciles[0], abs=1)
    assert summary.median_ns == pytest.approx(statistics.median(samples), abs=1)
    assert summary.p90_ns == pytest.approx(deciles[-1], abs=1)
    assert summary.iqr_ns == pytest.approx(quarters[2] - quarters[0], abs=1)
    assert (summary.count, summary.method, summary.l2) == (len(samples), "graph replay", "warm")


def test_one_sample_has_no_spread_and_none_is_an_error() -> None:
    assert summarize_samples(Samples(samples_ns=(7,), method="event")).iqr_ns == 0
    with pytest.raises(ValueError, match="no samples of 'event'"):
        summarize_samples(Samples(samples_ns=(), method="event"))
