"""An analysis as the plain JSON that the timeline draws: steps, lanes, slices, links and gaps.

Every time is in integer nanoseconds from the start of its step. Texts are plain text; the script never makes HTML
of them. Names, formatted numbers and roles are the same as in the tables.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Any, TypeVar

from profiling.format import format_bytes, format_count, format_duration, format_share
from profiling.report import Analysis
from profiling.report_schema import KernelSummary, Report
from profiling.trace.events import DeviceItem, Operator, RuntimeCall, Step, Trace
from ui.roles import ROLE_TITLES

# A browser draws about this many rectangles without a noticeable pause, and their JSON stays near 2 MB. A step with
# more keeps its longest events and the page says so.
MAX_SLICES = 6_000
MAX_STEPS = 50

Json = dict[str, Any]
EventT = TypeVar("EventT", Operator, RuntimeCall, DeviceItem)
StepEvents = tuple[list[Operator], list[RuntimeCall], list[DeviceItem]]


def build_timeline(analysis: Analysis) -> Json | None:
    """What the timeline draws, or None where there is no trace or nothing in it.

    A trace without steps becomes one step that spans all of its events.
    """
    trace = analysis.trace
    if trace is None or not (trace.device_items or trace.operators or trace.launches):
        return None
    summaries = {item: kernel for kernel in analysis.report.kernels for item in kernel.items}
    steps: tuple[Step | None, ...] = trace.steps[:MAX_STEPS] or (None,)
    limit = MAX_SLICES // len(steps)
    notes = []
    if len(trace.steps) > MAX_STEPS:
        notes.append(f"showing the first {MAX_STEPS} of {format_count(len(trace.steps))} steps")
    outside = sum(item.step is None for item in trace.device_items) if trace.steps else 0
    if outside:
        notes.append(f"{format_count(outside)} device items lie outside of every step and are not drawn")
    return {
        "steps": [_build_step(analysis, summaries, step, events, limit) for step, events in _split(trace, steps)],
        "notes": notes,
        "has_device": bool(trace.device_items),
    }


def _split(trace: Trace, steps: Iterable[Step | None]) -> Iterator[tuple[Step | None, StepEvents]]:
    """Each step with its operators, launches and device items; the whole trace for a step that is None."""
    operators, launches, items = _group(trace.operators), _group(trace.launches), _group(trace.device_items)
    for step in steps:
        if step is None:
            yield step, (list(trace.operators), list(trace.launches), list(trace.device_items))
        else:
            yield step, (operators[step.index], launches[step.index], items[step.index])


def _group(events: Iterable[EventT]) -> defaultdict[int | None, list[EventT]]:
    groups: defaultdict[int | None, list[EventT]] = defaultdict(list)
    for event in events:
        groups[event.step].append(event)
    return groups


def _build_step(
    analysis: Analysis, summaries: dict[int, KernelSummary], step: Step | None, found: StepEvents, limit: int
) -> Json:
    trace, report = analysis.trace, analysis.report
    assert trace is not None
    operators, launches, items = found
    total = len(operators) + len(launches) + len(items)
    # Half of the room is for device items and a quarter each for the others, which may use what another leaves free.
    items = _longest(items, max(limit // 2, limit - len(launches) - len(operators)))
    launches = _longest(launches, max(limit // 4, limit - len(items) - len(operators)))
    operators = _longest(operators, limit - len(items) - len(launches))
    events: tuple[Operator | RuntimeCall | DeviceItem, ...] = (*operators, *launches, *items)
    origin = step.start_ns if step else min(event.start_ns for event in events)
    end = max([event.end_ns for event in events] + ([step.end_ns] if step else [origin]))
    notes = []
    if len(events) < total:
        notes.append(f"showing the {format_count(len(events))} longest of {format_count(total)} events")
    return {
        "title": step.name if step else "whole trace",
        "duration_ns": end - origin,
        "label": _label_span(step, origin),
        "lanes": [
            *_operator_lanes(operators, origin),
            *_launch_lanes(launches, items, origin),
            *_stream_lanes(items, trace, summaries, origin),
        ],
        "gaps": _build_gaps(report, step, origin, limit),
        "notes": notes,
    }


def _longest(events: list[EventT], limit: int) -> list[EventT]:
    if len(events) <= limit:
        return events
    # Events of one length are taken from all over the step and not from its start: a multiplicative hash spreads them.
    kept = sorted(events, key=lambda event: (-event.duration_ns, event.index * 2_654_435_761 % 2**32))[:limit]
    return sorted(kept, key=lambda event: event.start_ns)


def _label_span(step: Step | None, origin: int) -> Json | None:
    if step is None or step.label_start_ns is None or step.label_end_ns is None:
        return None
    return {"start_ns": step.label_start_ns - origin, "duration_ns": step.label_end_ns - step.label_start_ns}


def _operator_lanes(operators: Sequence[Operator], origin: int) -> list[Json]:
    lanes = []
    for position, thread in enumerate(_distinct(operator.thread for operator in operators)):
        own = [operator for operator in operators if operator.thread == thread]
        shallowest = min(operator.depth for operator in own)
        slices = [
            _slice(
                operator,
                origin,
                kind="operator",
                row=operator.depth - shallowest,
                title=operator.name,
                record=[["shapes", str(operator.input_shapes)]] if operator.input_shapes else [],
            )
            for operator in own
        ]
        lanes.append(_lane("CPU operators" if position == 0 else f"CPU thread {thread}", "operator", slices))
    return lanes


def _launch_lanes(launches: Sequence[RuntimeCall], items: Sequence[DeviceItem], origin: int) -> list[Json]:
    put: dict[int, list[int]] = {}
    for item in items:
        if item.launch is not None:
            put.setdefault(item.launch, []).append(item.index)
    lanes = []
    for position, thread in enumerate(_distinct(launch.thread for launch in launches)):
        own = [launch for launch in launches if launch.thread == thread]
        slices = [
            _slice(
                launch,
                origin,
                kind="launch",
                row=row,
                title=launch.name,
                record=[
                    ["kind", launch.category],
                    ["correlation", _or_missing(launch.correlation)],
                    ["device items", format_count(len(put.get(launch.index, ())))],
                ],
                links=put.get(launch.index, []),
            )
            for launch, row in zip(own, _pack(own), strict=True)
        ]
        lanes.append(_lane("Runtime calls" if position == 0 else f"Runtime, thread {thread}", "launch", slices))
    return lanes


def _stream_lanes(
    items: Sequence[DeviceItem], trace: Trace, summaries: dict[int, KernelSummary], origin: int
) -> list[Json]:
    lanes = []
    several_devices = len({item.device for item in items}) > 1
    for device, stream in _distinct((item.device, item.stream) for item in items):
        own = [item for item in items if (item.device, item.stream) == (device, stream)]
        slices = [
            _item_slice(item, trace, summaries.get(item.index), origin, row)
            for item, row in zip(own, _pack(own), strict=True)
        ]
        title = f"Stream {'?' if stream is None else stream}"
        lanes.append(_lane(f"Device {device}, {title.lower()}" if several_devices else title, "device", slices))
    return lanes


def _item_slice(item: DeviceItem, trace: Trace, summary: KernelSummary | None, origin: int, row: int) -> Json:
    operator = None if item.operator is None else trace.operators[item.operator].name
    launch = None if item.launch is None else trace.launches[item.launch]
    record = [["kind", item.kind], ["stream", _or_missing(item.stream)], ["launched by", _or_missing(operator)]]
    if launch is not None:
        record.append(["launch to start", format_duration(item.start_ns - launch.start_ns)])
    if item.kind == "kernel":
        record += [
            ["grid", _dimensions(item.grid)],
            ["block", _dimensions(item.block)],
            ["registers per thread", format_count(item.registers_per_thread)],
            ["shared memory", format_bytes(item.shared_memory_bytes)],
            ["occupancy, as reported", format_share(item.occupancy_reported)],
        ]
    else:
        record.append(["size", format_bytes(item.bytes)])
    if summary is not None:
        if item.kind == "kernel":
            record.append(["occupancy, recomputed", format_share(summary.occupancy_recomputed)])
        record.append(["role", ROLE_TITLES[summary.role]])
        record.append(["what it is", summary.description])
    return _slice(
        item,
        origin,
        kind="device",
        row=row,
        title=summary.short_name if summary else item.name,
        record=record,
        role=summary.role if summary else "other",
        full_name=item.name,
        item=item.index,
    )


def _slice(
    event: Operator | RuntimeCall | DeviceItem,
    origin: int,
    *,
    kind: str,
    row: int,
    title: str,
    record: list[list[str]],
    links: list[int] | None = None,
    role: str | None = None,
    full_name: str | None = None,
    item: int | None = None,
) -> Json:
    return {
        "kind": kind,
        "row": row,
        "start_ns": event.start_ns - origin,
        "duration_ns": event.duration_ns,
        "title": title,
        "name": full_name or title,
        "role": role,
        "item": item,
        "index": event.index,
        "links": links or [],
        "record": [
            ["start in step", format_duration(event.start_ns - origin)],
            ["duration", format_duration(event.duration_ns)],
            *record,
        ],
    }


def _lane(title: str, kind: str, slices: list[Json]) -> Json:
    return {"title": title, "kind": kind, "rows": 1 + max(entry["row"] for entry in slices), "slices": slices}


def _build_gaps(report: Report, step: Step | None, origin: int, limit: int) -> list[Json]:
    """The longest gaps; of as many as there are kernels left out, the others are too narrow to be seen."""
    found = [gap for gap in (report.activity.gaps if report.activity else ()) if step is None or gap.step == step.index]
    kept = nlargest(limit // 2, found, key=lambda gap: gap.duration_ns) if len(found) > limit // 2 else found
    return [
        {
            "start_ns": gap.start_ns - origin,
            "duration_ns": gap.duration_ns,
            "text": f"{format_duration(gap.duration_ns)} without device work, before {gap.before}",
        }
        for gap in sorted(kept, key=lambda gap: gap.start_ns)
    ]


def _pack(events: Sequence[RuntimeCall | DeviceItem]) -> list[int]:
    """A row for each event, ordered by start, so that no two of one row overlap."""
    rows: list[int] = []
    ends: list[int] = []
    for event in events:
        row = next((row for row, end in enumerate(ends) if end <= event.start_ns), len(ends))
        if row == len(ends):
            ends.append(event.end_ns)
        else:
            ends[row] = event.end_ns
        rows.append(row)
    return rows


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _dimensions(size: tuple[int, int, int] | None) -> str:
    return format_count(None) if size is None else " × ".join(map(str, size))


def _or_missing(value: object) -> str:
    return format_count(None) if value is None else str(value)
