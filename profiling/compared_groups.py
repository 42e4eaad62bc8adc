"""One run's device items or operators as groups that can be laid beside another run's."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from profiling.comparison_schema import Side
from profiling.report import Analysis
from profiling.report_schema import KernelRole

# Below it a quartile is one step's value or near it.
FEWEST_FOR_QUARTILES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Everything of one role and name. ``step_times_ns`` has one sum a step, or a single one for a whole trace.

    ``bytes``: moved by all calls together; None where it is no memory operation, or a size was not recorded.
    """

    role: KernelRole | None  # None: an operator
    name: str
    short_name: str
    calls: int
    step_times_ns: tuple[int, ...]
    bytes: int | None = None
    items: tuple[int, ...] = ()


def group_kernels(analysis: Analysis) -> tuple[Group, ...]:
    """The report's kernels and memory operations, joined over launch shapes and launching operators."""
    report, trace = analysis.report, analysis.trace
    assert trace is not None
    found: dict[tuple[KernelRole, str], list[int]] = defaultdict(list)
    short_names: dict[str, str] = {}
    for kernel in report.kernels:
        found[kernel.role, kernel.name] += kernel.items
        short_names[kernel.name] = kernel.short_name
    groups = []
    for (role, name), indices in found.items():
        items = [trace.device_items[index] for index in sorted(indices)]
        times = [0] * max(1, report.steps_recorded)
        for item in items:
            times[item.step or 0] += item.duration_ns
        sizes = [item.bytes for item in items if item.bytes is not None and item.kind != "kernel"]
        groups.append(
            Group(
                role=role,
                name=name,
                short_name=short_names[name],
                calls=len(items),
                step_times_ns=tuple(times),
                bytes=sum(sizes) if len(sizes) == len(items) else None,
                items=tuple(item.index for item in items),
            )
        )
    return tuple(groups)


def group_operators(analysis: Analysis) -> tuple[Group, ...]:
    """The report's operators with their self CPU time, for traces without device items."""
    report, trace = analysis.report, analysis.trace
    assert trace is not None
    times: dict[str, Counter[int]] = defaultdict(Counter)
    for operator in trace.operators:
        if trace.steps and operator.step is None:
            continue
        times[operator.name][operator.step or 0] += operator.duration_ns
        parent = None if operator.parent is None else trace.operators[operator.parent]
        if parent is not None and (parent.step is not None or not trace.steps):
            times[parent.name][operator.step or 0] -= operator.duration_ns
    return tuple(
        Group(
            role=None,
            name=operator.name,
            short_name=operator.name,
            calls=operator.calls,
            step_times_ns=tuple(times[operator.name][step] for step in range(max(1, report.steps_recorded))),
        )
        for operator in report.operators
    )


def build_sides(groups_of_rows: Sequence[tuple[Group, ...]], steps: int) -> list[Side | None]:
    """One side a row, of one step; None where the row has no group here. Steps 0: of the whole trace."""
    present = [groups for groups in groups_of_rows if groups]
    divisor = max(1, steps)
    times = iter(split_evenly([sum(sum(group.step_times_ns) for group in groups) for groups in present], divisor))
    sides: list[Side | None] = []
    for groups in groups_of_rows:
        if not groups:
            sides.append(None)
            continue
        sizes = [group.bytes for group in groups if group.bytes is not None]
        sums = add_steps(groups, steps)
        sides.append(
            Side(
                names=tuple(group.name for group in groups),
                short_names=tuple(group.short_name for group in groups),
                calls=sum(group.calls for group in groups) / divisor,
                time_ns=next(times),
                step_range_ns=(min(sums), max(sums)) if len(sums) > 1 else None,
                bytes=round(sum(sizes) / divisor) if len(sizes) == len(groups) else None,
                items=tuple(index for group in groups for index in group.items),
            )
        )
    return sides


def split_evenly(totals: Sequence[int], steps: int) -> list[int]:
    """Each total over ``steps``, as whole numbers that add up to the sum of the totals over ``steps``, rounded.

    Each is within 1 of its exact quotient: the largest remainders are rounded up (Hamilton's method).
    """
    parts = [divmod(total, steps) for total in totals]
    missing = round_quotient(sum(totals), steps) - sum(quotient for quotient, _ in parts)
    by_remainder = sorted(range(len(parts)), key=lambda index: -parts[index][1])
    raised = set(by_remainder[:missing])
    return [quotient + (index in raised) for index, (quotient, _) in enumerate(parts)]


def round_quotient(dividend: int, divisor: int) -> int:
    """The nearest whole number, an exact half to the even one, as ``round`` does; without a detour over a float."""
    quotient, remainder = divmod(dividend, divisor)
    return quotient + (2 * remainder > divisor or (2 * remainder == divisor and quotient % 2 == 1))


def add_steps(groups: Sequence[Group], steps: int) -> tuple[int, ...]:
    """Each step's sum over all groups; empty without steps or groups."""
    if not steps:
        return ()
    return tuple(sum(times) for times in zip(*(group.step_times_ns for group in groups), strict=True))


def estimate_noise_ns(step_sums: Sequence[int]) -> int | None:
    """How far a mean over these steps may be off; None: fewer than two steps tell nothing.

    Few steps: the whole range, because three or four say nothing of quartiles. Enough of them: half the interquartile
    range, as for every clock.
    """
    if len(step_sums) < 2:
        return None
    if len(step_sums) < FEWEST_FOR_QUARTILES:
        return max(step_sums) - min(step_sums)
    lower, _, upper = quantiles(step_sums, n=4, method="inclusive")
    return round((upper - lower) / 2)
