"""Device item -> launch -> operator -> step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.trace import read_trace
from profiling.trace.events import Operator, Trace
from tests.unit.trace_builder import annotation, device_item, launch, operator, read, two_steps, write


def test_an_item_belongs_to_the_step_of_its_launch_not_of_its_own_time() -> None:
    trace = read(*two_steps())
    late = trace.device_items[1]
    assert late.end_ns > trace.steps[1].start_ns  # it still runs in step 1
    assert [item.step for item in trace.device_items] == [0, 0, 1, 1]
    assert [step.name for step in trace.steps] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert (trace.steps[1].label_start_ns, trace.steps[1].label_end_ns) == (110_000, 170_000)


def test_items_know_the_innermost_operator_around_their_launch() -> None:
    trace = read(*two_steps())
    names = [trace.operators[item.operator].name for item in trace.device_items if item.operator is not None]
    assert names == ["aten::_softmax", "aten::bmm", "aten::_softmax", "aten::bmm"]
    inner = trace.operators[1]
    assert (inner.parent, inner.depth) == (0, 1)


def test_the_label_can_have_another_name_or_be_absent() -> None:
    data = write([annotation("ProfilerStep#1", 0, 10), annotation("mine", 2, 3)])
    assert read_trace(data, "mine").steps[0].label_start_ns == 2000
    assert read_trace(data).steps[0].label_start_ns is None


def test_without_the_profilers_steps_each_outermost_span_of_the_label_is_one() -> None:
    spans = [
        annotation("mine", 0, 10),
        annotation("mine", 2, 3),
        annotation("other", 12, 3),
        annotation("mine", 20, 10),
    ]
    work = [
        launch(1, 4),
        device_item(1, 6, 1),
        launch(2, 13),
        device_item(2, 14, 1),
        launch(3, 25),
        device_item(3, 40, 1),
    ]
    trace = read_trace(write([*spans, *work]), "mine")
    assert [(step.name, step.start_ns, step.end_ns) for step in trace.steps] == [
        ("mine", 0, 10_000),
        ("mine", 20_000, 30_000),
    ]
    assert [item.step for item in trace.device_items] == [0, None, 1]
    assert read_trace(write([*spans, *work]), "absent").steps == ()


def test_operators_of_another_thread_are_no_parents_but_share_the_step() -> None:
    trace = read(
        annotation("ProfilerStep#1", 0, 100),
        operator("outer", 1, 50),
        operator("backward", 10, 20, tid=11),
        launch(1, 12, tid=11),
        device_item(1, 20, 5),
    )
    backward = trace.operators[1]
    assert (backward.parent, backward.step) == (None, 0)
    assert trace.device_items[0].operator == backward.index


def test_siblings_that_touch_and_operators_that_start_together() -> None:
    trace = read(
        operator("outer", 0, 10),
        operator("inner", 0, 10),
        operator("next", 10, 5),
        launch(1, 10),
        device_item(1, 11, 1),
    )
    assert [(op.name, op.parent, op.depth) for op in trace.operators] == [
        ("outer", None, 0),
        ("inner", 0, 1),
        ("next", None, 0),
    ]
    assert trace.device_items[0].operator == 2


@pytest.mark.parametrize(
    "name",
    [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaLaunchCooperativeKernel",
        "cudaGraphLaunch",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuGraphLaunch",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cuMemcpyHtoDAsync_v2",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipModuleLaunchKernel",
        "hipGraphLaunch",
        "hipMemcpyWithStream",
    ],
)
def test_calls_that_launch_work(name: str) -> None:
    assert read(launch(1, 0, name=name)).launches[0].launches_work


@pytest.mark.parametrize(
    "name",
    [
        "cudaDeviceSynchronize",
        "cudaStreamIsCapturing",
        "cudaLaunchHostFunc",
        "cudaGraphAddKernelNode",
        "cudaGraphInstantiate",
        "cudaFuncSetAttribute",
        "cudaMalloc",
    ],
)
def test_calls_that_launch_nothing(name: str) -> None:
    assert not read(launch(1, 0, name=name)).launches[0].launches_work


def test_a_launch_of_unknown_name_still_links_and_one_graph_launch_has_many_items() -> None:
    trace = read(
        launch(1, 0, name="cudaLaunchFuture"),
        device_item(1, 10, 1),
        launch(2, 20, name="cudaGraphLaunch"),
        *[device_item(2, 30 + at, 1) for at in range(3)],
    )
    assert [item.launch for item in trace.device_items] == [0, 1, 1, 1]
    assert trace.launches[0].launches_work


def test_launches_recorded_into_a_graph_put_no_work_on_the_device() -> None:
    trace = read(
        launch(1, 0, name="cudaStreamBeginCapture"),
        launch(2, 10),
        launch(3, 20, name="cudaStreamEndCapture"),
        launch(4, 30),
    )
    assert [call.launches_work for call in trace.launches] == [False, False, False, True]


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 2)), max_size=25)


def innermost(trace: Trace, time_ns: int, thread: int) -> set[int]:
    """Lengths of the operators around a time that hold no other such operator: by search, without a stack."""
    around = [op for op in trace.operators if op.thread == thread and op.start_ns <= time_ns < op.end_ns]
    return {op.index for op in around if not any(holds(op, other) for other in around if other is not op)}


def holds(outer: Operator, inner: Operator) -> bool:
    return outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns and outer.index < inner.index


@given(spans, st.integers(0, 70))
def test_nesting_agrees_with_a_search(found: list[tuple[int, int, int]], time: int) -> None:
    events = [operator(f"op{n}", start, dur, tid=thread) for n, (start, dur, thread) in enumerate(found)]
    trace = read(*events, launch(1, time, tid=1), operator("first", 0, 0, tid=3))
    for op in trace.operators:
        if op.parent is not None:
            parent = trace.operators[op.parent]
            assert holds(parent, op)
            assert parent.thread == op.thread
            assert op.depth == parent.depth + 1
    expected = innermost(trace, time * 1000, 1)
    chosen = trace.launches[0].operator
    assert (chosen in expected) if expected else chosen is None
