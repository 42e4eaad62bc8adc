"""Fallbacks: asked, promised and seen; every backend's verdict; PyTorch's own warnings, whole."""

from attention.backends import BACKENDS, Decision
from attention.fusion.backends import FUSION_BACKENDS
from attention.workload import Workload
from profiling.format import NOT_RECORDED, format_duration, format_error, format_spread
from profiling.headline import BASIS_WORDS, VERDICT_MARKS, VERDICT_WORDS
from profiling.measured_unlocks import BUDGET_WORDS, list_changes
from profiling.refusal import explain_message
from profiling.report_schema import LatencySummary, MeasuredUnlock, Report
from profiling.unlocks import describe_unlocks
from ui.components.facts import render_facts
from ui.components.table import Cell, Column, Row, number, render_table, words
from ui.markup import Markup, element
from ui.panels.panel import html_panel
from ui.view import RunView

TONES = {"accepted": "good", "rejected": "warn", "undetermined": ""}
COLUMNS = (
    Column(title="backend"),
    Column(title="verdict"),
    Column(title="reason"),
    Column(title="one change that unlocks it", help="single changes, tried alone on this device or accepted by rule"),
    Column(title="known by"),
)
UNLOCK_COLUMNS = (
    Column(title="backend"),
    Column(title="change"),
    Column(title="device time", kind="number", help="median ± half the interquartile range"),
    Column(title="wall time", kind="number", help="median ± half the interquartile range"),
    Column(title="largest error", kind="number", help="of the tensor nearest to its budget"),
    Column(title="budget", kind="number"),
    Column(title="verdict"),
)


def render(view: RunView) -> Markup:
    """Three facts, the table of verdicts, what the unlocking changes cost, the messages and the warnings."""
    report = view.analysis.report
    if report.workload is None:
        facts = _render_three(report)
        reason = "A trace alone does not say what was asked for, so no backend can be judged."
        return element("div", facts, element("p", reason), class_="att")
    return element(
        "div",
        _render_three(report),
        element("h3", "Every backend's verdict on this workload"),
        element(
            "p",
            "Known by trial: PyTorch was asked for this backend alone, on this device. Known by rule: from the shape, "
            "the dtype and the device.",
            " A change that unlocks a backend keeps the question: the keys that a query may attend to and the softmax "
            "scale stay as they are."
            if isinstance(report.workload, Workload)
            else None,
            class_="quiet",
        ),
        render_table(
            COLUMNS,
            [Row(cells=_cells(decision, report.unlock_measurements)) for decision in report.decisions],
            caption="backend verdicts",
        )
        if report.decisions
        else element("p", "No backend was asked in this run."),
        _render_measured(report),
        _render_messages(report.decisions),
        _render_warnings(report),
        class_="att",
    )


def _render_three(report: Report) -> Markup:
    observed = report.observed_backend
    evidence = (
        element("ul", *(element("li", element("code", name)) for name in observed.evidence)) if observed else None
    )
    seen = f"{observed.family} ({observed.confidence})" if observed else NOT_RECORDED
    return element(
        "section",
        element("h3", "Asked, promised, seen"),
        render_facts(
            [
                ("requested", report.requested_backend or NOT_RECORDED),
                ("predicted by the verdicts", report.predicted_backend or "none"),
                ("observed in the trace", element("div", seen, evidence, class_="reasons")),
            ]
        ),
    )


def _cells(decision: Decision, measured: tuple[MeasuredUnlock, ...]) -> tuple[Cell, ...]:
    verdict, tone = f"{VERDICT_MARKS[decision.verdict]} {VERDICT_WORDS[decision.verdict]}", TONES[decision.verdict]
    titles = {backend.slug: backend.title for backend in (*BACKENDS, *FUSION_BACKENDS)}
    return (
        Cell(content=element("code", decision.backend, title=titles.get(decision.backend)), sort_key=decision.backend),
        Cell(content=element("span", verdict, class_=f"nowrap {tone}"), sort_key=verdict),
        words(decision.reason or NOT_RECORDED),
        Cell(content=_render_unlocks(decision, measured), sort_key="; ".join(decision.unlocked_by) or None),
        words(BASIS_WORDS[decision.basis]),
    )


def _render_unlocks(decision: Decision, measured: tuple[MeasuredUnlock, ...]) -> Markup | str:
    if not decision.unlocked_by:
        return describe_unlocks(decision) or "–"
    changes = [element("div", change) for change in list_changes(decision, measured)]
    untried = [element("div", f"not tried: {change}", class_="quiet") for change in decision.untried]
    return element("div", element("div", "Change one thing:", class_="quiet"), *changes, *untried)


def _render_measured(report: Report) -> Markup | None:
    """Every change that was measured, with the method; None where it was not asked for."""
    if not report.unlock_measurements:
        return None
    clocks = [clock for unlock in report.unlock_measurements for clock in (unlock.device, unlock.wall) if clock]
    methods = "; ".join(dict.fromkeys(clock.method for clock in clocks))
    base = next((unlock for unlock in report.unlock_measurements if unlock.base_ns is not None), None)
    as_asked = (
        "" if base is None else f" {base.base_backend} as asked: {format_duration(base.base_ns)} of {base.clock} time."
    )
    return element(
        "section",
        element("h3", "What the unlocking changes cost"),
        element("p", f"Each run at full size and judged against its own float64 reference.{as_asked}", class_="quiet"),
        render_table(
            UNLOCK_COLUMNS,
            [Row(cells=_measured_cells(unlock)) for unlock in report.unlock_measurements],
            caption="what the unlocking changes cost",
        ),
        element("p", f"Method: {methods}.", class_="quiet") if methods else None,
    )


def _measured_cells(unlock: MeasuredUnlock) -> tuple[Cell, ...]:
    return (
        Cell(content=element("code", unlock.backend), sort_key=unlock.backend),
        words(unlock.change),
        _clock_cell(unlock.device),
        _clock_cell(unlock.wall),
        number(format_error(unlock.max_abs_error), unlock.max_abs_error),
        number(format_error(unlock.error_budget), unlock.error_budget),
        words(f"not measured: {unlock.skipped}" if unlock.skipped else BUDGET_WORDS[unlock.within_budget]),
    )


def _clock_cell(clock: LatencySummary | None) -> Cell:
    if clock is None:
        return number(NOT_RECORDED, None)
    spread = format_spread(clock.iqr_ns, beside_ns=clock.median_ns)
    return number(f"{format_duration(clock.median_ns)} {spread}", clock.median_ns)


def _render_messages(decisions: tuple[Decision, ...]) -> Markup | None:
    said = [decision for decision in decisions if decision.raw_message]
    if not said:
        return None
    blocks = [
        element(
            "details",
            element("summary", element("code", decision.backend)),
            element("pre", decision.raw_message, class_="raw"),
            open=decision.verdict == "rejected",
        )
        for decision in said
    ]
    return element("section", element("h3", "What PyTorch or the kernel's own library said to each"), *blocks)


def _render_warnings(report: Report) -> Markup:
    blocks = [
        element(
            "div",
            element("span", f"{warning.category}, in stage “{warning.stage}”", class_="quiet"),
            element("pre", warning.message, class_="raw"),
            element("p", f"→ {meaning}") if (meaning := explain_message(warning.message, report)) else None,
        )
        for warning in report.warnings
    ]
    return element(
        "section",
        element("h3", "PyTorch's own warnings during the run"),
        *(blocks or [element("p", "PyTorch gave no warning.")]),
    )


PANEL = html_panel("backends", "Fallbacks", render)
