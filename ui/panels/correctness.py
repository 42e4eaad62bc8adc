"""Correctness: every tensor against its float64 reference, with the budget it is judged by."""

from profiling.check_records import MaskTruth
from profiling.format import NOT_RECORDED, format_count, format_error, format_ratio
from profiling.recording import Delta
from profiling.report_schema import Report
from profiling.row_words import describe_non_finite, describe_truth
from ui.components.mask_picture import render_mask_picture
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
    """The table, where values are not finite, the mask that was applied, and how each budget came about."""
    report = view.analysis.report
    deltas = report.correctness
    if not deltas:
        reason = (
            "A trace alone holds no values, so there is nothing to compare."
            if report.workload is None
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
        _render_non_finite(report),
        None if report.mask_truth is None else _render_truth(report.mask_truth),
        element("div", element("h3", "Where the budgets come from"), element("ul", *notes), class_="reasons"),
        class_="att",
    )


def _render_non_finite(report: Report) -> Markup | None:
    """Which rows hold NaN or infinite values, those that count apart from those that may attend to nothing."""
    if not report.non_finite:
        return None
    lines = [
        element("li", element("strong", rows.tensor), f": {describe_non_finite(rows)}") for rows in report.non_finite
    ]
    return element("div", element("h3", "Where NaN and infinite values lie"), element("ul", *lines), class_="reasons")


def _render_truth(truth: MaskTruth) -> Markup:
    """The mask that was applied in words, and drawn beside the one that was asked for."""
    pictures = [
        element(
            "figure",
            render_mask_picture(shares, title=f"mask {name}"),
            element("figcaption", name),
            class_="mask-figure",
        )
        for name, shares in (("asked", truth.asked_picture), ("applied", truth.applied_picture))
        if shares
    ]
    tone = "bad" if truth.wrong_pairs else None
    mark = "■ " if truth.wrong_pairs else "✓ " if truth.wrong_pairs == 0 else ""
    return element(
        "div",
        element("h3", "The mask that was applied"),
        element("p", f"{mark}{describe_truth(truth)}", class_=tone),
        element("div", *pictures, class_="mask-row") if pictures else None,
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
