"""The timeline's data: complete, without overlaps in a row, and bounded for any trace."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from profiling.recording import Recording
from profiling.report import Analysis, analyze_recording
from profiling.report_schema import Report
from profiling.trace.events import DeviceItem, Operator, Step, Trace
from tests.conftest import build_sample
from ui.components.timeline import build_timeline, write_timeline
from ui.components.timeline.lanes import MAX_SLICES, MAX_STEPS


def analysis_of(trace: Trace | None) -> Analysis:
    return Analysis(recording=Recording(), trace=trace, report=Report())


def slices_of(step, kind: str | None = None) -> list[dict]:
    return [entry for lane in step["lanes"] for entry in lane["slices"] if kind in (None, entry["kind"])]


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn"])
def test_each_event_of_a_step_is_drawn_once(name: str) -> None:
    analysis = analyze_recording(build_sample(name))
    drawn = build_timeline(analysis)
    assert drawn is not None
    assert analysis.trace is not None
    assert len(drawn["steps"]) == len(analysis.trace.steps) == 3
    for index, step in enumerate(drawn["steps"]):
        assert sorted(entry["item"] for entry in slices_of(step, "device")) == [
            item.index for item in analysis.trace.device_items if item.step == index
        ]
        assert len(slices_of(step, "operator")) == sum(entry.step == index for entry in analysis.trace.operators)
        assert len(slices_of(step, "launch")) == sum(entry.step == index for entry in analysis.trace.launches)


def test_lanes_stand_in_order_and_links_end_in_the_same_step() -> None:
    drawn = build_timeline(analyze_recording(build_sample("naive")))
    assert drawn is not None
    for step in drawn["steps"]:
        assert [lane["title"] for lane in step["lanes"]] == ["CPU operators", "Runtime calls", "Stream 7"]
        items = {entry["item"] for entry in slices_of(step, "device")}
        linked = [item for entry in slices_of(step, "launch") for item in entry["links"]]
        assert sorted(linked) == sorted(items)


def test_times_count_from_the_step_and_stay_inside() -> None:
    drawn = build_timeline(analyze_recording(build_sample("math")))
    assert drawn is not None
    for step in drawn["steps"]:
        for entry in slices_of(step):
            assert 0 <= entry["start_ns"] <= entry["start_ns"] + entry["duration_ns"] <= step["duration_ns"]


def test_kernels_carry_the_tables_role_and_whole_record() -> None:
    analysis = analyze_recording(build_sample("cudnn"))
    drawn = build_timeline(analysis)
    assert drawn is not None
    kernel = next(entry for entry in slices_of(drawn["steps"][0], "device") if entry["role"] == "attention_forward")
    record = dict(kernel["record"])
    assert kernel["name"].startswith("cudnn_generated")
    for label in ("duration", "stream", "grid", "block", "registers per thread", "shared memory", "launched by"):
        assert record[label] not in ("", "not recorded")
    assert record["occupancy, as reported"] != record["occupancy, recomputed"]
    assert record["role"] == "attention forward"


def test_gaps_belong_to_their_step() -> None:
    analysis = analyze_recording(build_sample("cudnn"))
    drawn = build_timeline(analysis)
    assert drawn is not None
    assert analysis.report.activity is not None
    assert sum(len(step["gaps"]) for step in drawn["steps"]) == len(analysis.report.activity.gaps)
    for step in drawn["steps"]:
        assert all(0 <= gap["start_ns"] <= step["duration_ns"] for gap in step["gaps"])


def test_cpu_trace_has_operators_and_no_stream() -> None:
    drawn = build_timeline(analyze_recording(build_sample("cpu_flash")))
    assert drawn is not None
    assert not drawn["has_device"]
    assert {lane["kind"] for lane in drawn["steps"][0]["lanes"]} == {"operator"}


def test_value_is_json_that_cannot_close_a_tag() -> None:
    item = structs.replace(kernel(0, 0, 5), name="</script><b>")
    timeline = build_timeline(analysis_of(Trace(device_items=(item,))))
    value = write_timeline(timeline)
    assert "<" not in value
    assert json.loads(value) == timeline
    assert write_timeline(None) == ""


def test_nothing_to_draw_is_none() -> None:
    assert build_timeline(analysis_of(None)) is None
    assert build_timeline(analysis_of(Trace())) is None


def kernel(index: int, start: int, duration: int, **more) -> DeviceItem:
    return DeviceItem(
        index=index,
        kind="kernel",
        name=f"kernel {index}",
        start_ns=start,
        duration_ns=duration,
        device=0,
        stream=7,
        correlation=index,
        **more,
    )


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 200)), min_size=1, max_size=40))
def test_no_two_slices_of_a_row_overlap(times: list[tuple[int, int]]) -> None:
    items = tuple(kernel(index, start, duration) for index, (start, duration) in enumerate(sorted(times)))
    drawn = build_timeline(analysis_of(Trace(device_items=items)))
    assert drawn is not None
    [step] = drawn["steps"]
    assert step["title"] == "whole trace"
    assert len(slices_of(step)) == len(items)
    rows: dict[int, int] = {}
    for entry in sorted(slices_of(step), key=lambda entry: (entry["start_ns"], entry["item"])):
        assert entry["start_ns"] >= rows.get(entry["row"], 0)
        rows[entry["row"]] = entry["start_ns"] + entry["duration_ns"]


def test_a_huge_trace_keeps_its_longest_events_and_says_so() -> None:
    items = tuple(kernel(index, 10 * index, index % 7) for index in range(MAX_SLICES + 50))
    operators = tuple(
        Operator(index=index, name="aten::add", start_ns=10 * index, duration_ns=5, thread=1) for index in range(100)
    )
    drawn = build_timeline(analysis_of(Trace(device_items=items, operators=operators)))
    assert drawn is not None
    [step] = drawn["steps"]
    assert len(slices_of(step)) == MAX_SLICES
    assert "longest of" in step["notes"][0]
    kept = min(entry["duration_ns"] for entry in slices_of(step))
    assert kept >= min(item.duration_ns for item in items)


def test_many_steps_are_cut_and_items_outside_of_them_are_counted() -> None:
    steps = tuple(
        Step(index=index, name=f"ProfilerStep#{index}", start_ns=100 * index, end_ns=100 * index + 90, thread=1)
        for index in range(MAX_STEPS + 5)
    )
    inside = kernel(0, 10, 20, step=0)
    outside = structs.replace(kernel(1, 20, 5), step=None)
    drawn = build_timeline(analysis_of(Trace(device_items=(inside, outside), steps=steps)))
    assert drawn is not None
    assert len(drawn["steps"]) == MAX_STEPS
    assert any("steps" in note for note in drawn["notes"])
    assert any("outside of every step" in note for note in drawn["notes"])


def test_a_long_step_keeps_every_lane_and_its_whole_length() -> None:
    count = MAX_SLICES
    items = tuple(kernel(index, 10 * index, 5) for index in range(count))
    operators = tuple(
        Operator(index=index, name="aten::add", start_ns=10 * index, duration_ns=5, thread=1) for index in range(count)
    )
    drawn = build_timeline(analysis_of(Trace(device_items=items, operators=operators)))
    assert drawn is not None
    [step] = drawn["steps"]
    for kind in ("device", "operator"):
        starts = [entry["start_ns"] for entry in slices_of(step, kind)]
        assert len(starts) >= MAX_SLICES // 4
        assert min(starts) < count
        assert max(starts) > 9 * count
