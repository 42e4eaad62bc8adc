"""A comparison as text for a terminal: what it may be put down to, the totals, then the rows that make them up."""

from profiling.commands.text import align, clean, shorten, wrap
from profiling.comparison_schema import ComparedRow, Comparison
from profiling.comparison_words import (
    MATCH_HELP,
    NOISE_HELP,
    NOT_THERE,
    describe_change,
    describe_measure,
    describe_names,
    describe_result,
    describe_row_change,
    format_figure,
    format_signed_duration,
    row_bytes,
)
from profiling.format import format_count, format_duration, format_spread
from profiling.report_schema import LatencySummary

NAME_WIDTH = 46
MOST_ROWS = 20


def render_comparison(comparison: Comparison) -> str:
    """Everything that a reader needs to judge the difference; all rows are in the JSON."""
    sections = (
        *(wrap(f"▲ {warning}") for warning in comparison.warnings),
        f"before  {clean(comparison.before_title)}\nafter   {clean(comparison.after_title)}",
        _result(comparison),
        _variables(comparison),
        _clocks(comparison),
        _figures(comparison),
        _rows(comparison),
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def _result(comparison: Comparison) -> str:
    if comparison.reasons:
        return "\n".join(("NOT COMPARABLE", *(wrap(reason, indent="    ") for reason in comparison.reasons)))
    return "\n".join((wrap(describe_result(comparison)), wrap(comparison.attribution)))


def _variables(comparison: Comparison) -> str:
    if not comparison.variables:
        return ""
    rows = [("DIFFERS", "BEFORE", "AFTER")]
    rows += [(clean(entry.name), clean(entry.before), clean(entry.after)) for entry in comparison.variables]
    return align(rows)


def _clocks(comparison: Comparison) -> str:
    if not comparison.clocks:
        return ""
    rows = [("UN-PROFILED CLOCK", "BEFORE", "AFTER", "DIFFERENCE", "WHAT HAPPENED")]
    for clock in comparison.clocks:
        happened = f"not comparable: {clock.reason}"
        if clock.change and clock.before and clock.after:
            happened = describe_change(clock.change, clock.before.median_ns, clock.after.median_ns)
        before, after = _median(clock.before), _median(clock.after)
        rows.append((clock.name, before, after, format_signed_duration(clock.difference_ns), happened))
    return f"{align(rows, right=(1, 2, 3))}\n  medians ± half the interquartile range"


def _median(summary: LatencySummary | None) -> str:
    if summary is None:
        return format_duration(None)
    return f"{format_duration(summary.median_ns)} {format_spread(summary.iqr_ns, beside_ns=summary.median_ns)}"


def _figures(comparison: Comparison) -> str:
    if not comparison.figures:
        return ""
    rows = [("COUNT OR SIZE", "BEFORE", "AFTER", "DIFFERENCE")]
    rows += [(figure.name, *format_figure(figure)) for figure in comparison.figures]
    return align(rows, right=(1, 2, 3))


def _rows(comparison: Comparison) -> str:
    total = comparison.total
    if total is None:
        return ""
    head = "KERNEL" if comparison.measure == "device time" else "OPERATOR"
    heads = (head, "ROLE", "BEFORE", "AFTER", "DIFFERENCE", "BYTES", "WHAT HAPPENED", "MATCHED BY")
    rows: list[tuple[str, ...]] = [heads, *map(_row, comparison.rows[:MOST_ROWS])]
    left = comparison.rows[MOST_ROWS:]
    if left:
        rest = sum(row.difference_ns for row in left)
        name = f"… {format_count(len(left))} more, all in the JSON"
        rows.append((name, "", "", "", format_signed_duration(rest), "", "", ""))
    change = describe_change(total.change, total.before_ns, total.after_ns)
    times = (format_duration(total.before_ns), format_duration(total.after_ns))
    rows.append(("total", "", *times, format_signed_duration(total.difference_ns), "", change, ""))
    steps = ""
    if comparison.basis == "step":
        steps = f"; {comparison.steps_before} steps before, {comparison.steps_after} after"
    notes = f"{describe_measure(comparison)}{steps}. Matching: {MATCH_HELP}. Noise: {NOISE_HELP}."
    return f"{align(rows, right=(2, 3, 4, 5))}\n{wrap(notes, indent='  ')}"


def _row(row: ComparedRow) -> tuple[str, ...]:
    times = (NOT_THERE if side is None else format_duration(side.time_ns) for side in (row.before, row.after))
    return (
        _names(row),
        row.role or "",
        *times,
        format_signed_duration(row.difference_ns),
        row_bytes(row),
        describe_row_change(row),
        row.matched_by or NOT_THERE,
    )


def _names(row: ComparedRow) -> str:
    names = describe_names(row)
    width = NAME_WIDTH if len(names) == 1 else (NAME_WIDTH - 3) // 2
    return " → ".join(shorten(name, width) for name in names)
