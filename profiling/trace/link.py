"""Parsed events -> linked Trace: device item -> launch -> operator -> step, and operators into their parents.

A device item belongs to the step in which its launch happened: work of an earlier step may still be running when the
next one starts, so its own time proves nothing. Links are found on plain lists, before any object is made.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import add

from profiling.trace.build import (
    Thread,
    build_annotations,
    build_device_items,
    build_devices,
    build_launches,
    build_operators,
    name_threads,
)
from profiling.trace.events import Annotation, Step, Trace
from profiling.trace.parse import STEP_PREFIX, ParsedTrace, TimedEvents
from profiling.trace.problems import ProblemLog

# Calls that put work on a device, by CUDA runtime, CUDA driver and HIP names. Host functions and graph-building calls
# (`cudaLaunchHostFunc`, `cudaGraphAddKernelNode`) do not match.
# Source: CUDA runtime and driver API references, sections execution control, memory management and graphs; HIP API.
_LAUNCHES_WORK = re.compile(r"(?:cuda|cu|hip)(?:\w*Launch\w*Kernel|LaunchGrid|GraphLaunch|Launch$|Memcpy|Memset)")
_CAPTURE = re.compile(r"(?:cuda|cu|hip)Stream(Begin|End)Capture")
_LONGEST_CALL_NAME = 200  # characters of a name that are looked at; the longest of CUDA's has 60


def link_trace(parsed: ParsedTrace, label: str, log: ProblemLog) -> Trace:
    """The trace in ``parsed`` with every link; ``label`` names the span around each step's call."""
    origin = parsed.start_ns
    threads_of = name_threads(parsed)
    annotations = build_annotations(parsed.annotations, origin, threads_of(parsed.annotations))
    steps = _build_steps(annotations, label)
    threads, launch_threads = threads_of(parsed.operators), threads_of(parsed.runtime)
    parents, depths, around = _nest(parsed.operators, parsed.runtime, threads, launch_threads)
    launch_of, working = _read_launches(parsed, launch_threads)
    launches = build_launches(
        parsed.runtime, origin, launch_threads, working, around, _find_steps(parsed.runtime, origin, steps)
    )
    return Trace(
        device_items=build_device_items(parsed, launches, launch_of),
        launches=launches,
        operators=build_operators(
            parsed.operators, origin, threads, parents, depths, _find_steps(parsed.operators, origin, steps), log
        ),
        annotations=annotations,
        steps=steps,
        profiler_work=build_annotations(parsed.profiler_work, origin, threads_of(parsed.profiler_work)),
        label_copies=parsed.label_copies,
        python_calls=parsed.python_calls,
        python_labels=parsed.python_labels,
        devices=build_devices(parsed.head.get("deviceProperties")),
        problems=log.build(),
        metadata={key: value for key, value in parsed.head.items() if type(value) in (str, int)},
        event_count=parsed.event_count,
        start_ns=origin,
    )


def _build_steps(annotations: Sequence[Annotation], label: str) -> tuple[Step, ...]:
    """The profiler's own steps; where there are none, each outermost span of the label."""
    spans = [annotation for annotation in annotations if annotation.name.startswith(STEP_PREFIX)]
    labels = [annotation for annotation in annotations if annotation.name == label]
    if not spans:
        for one in labels:
            if not spans or one.start_ns >= spans[-1].end_ns:
                spans.append(one)
    starts = [one.start_ns for one in labels]
    steps = []
    for index, span in enumerate(spans):
        inside = labels[bisect_left(starts, span.start_ns) : bisect_right(starts, span.end_ns)]
        if span.name == label:
            inside = [span]
        steps.append(
            Step(
                index=index,
                name=span.name,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                thread=span.thread,
                label_start_ns=min((one.start_ns for one in inside), default=None),
                label_end_ns=max((one.end_ns for one in inside), default=None),
            )
        )
    return tuple(steps)


def _find_steps(timed: TimedEvents, origin_ns: int, steps: Sequence[Step]) -> list[int | None]:
    """Of each event the index of the step around its start; of two that share a moment, the later one."""
    found: list[int | None] = [None] * len(timed.events)
    first = 0
    for step in steps:
        # What began before the previous step cannot lie in this one, so that searching stays cheap.
        first = bisect_left(timed.starts_ns, step.start_ns + origin_ns, lo=first)
        last = bisect_right(timed.starts_ns, step.end_ns + origin_ns, lo=first)
        found[first:last] = [step.index] * (last - first)
    return found


def _read_launches(parsed: ParsedTrace, threads: Sequence[Thread]) -> tuple[dict[int, int], list[bool]]:
    """Correlation -> launch, and of each runtime or driver call whether it puts work on a device.

    By category, not by name, so that a launch call of a new CUDA release still links. Calls between the begin and the
    end of a capture on their thread are recorded into a CUDA graph instead of running.
    """
    with_items = {event.args.correlation for event in parsed.device.events if event.args is not None}
    with_items.discard(None)
    launch_of: dict[int, int] = {}
    working: list[bool] = []
    by_name: dict[str | None, bool] = {}
    capturing: set[Thread] = set()
    for index, (event, thread) in enumerate(zip(parsed.runtime.events, threads, strict=True)):
        name = event.name
        launches = by_name.get(name)
        if launches is None:
            known = (name or "")[:_LONGEST_CALL_NAME]
            launches = by_name[name] = _LAUNCHES_WORK.match(known) is not None
        if name is not None and "Capture" in name and (capture := _CAPTURE.match(name)):
            (capturing.add if capture[1] == "Begin" else capturing.discard)(thread)
        correlation = None if event.args is None else event.args.correlation
        if correlation is not None:
            # A runtime call and the driver call under it may share one: the first is the one users know.
            launch_of.setdefault(correlation, index)
        working.append((launches and thread not in capturing) or correlation in with_items)
    return launch_of, working


def _nest(
    operators: TimedEvents, launches: TimedEvents, threads: Sequence[Thread], launch_threads: Sequence[Thread]
) -> tuple[list[int | None], list[int], list[int | None]]:
    """Parent and depth of each operator, and of each launch the innermost operator around its start.

    One sweep over both in order of time, with a stack of open operators for each thread. An operator that outlives the
    one before it (timestamp noise) is its sibling, not its child, and nothing after it can be inside that one alone: so
    each operator enters and leaves a stack once.
    """
    starts, ends = operators.starts_ns, list(map(add, operators.starts_ns, operators.durations_ns))
    parents: list[int | None] = []
    depths: list[int] = []
    around: list[int | None] = []
    stacks: dict[Thread, list[int]] = {thread: [] for thread in {*threads, *launch_threads}}
    opened, count = 0, len(starts)
    for time, launch_thread in zip([*launches.starts_ns, None], [*launch_threads, None], strict=True):
        while opened < count and (time is None or starts[opened] <= time):
            stack = stacks[threads[opened]]
            start, end = starts[opened], ends[opened]
            while stack and (ends[stack[-1]] <= start or ends[stack[-1]] < end):
                stack.pop()
            if stack:
                parents.append(stack[-1])
                depths.append(depths[stack[-1]] + 1)
            else:
                parents.append(None)
                depths.append(0)
            stack.append(opened)
            opened += 1
        if time is not None and launch_thread is not None:
            stack = stacks[launch_thread]
            while stack and ends[stack[-1]] <= time:
                stack.pop()
            around.append(stack[-1] if stack else None)
    return parents, depths, around
