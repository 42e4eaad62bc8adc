"""Can the numbers of a linked trace be trusted? Checked before any of them is shown."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from profiling.trace.events import DeviceItem, Problem, Trace, TraceHealth
from profiling.trace.repair import HARMLESS_REPAIRS


def build_health(trace: Trace, expected_steps: int | None) -> TraceHealth:
    """Status and problems of ``trace``; ``expected_steps`` None: nobody knows how many steps there should be.

    ``unusable``: nothing was recorded, or the device's side and the host's have nothing to do with each other.
    ``suspect``: some number is off. ``ok`` may still list repairs that changed no time and no count.
    """
    problems = tuple(trace.problems) + tuple(_find_problems(trace, expected_steps))
    launches = {call.correlation for call in trace.launches if call.launches_work}
    linked = sum(item.launch is not None for item in trace.device_items)
    empty = not (trace.device_items or trace.launches or trace.operators)
    unlinked = not linked and bool(trace.device_items or launches)
    if empty:
        problems += (Problem(kind="no events", count=1, example="the trace holds no operator, call or device item"),)
    status: Literal["ok", "suspect", "unusable"]
    if empty or unlinked:
        status = "unusable"
    elif any(problem.kind not in HARMLESS_REPAIRS for problem in problems):
        status = "suspect"
    else:
        status = "ok"
    return TraceHealth(status=status, problems=problems, launches=len(launches), linked_kernels=linked)


def _find_problems(trace: Trace, expected_steps: int | None) -> Iterator[Problem]:
    leaked, orphans = _split_outsiders(trace)
    yield from _problem("launch without device item", _lost_launches(trace))
    yield from _problem("device item without launch", [_show(item) for item in orphans])
    yield from _problem("warm-up leak", [_show(item) for item in leaked])
    yield from _problem("device item before its launch", _early_items(trace))
    yield from _problem("overlap on one stream", _overlaps(trace))
    yield from _problem("zero timestamp", [_show(item) for item in trace.device_items if _lacks_time(item, trace)])
    yield from _problem("zero duration", [_show(item) for item in trace.device_items if item.duration_ns == 0])
    found = len(trace.steps)
    if expected_steps is not None and found != expected_steps:
        yield Problem(
            kind="missing steps" if found < expected_steps else "surplus steps",
            count=abs(expected_steps - found),
            example=f"{found} steps in the trace, {expected_steps} expected",
        )


def _problem(kind: str, examples: list[str]) -> Iterator[Problem]:
    if examples:
        yield Problem(kind=kind, count=len(examples), example=examples[0])


def _show(item: DeviceItem) -> str:
    return f"{item.name:.80} at {item.start_ns} ns, {item.duration_ns} ns long, correlation {item.correlation}"


def _lost_launches(trace: Trace) -> list[str]:
    """Launches whose work is not in the trace: the profiler lost kernels, so counts and sums are too low."""
    arrived = {item.correlation for item in trace.device_items}
    return [
        f"{call.name} at {call.start_ns} ns, correlation {call.correlation}"
        for call in trace.launches
        if call.launches_work and call.correlation not in arrived
    ]


def _split_outsiders(trace: Trace) -> tuple[list[DeviceItem], list[DeviceItem]]:
    """Items of no step inside the steps' window as (leaked from before, without launch for another reason).

    Work that was still queued when recording began runs first on its stream and its launch was not recorded, or was
    recorded before the first step. An item without launch after linked work on its stream did not leak in.
    """
    leaked: list[DeviceItem] = []
    orphans: list[DeviceItem] = []
    window_end = max((step.end_ns for step in trace.steps), default=0)
    streams_with_work: set[tuple[int | None, int | None]] = set()
    for item in trace.device_items:
        stream = (item.device, item.stream)
        if item.step is not None:
            streams_with_work.add(stream)
        elif trace.steps and item.start_ns < window_end and stream not in streams_with_work:
            # Launched and finished before the first step began: outside the window, no leak.
            if item.launch is None or item.end_ns > trace.steps[0].start_ns:
                leaked.append(item)
        elif item.launch is None:
            orphans.append(item)
    return leaked, orphans


def _early_items(trace: Trace) -> list[str]:
    return [
        f"{_show(item)}; launched at {trace.launches[item.launch].start_ns} ns"
        for item in trace.device_items
        if item.launch is not None and item.start_ns < trace.launches[item.launch].start_ns
    ]


def _overlaps(trace: Trace) -> list[str]:
    """Neighbours on one stream that run at once (programmatic dependent launch, graph branches, clock noise).

    Their durations added up count the shared time twice.
    """
    streams: dict[tuple[int | None, int | None], list[DeviceItem]] = {}
    for item in trace.device_items:
        streams.setdefault((item.device, item.stream), []).append(item)
    return [
        f"{_show(later)} starts {earlier.end_ns - later.start_ns} ns before {earlier.name:.80} ends"
        for items in streams.values()
        for earlier, later in pairwise(items)
        if later.start_ns < earlier.end_ns
    ]


def _lacks_time(item: DeviceItem, trace: Trace) -> bool:
    return trace.start_ns > 0 and item.start_ns + trace.start_ns == 0
