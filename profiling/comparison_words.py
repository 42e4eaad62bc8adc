"""A comparison in words: the same on the page and in a terminal."""

from profiling.comparison_schema import Change, ComparedFigure, ComparedRow, Comparison, Side
from profiling.format import NOT_RECORDED, format_bytes, format_comparison, format_count, format_duration

MATCH_HELP = (
    "kernels are matched by role and whole name, then by role and short name, then by role alone, where several of one "
    "role are laid beside several others"
)
NOISE_HELP = (
    "a difference counts as slower or faster only where it exceeds the noise of both sides: the range of their steps, "
    "or half the interquartile range from nine steps on"
)
_WORDS: dict[Change, str] = {
    "appeared": "appeared",
    "vanished": "vanished",
    "within_noise": "within the noise",
    "unchanged": "unchanged",
    "not_judged": "not judged: one step has no spread",
}
NOT_THERE = "–"


def describe_change(change: Change, before_ns: int, after_ns: int) -> str:
    """``1.13× faster``, the ratio never below 1; ``slower by 40 ns`` where the ratio would round to 1."""
    if change not in ("slower", "faster"):
        return _WORDS[change]
    ratio, _, than = format_comparison(after_ns, before_ns).rpartition(" ")
    if than != "than":
        return f"{change} by {format_duration(abs(after_ns - before_ns))}"
    return ratio


def describe_row_change(row: ComparedRow) -> str:
    """What happened to one row."""
    if row.before is None or row.after is None:
        return _WORDS[row.change]
    return describe_change(row.change, row.before.time_ns, row.after.time_ns)


def describe_result(comparison: Comparison) -> str:
    """The comparison's one sentence: the un-profiled device clock where both ran it, else the trace's total."""
    clock = next((entry for entry in comparison.clocks if entry.name == "device time" and entry.change), None)
    if clock is not None and clock.change and clock.before and clock.after:
        before_ns, after_ns = clock.before.median_ns, clock.after.median_ns
        figures = f"{format_duration(before_ns)} before, {format_duration(after_ns)} after"
        return f"Device time of one call: {figures}: {describe_change(clock.change, before_ns, after_ns)}."
    return describe_total(comparison)


def describe_total(comparison: Comparison) -> str:
    """What the rows of the comparison add up to, before and after, as one sentence."""
    total = comparison.total
    if total is None:
        return "Not comparable."
    figures = f"{format_duration(total.before_ns)} before, {format_duration(total.after_ns)} after"
    change = describe_change(total.change, total.before_ns, total.after_ns)
    return f"{describe_measure(comparison)}: {figures}: {change}."


def describe_measure(comparison: Comparison) -> str:
    """``Device time of one step, as profiled``: what the rows add up to."""
    measure = (comparison.measure or "time").replace("device", "Device").replace("self", "Self")
    return f"{measure} of {'one step' if comparison.basis == 'step' else 'the whole trace'}, as profiled"


def describe_side(side: Side | None) -> str:
    """The short names of one side, the first and how many more."""
    if side is None:
        return NOT_THERE
    more = f" and {len(side.short_names) - 1} more" if len(side.short_names) > 1 else ""
    return f"{side.short_names[0]}{more}"


def describe_names(row: ComparedRow) -> tuple[str, ...]:
    """The row's name; before's and after's where they differ."""
    return tuple(dict.fromkeys(describe_side(side) for side in (row.before, row.after) if side is not None))


def format_signed_duration(ns: float | None) -> str:
    """``+2.56 µs``: a difference keeps its sign."""
    if ns is None:
        return NOT_RECORDED
    return f"{'+' if ns > 0 else ''}{format_duration(ns)}"


def format_signed_bytes(size: float | None) -> str:
    if size is None:
        return NOT_RECORDED
    return f"{'+' if size > 0 else ''}{format_bytes(size)}"


def format_figure(figure: ComparedFigure) -> tuple[str, str, str]:
    """Before, after and difference of one count or size."""
    if figure.unit == "bytes":
        return format_bytes(figure.before), format_bytes(figure.after), format_signed_bytes(figure.difference)
    sign = "+" if (figure.difference or 0) > 0 else ""
    difference = NOT_RECORDED if figure.difference is None else f"{sign}{format_count(figure.difference)}"
    return format_count(figure.before), format_count(figure.after), difference


def row_bytes(row: ComparedRow) -> str:
    """The change in bytes moved; a kernel has none on record, which is not the same as an unrecorded size."""
    if row.role not in ("memcpy", "memset"):
        return NOT_THERE
    return format_signed_bytes(row.difference_bytes)
