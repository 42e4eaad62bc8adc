"""Trace -> linked Trace: device item -> launch -> operator -> step, and operators into their parents.

A device item belongs to the step in which its launch happened: work of an earlier step may still be running when the
next one starts, so its own time proves nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from profiling.trace.events import Annotation, Operator, RuntimeCall, Step, Trace
from profiling.trace.parse import STEP_PREFIX

# Calls that put work on a device, by CUDA runtime, CUDA driver and HIP names. Host functions and graph-building calls
# (`cudaLaunchHostFunc`, `cudaGraphAddKernelNode`) do not match.
# Source: CUDA runtime and driver API references, sections execution control, memory management and graphs; HIP API.
_LAUNCHES_WORK = re.compile(r"(?:cuda|cu|hip)(?:\w*Launch\w*Kernel|LaunchGrid|GraphLaunch|Launch$|Memcpy|Memset)")
_CAPTURE_BEGINS = re.compile(r"(?:cuda|cu|hip)StreamBeginCapture")
_CAPTURE_ENDS = re.compile(r"(?:cuda|cu|hip)StreamEndCapture")


def link_trace(trace: Trace, label: str = "attn_fwd") -> Trace:
    """The same trace with launch, operator, parent, depth and step filled in; ``label`` names the span inside steps."""
    steps = _build_steps(trace.annotations, label)
    operators, operator_of = _nest(trace, steps)
    step_of = _StepFinder(steps)
    by_correlation = _index_launches(trace.launches)
    working = {item.correlation for item in trace.device_items if item.correlation is not None}
    launches = []
    captured = _find_captured(trace.launches)
    for call, operator in zip(trace.launches, operator_of, strict=True):
        by_name = _LAUNCHES_WORK.match(call.name) is not None and call.index not in captured
        launches.append(
            replace(
                call,
                launches_work=by_name or call.correlation in working,
                operator=operator,
                step=step_of(call.start_ns),
            )
        )
    items = []
    for item in trace.device_items:
        launch = None if item.correlation is None else by_correlation.get(item.correlation)
        if launch is not None:
            call = launches[launch]
            item = replace(item, launch=launch, operator=call.operator, step=call.step)
        items.append(item)
    return replace(trace, steps=steps, operators=tuple(operators), launches=tuple(launches), device_items=tuple(items))


class _StepFinder:
    """Time -> index of the step around it, or None."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._starts = [step.start_ns for step in steps]
        self._ends = [step.end_ns for step in steps]

    def __call__(self, time_ns: int) -> int | None:
        index = bisect_right(self._starts, time_ns) - 1
        return index if index >= 0 and time_ns <= self._ends[index] else None


def _build_steps(annotations: Sequence[Annotation], label: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    labels = [annotation for annotation in annotations if annotation.name == label]
    for annotation in annotations:
        if not annotation.name.startswith(STEP_PREFIX):
            continue
        inside = [other for other in labels if annotation.start_ns <= other.start_ns <= annotation.end_ns]
        steps.append(
            Step(
                index=len(steps),
                name=annotation.name,
                start_ns=annotation.start_ns,
                end_ns=annotation.end_ns,
                thread=annotation.thread,
                label_start_ns=min((other.start_ns for other in inside), default=None),
                label_end_ns=max((other.end_ns for other in inside), default=None),
            )
        )
    return tuple(steps)


def _index_launches(launches: Sequence[RuntimeCall]) -> dict[int, int]:
    """Correlation -> launch. By category, not by name, so that a launch call of a new CUDA release still links."""
    index: dict[int, int] = {}
    for call in launches:
        # A runtime call and the driver call under it may share one correlation: the first is the one users know.
        if call.correlation is not None:
            index.setdefault(call.correlation, call.index)
    return index


def _find_captured(launches: Sequence[RuntimeCall]) -> set[int]:
    """Launches that were recorded into a CUDA graph instead of running."""
    captured: set[int] = set()
    capturing: set[int | str] = set()
    for call in launches:
        if _CAPTURE_BEGINS.match(call.name):
            capturing.add(call.thread)
        elif _CAPTURE_ENDS.match(call.name):
            capturing.discard(call.thread)
        elif call.thread in capturing:
            captured.add(call.index)
    return captured


def _nest(trace: Trace, steps: Sequence[Step]) -> tuple[list[Operator], list[int | None]]:
    """Operators with parent, depth and step; and for each launch the innermost operator around its start.

    One sweep over both in order of time, with a stack of open operators for each thread.
    """
    step_of = _StepFinder(steps)
    nested: list[Operator] = []
    stacks: dict[int | str, list[Operator]] = {}
    waiting = iter(trace.operators)
    opened = 0

    def open_until(time_ns: int) -> None:
        nonlocal opened
        count = bisect_right(starts, time_ns) - opened
        opened += count
        for operator in islice(waiting, count):
            stack = stacks.setdefault(operator.thread, [])
            _close(stack, operator.start_ns)
            # An operator that outlives the one before it (timestamp noise) is its sibling, not its child.
            around = next((open_ for open_ in reversed(stack) if open_.end_ns >= operator.end_ns), None)
            operator = replace(
                operator,
                parent=None if around is None else around.index,
                depth=0 if around is None else around.depth + 1,
                step=step_of(operator.start_ns),
            )
            nested.append(operator)
            stack.append(operator)

    starts = [operator.start_ns for operator in trace.operators]
    innermost: list[int | None] = []
    for call in trace.launches:
        open_until(call.start_ns)
        stack = stacks.get(call.thread, [])
        _close(stack, call.start_ns)
        innermost.append(stack[-1].index if stack else None)
    if starts:
        open_until(starts[-1])
    return nested, innermost


def _close(stack: list[Operator], time_ns: int) -> None:
    while stack and stack[-1].end_ns <= time_ns:
        stack.pop()
