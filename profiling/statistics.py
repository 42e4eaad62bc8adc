"""Linked Trace -> what the report's tables say of it; raw samples -> their distribution.

Totals of device time come from device items alone: a label's copy on the device, or the same kernel under each of its
operators, would count it again. When the trace has steps, only what was launched inside them is counted.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from profiling.call_paths import build_call_paths, charged_operator
from profiling.hardware import NotComputed, Occupancy, estimate_occupancy, explain_artefact
from profiling.recording import Samples
from profiling.report_schema import Activity, Gap, ItemsPerStep, KernelSummary, LatencySummary, OperatorSummary
from profiling.trace.events import DeviceItem, Trace
from profiling.trace.intervals import gaps, merge, total
from profiling.trace.kernel_names import read_kernel_name


def build_kernel_summaries(trace: Trace) -> tuple[KernelSummary, ...]:
    """Device items grouped by name, launch shape and launching operator; the longest total first."""
    items = _counted_items(trace)
    groups: dict[tuple[object, ...], list[DeviceItem]] = defaultdict(list)
    for item in items:
        groups[_shape_of(item, _operator_name(trace, item))].append(item)
    total = sum(item.duration_ns for item in items)
    summaries = [_summarize_kernel(trace, group, total) for group in groups.values()]
    return tuple(sorted(summaries, key=lambda summary: (-summary.device_time_ns, summary.items)))


def _shape_of(item: DeviceItem, operator: str | None) -> tuple[object, ...]:
    return (
        item.kind,
        item.name,
        item.grid,
        item.block,
        item.registers_per_thread,
        item.shared_memory_bytes,
        item.bytes,
        operator,
    )


def _summarize_kernel(trace: Trace, group: Sequence[DeviceItem], total_ns: int) -> KernelSummary:
    first = group[0]
    launched_by = _operator_name(trace, first)
    identity = read_kernel_name(first.name, first.kind, launched_by)
    durations = [item.duration_ns for item in group]
    occupancy, occupancy_note = _recompute_occupancy(trace, first)
    return KernelSummary(
        name=first.name,
        short_name=identity.short_name,
        kind=first.kind,
        role=identity.role,
        family=identity.family,
        calls=len(group),
        calls_per_step=len(group) / len(trace.steps) if trace.steps else None,
        device_time_ns=sum(durations),
        mean_ns=sum(durations) / len(group),
        min_ns=min(durations),
        max_ns=max(durations),
        share_of_device_time=sum(durations) / total_ns if total_ns else 0.0,
        grid=first.grid,
        block=first.block,
        registers_per_thread=first.registers_per_thread,
        shared_memory_bytes=first.shared_memory_bytes,
        bytes=first.bytes,
        occupancy_reported=first.occupancy_reported,
        occupancy_recomputed=None if occupancy is None else occupancy.share,
        occupancy_limiter=None if occupancy is None else occupancy.limiter,
        uses_tensor_cores=identity.uses_tensor_cores,
        launched_by=launched_by,
        description=identity.description,
        data_type=identity.data_type,
        tile=identity.tile,
        occupancy_note=occupancy_note,
        items=tuple(item.index for item in group),
    )


def _recompute_occupancy(trace: Trace, item: DeviceItem) -> tuple[Occupancy | None, str | None]:
    """The launch's theoretical occupancy, and what there is to say of it: why it is missing, or the reported wrong."""
    if item.kind != "kernel":
        return None, None
    properties = next((device for device in trace.devices if device.index == item.device), None)
    occupancy = estimate_occupancy(
        registers_per_thread=item.registers_per_thread,
        shared_memory_bytes=item.shared_memory_bytes,
        block=item.block,
        properties=properties,
    )
    if isinstance(occupancy, NotComputed):
        return None, f"not computed: {occupancy.reason}"
    return occupancy, explain_artefact(
        occupancy_reported=item.occupancy_reported,
        shared_memory_bytes=item.shared_memory_bytes,
        properties=properties,
    )


def build_operator_summaries(trace: Trace) -> tuple[OperatorSummary, ...]:
    """Operator calls grouped by name; those with the most device time first, then the most CPU time.

    Self CPU time leaves out the operators called inside, and keeps the runtime calls. Totals count an operator inside
    one of the same name once. Self device time is that of items launched directly under the operator. Calls are
    those that torch's own table counts: an overload that does nothing but call its namesake is one call with it.
    """
    recorded = bool(trace.device_items)
    calls: dict[str, int] = defaultdict(int)
    cpu: dict[str, int] = defaultdict(int)
    self_cpu: dict[str, int] = defaultdict(int)
    device: dict[str, int] = defaultdict(int)
    self_device: dict[str, int] = defaultdict(int)
    for path in build_call_paths(trace):
        if not path.counted:
            continue
        calls[path.name] += path.calls
        self_cpu[path.name] += path.cpu_time_ns - path.inner_cpu_time_ns
        self_device[path.name] += path.self_device_time_ns
        if path.outermost:
            cpu[path.name] += path.cpu_time_ns
            device[path.name] += path.device_time_ns
    summaries = [
        OperatorSummary(
            name=name,
            calls=count,
            cpu_time_ns=cpu[name],
            self_cpu_time_ns=self_cpu[name],
            device_time_ns=device[name] if recorded else None,
            self_device_time_ns=self_device[name] if recorded else None,
        )
        for name, count in calls.items()
    ]
    return tuple(sorted(summaries, key=lambda summary: (-(summary.device_time_ns or 0), -summary.cpu_time_ns)))


def build_activity(trace: Trace) -> Activity | None:
    """Device time that was busy and idle between each step's first and last item, over all streams; None: no items.

    Without steps all items are one stretch.
    """
    items = _counted_items(trace)
    if not items:
        return None
    by_step: dict[int | None, list[DeviceItem]] = defaultdict(list)
    for item in items:
        by_step[item.step].append(item)
    span = active = 0
    holes: list[Gap] = []
    for step, group in by_step.items():
        # An item without duration (a fault that the health check names) takes no part.
        merged = merge([(item.start_ns, item.end_ns) for item in group])
        if merged:
            span += merged[-1][1] - merged[0][0]
            active += total(merged)
            holes += _name_gaps(trace, group, gaps(merged), step)
    holes.sort(key=lambda gap: gap.start_ns)
    return Activity(span_ns=span, busy_ns=active, idle_ns=span - active, gaps=tuple(holes))


def _name_gaps(
    trace: Trace, group: Sequence[DeviceItem], found: Iterable[tuple[int, int]], step: int | None
) -> Iterator[Gap]:
    starting = {item.start_ns: item for item in reversed(group) if item.duration_ns}
    for start, end in found:
        following = starting[end]
        identity = read_kernel_name(following.name, following.kind, _operator_name(trace, following))
        yield Gap(start_ns=start, duration_ns=end - start, step=step, before=identity.short_name)


def count_items_per_step(trace: Trace) -> ItemsPerStep | None:
    """Device items a step, by where their launch happened; None: no steps or no device items at all."""
    if not trace.steps or not trace.device_items:
        return None
    kinds = [item.kind for item in _counted_items(trace)]
    count = len(trace.steps)
    return ItemsPerStep(
        kernels=kinds.count("kernel") / count,
        memcpy=kinds.count("memcpy") / count,
        memset=kinds.count("memset") / count,
    )


def device_time_per_step_ns(trace: Trace) -> int | None:
    """Durations of a step's device items added up, mean over steps; None: no steps or no device items at all."""
    if not trace.steps or not trace.device_items:
        return None
    return round(sum(item.duration_ns for item in _counted_items(trace)) / len(trace.steps))


def unattributed_device_time_ns(trace: Trace) -> int:
    """Device time of counted items under no counted operator: with every self device time it makes up the whole."""
    return sum(item.duration_ns for item in _counted_items(trace) if charged_operator(trace, item) is None)


def summarize_samples(samples: Samples) -> LatencySummary:
    """The distribution of one clock's samples, percentiles interpolated linearly and rounded to whole nanoseconds.

    Raises:
        ValueError: there are no samples.
    """
    ordered = sorted(samples.samples_ns)
    if not ordered:
        raise ValueError(f"no samples of {samples.method!r}; a clock that did not run is None, not an empty list.")
    return LatencySummary(
        median_ns=round(_percentile(ordered, 0.5)),
        p10_ns=round(_percentile(ordered, 0.1)),
        p90_ns=round(_percentile(ordered, 0.9)),
        iqr_ns=round(_percentile(ordered, 0.75) - _percentile(ordered, 0.25)),
        count=len(ordered),
        method=samples.method,
        l2=samples.l2,
    )


def _percentile(ordered: Sequence[int], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _counted_items(trace: Trace) -> Sequence[DeviceItem]:
    if not trace.steps:
        return trace.device_items
    return [item for item in trace.device_items if item.step is not None]


def _operator_name(trace: Trace, item: DeviceItem) -> str | None:
    return None if item.operator is None else trace.operators[item.operator].name
