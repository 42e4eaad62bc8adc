"""Correctness: every tensor against its float64 reference, with the budget it is judged by."""

from profiling.format import NOT_RECORDED, format_count, format_error, format_ratio
from profiling.recording import Delta
from ui.components.table import Cell, Column, Row, number, render_table, words
from ui.markup import Markup, element
from ui.panels.panel import html_panel
from ui.view import RunView

COLUMNS = (
    Column(title="tensor"),
    Column(title="verdict"),
    Column(title="largest error", kind="number", help="largest absolute difference from the reference"),
    Column(title="budget", kind="number"),
    Column(title="of budget", kind="number"),
    Column(title="RMS error", kind="number", help="root mean square over all finite elements"),
    Column(title="NaN", kind="number"),
    Column(title="infinite", kind="number"),
    Column(title="worst at", help="index into the tensor [batch, head, row, dim]"),
    Column(title="value there", kind="number"),
    Column(title="reference there", kind="number"),
    Column(title="dead rows", kind="number", help="rows that may attend to nothing"),
)


def render(view: RunView) -> Markup:
    """The table and, under it, how each budget came about; or why nothing was compared."""
    deltas = view.analysis.report.correctness
    if not deltas:
        reason = (
            "A trace alone holds no values, so there is nothing to compare."
            if view.analysis.report.workload is None
            else "No output was compared with its reference in this run."
        )
        return element("div", element("p", reason), class_="att")
    notes = [
        element("li", element("strong", delta.tensor), f": against {delta.reference}. Budget: {delta.budget_basis}")
        for delta in deltas
    ]
    return element(
        "div",
        element(
            "p",
            "Judged by the worst element and not by a mean, which would hide a local fault. Both sides start from the "
            "same rounded inputs.",
            class_="quiet",
        ),
        render_table(COLUMNS, [Row(cells=_cells(delta)) for delta in deltas], caption="deltas against the reference"),
        element("div", element("h3", "Where the budgets come from"), element("ul", *notes), class_="reasons"),
        class_="att",
    )


def _cells(delta: Delta) -> tuple[Cell, ...]:
    share = None
    if delta.max_abs_error is not None and delta.error_budget:
        share = delta.max_abs_error / delta.error_budget
    verdict, tone = {True: ("✓ within", "good"), False: ("■ outside", "bad"), None: ("not judged", "")}[
        delta.within_budget
    ]
    where = NOT_RECORDED if delta.worst_index is None else f"[{', '.join(map(str, delta.worst_index))}]"
    return (
        words(delta.tensor),
        Cell(content=element("span", verdict, class_=f"nowrap {tone}"), sort_key=verdict),
        number(format_error(delta.max_abs_error), delta.max_abs_error),
        number(format_error(delta.error_budget), delta.error_budget),
        number(format_ratio(share), share),
        number(format_error(delta.rms_error), delta.rms_error),
        number(format_count(delta.nan_count), delta.nan_count),
        number(format_count(delta.inf_count), delta.inf_count),
        words(where),
        number(format_count(delta.worst_value), delta.worst_value),
        number(format_count(delta.worst_reference), delta.worst_reference),
        number(format_count(delta.dead_rows), delta.dead_rows),
    )


PANEL = html_panel("correctness", "Correctness", render)
