"""Two runs or traces side by side, per step: what appeared, vanished, or takes another time, and what explains it.

Kernels are matched by role and whole name, then by role and short name, then by role alone; a row says by which. The
rows add up: times are rounded so that their differences sum to the difference of the totals to the nanosecond.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

from attention.workload import Workload
from profiling.compared_groups import (
    Group,
    add_steps,
    build_sides,
    estimate_noise_ns,
    group_kernels,
    group_operators,
)
from profiling.comparison_schema import (
    Change,
    ComparedClock,
    ComparedFigure,
    ComparedRow,
    Comparison,
    MatchedBy,
    Side,
    Total,
)
from profiling.format import format_items
from profiling.observed import COMPOSED_FAMILIES, score_copy
from profiling.recording import Memory
from profiling.report import Analysis
from profiling.report_schema import ItemsPerStep, LatencySummary, Report
from profiling.taint import describe_taint
from profiling.variables import describe_attribution, find_variables

# One reading of the GPU's clock: durations in CUPTI's records lie on multiples of it (H200, driver 580), so that two
# equal kernels may read one apart.
CLOCK_TICK_NS = 32
# A role that says nothing of what a kernel does matches no other kernel.
UNKNOWN_ROLE = "other"
_CALLS_IN_METHOD = re.compile(r"\b\d+ calls\b")


def compare_analyses(before: Analysis, after: Analysis, *, before_title: str, after_title: str) -> Comparison:
    """The comparison of ``after`` with ``before``, which may each be a run of this app or a bare trace."""
    variables = find_variables(before, after)
    taints = ((before_title, describe_taint(before.report)), (after_title, describe_taint(after.report)))
    common: dict[str, Any] = {
        "before_title": before_title,
        "after_title": after_title,
        "warnings": tuple(f"{title}: {taint.title}. {taint.consequence}" for title, taint in taints if taint),
        "variables": variables,
        "attribution": describe_attribution(before, after, variables),
        "clocks": _compare_clocks(before.report, after.report),
        "figures": _compare_figures(before.report, after.report),
        "steps_before": before.report.steps_recorded,
        "steps_after": after.report.steps_recorded,
    }
    reasons = tuple(_find_obstacles(before, before_title, after, after_title))
    if reasons:
        return Comparison(**common, reasons=reasons)
    on_device = bool(before.report.kernels)
    group = group_kernels if on_device else group_operators
    total, rows = compare_groups(group(before), group(after), before.report.steps_recorded, after.report.steps_recorded)
    return Comparison(
        **common,
        basis="step" if before.report.steps_recorded else "trace",
        measure="device time" if on_device else "self CPU time",
        total=total,
        rows=rows,
    )


def _find_obstacles(before: Analysis, before_title: str, after: Analysis, after_title: str) -> Iterable[str]:
    """Why the two cannot be laid side by side, each with what to do."""
    for title, report in ((before_title, before.report), (after_title, after.report)):
        if report.trace_health is None:
            yield f"{title} holds no trace; record it with the profile stage."
        elif report.trace_health.status == "unusable":
            yield f"The trace of {title} is unusable, so it has no totals; record it again."
        elif not report.kernels and not report.operators:
            yield f"{title} has no device item and no operator inside its steps; record the call inside a step."
    pairs = (
        (before_title, before.report, after_title, after.report),
        (after_title, after.report, before_title, before.report),
    )
    for title, report, other_title, other in pairs:
        if report.trace_health is None or other.trace_health is None:
            continue
        if report.kernels and not other.kernels and other.operators:
            yield (
                f"{title} has device items and {other_title} has none: it ran on a CPU, or was recorded without the "
                "device's activity. Record both on the same kind of device."
            )
        if report.steps_recorded and not other.steps_recorded:
            yield (
                f"{title} has {format_items(report.steps_recorded, 'step')} and {other_title} has none, so there is no "
                "step to compare by. Record with torch.profiler.schedule and call step() once a call, or name a "
                "record_function label that surrounds each call."
            )


def compare_groups(
    before: Sequence[Group], after: Sequence[Group], steps_before: int, steps_after: int
) -> tuple[Total, tuple[ComparedRow, ...]]:
    """The total and its rows, the largest difference first. Steps 0: the groups are of a whole trace."""
    pairs = _match(before, after)
    sides_before = build_sides([old for old, _, _ in pairs], steps_before)
    sides_after = build_sides([new for _, new, _ in pairs], steps_after)
    rows = [
        _compare_row(pair, old, new, steps_before, steps_after)
        for pair, old, new in zip(pairs, sides_before, sides_after, strict=True)
    ]
    before_ns, after_ns = (sum(side.time_ns for side in sides if side) for sides in (sides_before, sides_after))
    sums = add_steps(before, steps_before), add_steps(after, steps_after)
    total = Total(
        before_ns=before_ns,
        after_ns=after_ns,
        difference_ns=after_ns - before_ns,
        change=judge_difference(before_ns, after_ns, *sums),
    )
    return total, tuple(sorted(rows, key=lambda row: -abs(row.difference_ns)))


_Pair = tuple[tuple[Group, ...], tuple[Group, ...], MatchedBy | None]
_PASSES: tuple[tuple[MatchedBy, Callable[[Group], Hashable]], ...] = (
    ("role and name", lambda group: (group.role, group.name)),
    ("role and short name", lambda group: (group.role, group.short_name)),
    ("role", lambda group: None if group.role in (None, UNKNOWN_ROLE) else group.role),
)


def _match(before: Sequence[Group], after: Sequence[Group]) -> list[_Pair]:
    """Every group in exactly one pair; a pass takes what the stricter ones before it left."""
    pairs: list[_Pair] = []
    old, new = list(before), list(after)
    for matched_by, key_of in _PASSES:
        old_by, new_by = _index(old, key_of), _index(new, key_of)
        for key in [key for key in old_by if key in new_by]:
            found = "name" if old_by[key][0].role is None else matched_by
            pairs.append((tuple(old_by[key]), tuple(new_by[key]), found))
        old = [group for group in old if key_of(group) not in new_by]
        new = [group for group in new if key_of(group) not in old_by]
    pairs += [((group,), (), None) for group in old]
    pairs += [((), (group,), None) for group in new]
    return pairs


def _index(groups: Iterable[Group], key_of: Callable[[Group], Hashable]) -> dict[Hashable, list[Group]]:
    found: dict[Hashable, list[Group]] = {}
    for group in groups:
        if (key := key_of(group)) is not None:
            found.setdefault(key, []).append(group)
    return found


def _compare_row(
    pair: _Pair, before: Side | None, after: Side | None, steps_before: int, steps_after: int
) -> ComparedRow:
    old, new, matched_by = pair
    before_ns, after_ns = (0 if side is None else side.time_ns for side in (before, after))
    change: Change
    if before is None or after is None:
        change = "appeared" if before is None else "vanished"
    else:
        change = judge_difference(before_ns, after_ns, add_steps(old, steps_before), add_steps(new, steps_after))
    return ComparedRow(
        role=(*old, *new)[0].role,
        matched_by=matched_by,
        before=before,
        after=after,
        difference_ns=after_ns - before_ns,
        difference_bytes=_subtract_bytes(before, after),
        change=change,
    )


def _subtract_bytes(before: Side | None, after: Side | None) -> int | None:
    """None where a side that is there moved an unknown number of bytes; a side that is not there moved none."""
    if (before is not None and before.bytes is None) or (after is not None and after.bytes is None):
        return None
    moved = [0 if side is None or side.bytes is None else side.bytes for side in (before, after)]
    return moved[1] - moved[0]


def judge_difference(before_ns: int, after_ns: int, steps_before: Sequence[int], steps_after: Sequence[int]) -> Change:
    """What the difference between two means is worth, given each step's sum on both sides.

    It has to exceed the noise of both sides together. Three steps a side that vary alike come that far apart about
    once in a hundred times.
    """
    if before_ns == after_ns:
        return "unchanged"
    noises = estimate_noise_ns(steps_before), estimate_noise_ns(steps_after)
    if noises[0] is None or noises[1] is None:
        return "not_judged"
    if abs(after_ns - before_ns) <= noises[0] + noises[1] + CLOCK_TICK_NS:
        return "within_noise"
    return "slower" if after_ns > before_ns else "faster"


def compare_clock(
    name: Literal["device time", "submission time", "wall time"],
    before: LatencySummary | None,
    after: LatencySummary | None,
) -> ComparedClock:
    """One clock's medians; they differ when they are further apart than half of both interquartile ranges."""
    reason = ""
    if before is None or after is None:
        reason = "not recorded in both runs"
    elif (_method_kind(before), before.l2) != (_method_kind(after), after.l2):
        reason = "taken by different methods"
    if before is None or after is None or reason:
        return ComparedClock(name=name, before=before, after=after, difference_ns=None, change=None, reason=reason)
    difference_ns = after.median_ns - before.median_ns
    change: Change = "slower" if difference_ns > 0 else "faster"
    if not difference_ns:
        change = "unchanged"
    elif min(before.count, after.count) < 2:
        change = "not_judged"
    elif abs(difference_ns) <= (before.iqr_ns + after.iqr_ns) / 2:
        change = "within_noise"
    return ComparedClock(name=name, before=before, after=after, difference_ns=difference_ns, change=change)


def _method_kind(summary: LatencySummary) -> str:
    """The method without its number of calls, which follows from how long a call takes: medians are of one call."""
    return _CALLS_IN_METHOD.sub("calls", summary.method)


def _compare_clocks(before: Report, after: Report) -> tuple[ComparedClock, ...]:
    old, new = before.latency, after.latency
    clocks = (
        compare_clock("device time", old.device, new.device),
        compare_clock("submission time", old.submission, new.submission),
        compare_clock("wall time", old.wall, new.wall),
    )
    return tuple(clock for clock in clocks if clock.before is not None or clock.after is not None)


def _compare_figures(before: Report, after: Report) -> tuple[ComparedFigure, ...]:
    """Counts and sizes a step and a call; what neither run has is left out."""
    measures: tuple[tuple[str, Literal["bytes", "count"], Callable[[Report], float | None]], ...] = (
        ("kernels a step", "count", lambda report: _of(report.device_items_per_step, "kernels")),
        ("memory copies a step", "count", lambda report: _of(report.device_items_per_step, "memcpy")),
        ("memory sets a step", "count", lambda report: _of(report.device_items_per_step, "memset")),
        ("bytes copied a step", "bytes", lambda report: moved_bytes(report, "memcpy")),
        ("bytes set a step", "bytes", lambda report: moved_bytes(report, "memset")),
        ("score matrix written, one copy", "bytes", score_matrix_bytes),
        ("allocated besides inputs and results", "bytes", lambda report: _of(report.memory, "materialized_bytes")),
        ("peak memory", "bytes", lambda report: _of(report.memory, "peak_bytes")),
    )
    figures = [_compare_figure(name, unit, read(before), read(after)) for name, unit, read in measures]
    return tuple(figure for figure in figures if figure.before is not None or figure.after is not None)


def _of(facts: ItemsPerStep | Memory | None, field: str) -> float | None:
    return None if facts is None else getattr(facts, field)


def _compare_figure(
    name: str, unit: Literal["bytes", "count"], before: float | None, after: float | None
) -> ComparedFigure:
    difference = None if before is None or after is None else after - before
    return ComparedFigure(name=name, unit=unit, before=before, after=after, difference=difference)


def moved_bytes(report: Report, kind: Literal["memcpy", "memset"]) -> float | None:
    """Bytes that one step's memory copies or sets move; None: no steps, no device items, or a size is not recorded."""
    if report.device_items_per_step is None:
        return None
    total = 0
    for kernel in report.kernels:
        if kernel.kind == kind:
            if kernel.bytes is None:
                return None
            total += kernel.bytes * kernel.calls
    return total / report.steps_recorded


def score_matrix_bytes(report: Report) -> int | None:
    """One copy of the score matrix where the backend that ran writes it, 0 where it keeps it on chip, None: unknown."""
    observed = report.observed_backend
    if not isinstance(report.workload, Workload) or observed is None or observed.confidence == "unknown":
        return None
    if observed.family not in COMPOSED_FAMILIES:
        return 0
    return score_copy(observed.family, report.workload)[0]
