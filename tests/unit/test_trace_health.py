"""Each way in which a trace can mislead is found, and a sound trace is left in peace."""

from profiling.trace import read_trace
from profiling.trace.events import Problem, Trace
from profiling.trace.health import CLOCK_TICK_NS, build_health
from profiling.trace.problems import OVERLAP, TICK_OVERLAP
from tests.unit.trace_builder import annotation, device_item, launch, operator, read, two_steps, write


def found(trace: Trace, expected_steps: int | None = 2) -> tuple[str, dict[str, int]]:
    health = build_health(trace, expected_steps)
    return health.status, {problem.kind: problem.count for problem in health.problems}


def test_a_sound_trace_is_ok() -> None:
    health = build_health(read(*two_steps()), 2)
    assert (health.status, health.problems, health.launches, health.linked_kernels) == ("ok", (), 4, 4)


def test_a_cpu_trace_is_ok() -> None:
    assert found(read(annotation("ProfilerStep#1", 0, 10), operator("aten::mm", 1, 5)), 1) == ("ok", {})


def test_lost_kernels() -> None:
    events = [event for event in two_steps() if event["name"] != "gemm_kernel"]
    assert found(read(*events)) == ("suspect", {"launch without device item": 2})


def test_all_kernels_lost_is_unusable() -> None:
    events = [event for event in two_steps() if event["cat"] != "kernel"]
    assert found(read(*events)) == ("unusable", {"launch without device item": 4})


def test_nothing_at_all_is_unusable() -> None:
    assert found(read_trace(b'{"traceEvents": []}'), None) == ("unusable", {"no events": 1})


def test_items_without_launches_are_unusable_when_none_links() -> None:
    status, problems = found(read(device_item(1, 0, 5), device_item(2, 6, 5)), None)
    assert (status, problems) == ("unusable", {"device item without launch": 2})


def test_work_of_the_warm_up_leaks_into_the_window() -> None:
    # One launch was before recording, the other recorded before the first step; both ran inside it.
    leaked = [device_item(90, 1001, 10), launch(91, 990), device_item(91, 1012, 10)]
    trace = read(*two_steps(), *leaked)
    assert found(trace) == ("suspect", {"warm-up leak": 2})
    assert [item.step for item in trace.device_items].count(None) == 2


def test_work_that_ended_before_the_first_step_is_no_leak() -> None:
    assert found(read(*two_steps(), launch(91, 900), device_item(91, 910, 10))) == ("ok", {})


def test_an_item_without_launch_after_linked_work_is_not_called_a_leak() -> None:
    assert found(read(*two_steps(), device_item(90, 1192, 2))) == ("suspect", {"device item without launch": 1})


def test_an_item_before_its_launch() -> None:
    assert found(read(*two_steps(), launch(5, 1180), device_item(5, 1170, 4, stream=8))) == (
        "suspect",
        {"device item before its launch": 1},
    )


def test_overlap_counts_on_one_stream_and_not_across_streams() -> None:
    other_stream = [launch(5, 1160), device_item(5, 1200, 20, stream=8)]
    assert found(read(*two_steps(), *other_stream)) == ("ok", {})
    same_stream = [launch(5, 1160), device_item(5, 1200, 100)]
    status, problems = found(read(*two_steps(), *same_stream))
    assert (status, problems) == ("suspect", {"overlap on one stream": 1})


def test_an_overlap_of_one_clock_tick_is_told_and_taints_nothing() -> None:
    def early_by(ns: int) -> Problem:
        late = [launch(5, 1160), device_item(5, 1300, 10), launch(6, 1162), device_item(6, 1310 - ns / 1000, 20)]
        health = build_health(read(*two_steps(), *late), 2)
        (problem,) = health.problems
        assert (health.status == "ok") == (problem.kind == TICK_OVERLAP)
        return problem

    assert CLOCK_TICK_NS == 32
    assert [early_by(ns).kind for ns in (32, 33, 34)] == [TICK_OVERLAP, TICK_OVERLAP, OVERLAP]
    assert "starts 32 ns before" in early_by(32).example
    assert "programmatic dependent launch" not in early_by(32).example
    assert "programmatic dependent launch" in early_by(500).example


def test_branches_of_one_graph_on_a_stream_are_told_from_dependent_launches() -> None:
    graph = [launch(5, 1160, name="cudaGraphLaunch"), device_item(5, 1300, 10), device_item(5, 1305, 10)]
    (problem,) = build_health(read(*two_steps(), *graph), 2).problems
    assert problem.example.endswith("branches of one graph")


def test_zero_times_are_named_and_do_not_move_the_origin() -> None:
    clock = 5_106_115_148_310.25  # µs: a real trace's clock is far from zero
    events = [{**event, "ts": event["ts"] + clock} for event in two_steps()]
    events[5] = {**events[5], "ts": 0, "dur": 0}
    trace = read(*events)
    assert trace.start_ns == round((clock + 1000) * 1000)
    status, problems = found(trace)
    assert status == "suspect"
    assert problems["zero timestamp"] == 1
    assert problems["zero duration"] == 1


def test_steps_that_are_missing_or_too_many() -> None:
    assert found(read(*two_steps()), 3) == ("suspect", {"missing steps": 1})
    assert found(read(*two_steps()), 1) == ("suspect", {"surplus steps": 1})
    assert found(read(*two_steps()), None) == ("ok", {})


def test_problems_of_parsing_come_first_and_taint_when_something_was_lost() -> None:
    data = write([*two_steps(), operator("bad", 1, -1), operator("worse", 1, 10.0**30)])
    problems = {"event without a usable time": 1, "negative duration": 1}
    assert found(read_trace(data)) == ("suspect", problems)
