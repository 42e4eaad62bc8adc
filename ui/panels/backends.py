"""Fallbacks: asked, promised and seen; every backend's verdict; PyTorch's own warnings, whole."""

from attention.backends import BACKENDS, Decision
from profiling.format import NOT_RECORDED
from profiling.headline import BASIS_WORDS, VERDICT_MARKS, VERDICT_WORDS
from profiling.report_schema import Report
from profiling.unlocks import describe_unlocks
from ui.components.facts import render_facts
from ui.components.table import Cell, Column, Row, render_table, words
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


def render(view: RunView) -> Markup:
    """Three facts, the table of verdicts, the messages and the warnings."""
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
            "the dtype and the device. A change that unlocks a backend keeps the question: the keys that a query may "
            "attend to and the softmax scale stay as they are.",
            class_="quiet",
        ),
        render_table(
            COLUMNS, [Row(cells=_cells(decision)) for decision in report.decisions], caption="backend verdicts"
        )
        if report.decisions
        else element("p", "No backend was asked in this run."),
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


def _cells(decision: Decision) -> tuple[Cell, ...]:
    verdict, tone = f"{VERDICT_MARKS[decision.verdict]} {VERDICT_WORDS[decision.verdict]}", TONES[decision.verdict]
    titles = {backend.slug: backend.title for backend in BACKENDS}
    return (
        Cell(content=element("code", decision.backend, title=titles.get(decision.backend)), sort_key=decision.backend),
        Cell(content=element("span", verdict, class_=f"nowrap {tone}"), sort_key=verdict),
        words(decision.reason or NOT_RECORDED),
        Cell(content=_render_unlocks(decision), sort_key="; ".join(decision.unlocked_by) or None),
        words(BASIS_WORDS[decision.basis]),
    )


def _render_unlocks(decision: Decision) -> Markup | str:
    if not decision.unlocked_by:
        return describe_unlocks(decision) or "–"
    changes = [element("div", change) for change in decision.unlocked_by]
    return element("div", element("div", "Change one thing:", class_="quiet"), *changes)


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
    return element("section", element("h3", "What PyTorch said to each"), *blocks)


def _render_warnings(report: Report) -> Markup:
    blocks = [
        element(
            "div",
            element("span", f"{warning.category}, in stage “{warning.stage}”", class_="quiet"),
            element("pre", warning.message, class_="raw"),
        )
        for warning in report.warnings
    ]
    return element(
        "section",
        element("h3", "PyTorch's own warnings during the run"),
        *(blocks or [element("p", "PyTorch gave no warning.")]),
    )


PANEL = html_panel("backends", "Fallbacks", render)
