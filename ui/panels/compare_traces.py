"""Compare traces: the run on the page against another one, kernel by kernel and a step at a time."""

from collections.abc import Iterable

from profiling.comparison import compare_analyses
from profiling.comparison_schema import ComparedClock, ComparedRow, Comparison, Side
from profiling.comparison_words import (
    MATCH_HELP,
    NOISE_HELP,
    NOT_THERE,
    describe_change,
    describe_result,
    describe_row_change,
    describe_total,
    format_figure,
    format_signed_duration,
    row_bytes,
)
from profiling.format import format_count, format_duration, format_spread
from profiling.report_schema import LatencySummary
from ui.components.facts import render_facts
from ui.components.names import render_name
from ui.components.table import MAX_ROWS, Cell, Column, Row, number, render_table, words
from ui.markup import Markup, element, join
from ui.panels.panel import html_panel
from ui.roles import render_role
from ui.view import RunView

MOST_NAMES = 4  # of one side, where several of a role matched
COLUMNS = (
    Column(title="kernel", help="where the names differ: before, then after"),
    Column(title="role"),
    Column(title="before", kind="number", help="time of one step"),
    Column(title="after", kind="number", help="time of one step"),
    Column(title="difference", kind="number", help="after minus before; the rows add up to the total"),
    Column(title="what happened"),
    Column(title="bytes", kind="number", help="after minus before, of memory copies and sets"),
    Column(title="calls", kind="number", help="calls a step, before and after"),
    Column(title="matched by", help=MATCH_HELP),
)
CLOCK_COLUMNS = (
    Column(title="un-profiled clock"),
    Column(title="before", kind="number", help="median ± half the interquartile range"),
    Column(title="after", kind="number", help="median ± half the interquartile range"),
    Column(title="difference", kind="number"),
    Column(title="what happened"),
)
FIGURE_COLUMNS = (
    Column(title="count or size"),
    Column(title="before", kind="number"),
    Column(title="after", kind="number"),
    Column(title="difference", kind="number"),
)


def render(view: RunView) -> Markup:
    """The comparison, or what to choose to have one."""
    if view.against is None:
        return element(
            "div",
            element(
                "p",
                "Choose a recorded run, or a trace or recording of your own, to lay the run above beside it: what "
                "appeared, what vanished, what takes longer.",
            ),
            class_="att",
        )
    before, after = view.against, view
    comparison = compare_analyses(before.analysis, after.analysis, before_title=before.title, after_title=after.title)
    return render_comparison(comparison)


def render_comparison(comparison: Comparison) -> Markup:
    """Warnings, the result and what it may be put down to, then the rows, clocks, counts and sizes."""
    return element(
        "div",
        *(element("p", f"▲ {warning}", class_="warn taint") for warning in comparison.warnings),
        render_facts((("before", comparison.before_title), ("after", comparison.after_title))),
        _render_result(comparison),
        _render_rows(comparison),
        _render_clocks(comparison.clocks),
        _render_figures(comparison),
        _render_variables(comparison),
        class_="att comparison",
    )


def _render_result(comparison: Comparison) -> Markup:
    if not comparison.reasons:
        return element(
            "div",
            element("p", element("strong", describe_result(comparison))),
            element("p", comparison.attribution),
        )
    return element(
        "section",
        element("h3", "Not comparable"),
        *(element("p", reason) for reason in comparison.reasons),
        class_="notice",
        role="status",
    )


def _render_variables(comparison: Comparison) -> Markup | None:
    if not comparison.variables:
        return None
    rows = ((entry.name, f"{entry.before} → {entry.after}") for entry in comparison.variables)
    return element("section", element("h3", "What differs between the runs"), render_facts(rows))


def _render_rows(comparison: Comparison) -> Markup | None:
    total = comparison.total
    if total is None:
        return None
    sums = describe_total(comparison)
    # Without un-profiled clocks it is the result, which stands above already.
    sums = "" if sums == describe_result(comparison) else f"{sums} "
    sums += f"The differences below add up to {format_signed_duration(total.difference_ns)}."
    steps = ""
    if comparison.basis == "step":
        steps = f"{comparison.steps_before} recorded steps before, {comparison.steps_after} after; "
    heading = "Kernels, copies and sets" if comparison.measure == "device time" else "Operators"
    return element(
        "section",
        element("h3", heading),
        element("p", sums),
        render_table(
            COLUMNS,
            [_row(row) for row in comparison.rows[:MAX_ROWS]],
            caption="what changed",
            pin_first=True,
            left_out=len(comparison.rows) - MAX_ROWS,
        ),
        element("p", f"{steps}{NOISE_HELP}. Select a row to see the run above on the timeline.", class_="quiet"),
    )


def _row(row: ComparedRow) -> Row:
    cells = (
        _names(row),
        Cell(content=render_role(row.role), sort_key=row.role) if row.role else words("operator"),
        _time(row.before),
        _time(row.after),
        number(format_signed_duration(row.difference_ns), row.difference_ns),
        words(describe_row_change(row)),
        number(row_bytes(row), row.difference_bytes),
        number(f"{_calls(row.before)} → {_calls(row.after)}", row.after.calls if row.after else None),
        words(row.matched_by or NOT_THERE),
    )
    return Row(cells=cells, items=row.after.items if row.after else ())


def _names(row: ComparedRow) -> Cell:
    sides = [side for side in (row.before, row.after) if side is not None]
    if len({side.names for side in sides}) == 1:
        sides = sides[:1]
    lines = join((_list_names(side) for side in sides), element("span", "→", class_="sentence"))
    return Cell(content=lines, sort_key=sides[0].short_names[0])


def _list_names(side: Side) -> Markup:
    shown = list(zip(side.short_names, side.names, strict=True))[:MOST_NAMES]
    more = len(side.names) - len(shown)
    return join(
        (
            *(element("div", render_name(short_name, name)) for short_name, name in shown),
            element("div", f"and {format_count(more)} more") if more else None,
        )
    )


def _time(side: Side | None) -> Cell:
    return number(NOT_THERE, None) if side is None else number(format_duration(side.time_ns), side.time_ns)


def _calls(side: Side | None) -> str:
    return NOT_THERE if side is None else format_count(side.calls)


def _render_clocks(clocks: Iterable[ComparedClock]) -> Markup | None:
    rows = [Row(cells=_clock_cells(clock)) for clock in clocks]
    if not rows:
        return None
    return element(
        "section", element("h3", "Un-profiled clocks"), render_table(CLOCK_COLUMNS, rows, caption="un-profiled clocks")
    )


def _clock_cells(clock: ComparedClock) -> tuple[Cell, ...]:
    happened = f"not comparable: {clock.reason}"
    if clock.change and clock.before and clock.after:
        happened = describe_change(clock.change, clock.before.median_ns, clock.after.median_ns)
    difference = number(format_signed_duration(clock.difference_ns), clock.difference_ns)
    return (words(clock.name), _median(clock.before), _median(clock.after), difference, words(happened))


def _median(summary: LatencySummary | None) -> Cell:
    if summary is None:
        return number(format_duration(None), None)
    spread = format_spread(summary.iqr_ns, beside_ns=summary.median_ns)
    return number(f"{format_duration(summary.median_ns)} {spread}", summary.median_ns)


def _render_figures(comparison: Comparison) -> Markup | None:
    rows = []
    for figure in comparison.figures:
        values = (figure.before, figure.after, figure.difference)
        cells = (number(text, value) for text, value in zip(format_figure(figure), values, strict=True))
        rows.append(Row(cells=(words(figure.name), *cells)))
    if not rows:
        return None
    return element(
        "section", element("h3", "Counts and sizes"), render_table(FIGURE_COLUMNS, rows, caption="counts and sizes")
    )


PANEL = html_panel("compare_traces", "Compare traces", render, stays_mounted=True)
