"""Summary: the six questions that any trace must answer, and the guess."""

from profiling.composed import describe_composed
from profiling.format import format_bytes, format_count, format_quantity, format_rate, format_share
from profiling.report_schema import Answer, Report
from ui.components.facts import render_facts
from ui.guess import GuessScore, score_guess
from ui.markup import Markup, element
from ui.panels.panel import html_panel
from ui.roles import render_role
from ui.view import RunView


def render(view: RunView) -> Markup:
    """Guess, six answers with their evidence, and the work that the shape asks for."""
    report = view.analysis.report
    score = score_guess(view)
    return element(
        "div",
        _render_score(score) if score else None,
        element("h3", "Six questions to put to any trace"),
        element("dl", *(_render_answer(answer) for answer in report.answers), class_="answers")
        if report.answers
        else element("p", "No trace was recorded, so there is nothing to ask."),
        _render_work(report),
        element(
            "p",
            "Host means the CPU that submits work, device the GPU that runs it; both work at the same time, so the "
            "slower of the two decides.",
            class_="quiet",
        ),
        class_="att",
    )


def _render_score(score: GuessScore) -> Markup:
    kernels = [
        element(
            "li",
            f"{format_count(kernel.calls_per_step)} × ",
            element("code", kernel.short_name, title=kernel.name),
            ": ",
            kernel.description,
            " ",
            render_role(kernel.role),
        )
        for kernel in score.kernels
    ]
    return element(
        "section", element("h3", "Your guess"), element("p", score.sentence), element("ul", *kernels), class_="reasons"
    )


def _render_answer(answer: Answer) -> Markup:
    evidence = [element("li", line) for line in answer.evidence]
    return element(
        "div",
        element("dt", answer.question),
        element("dd", answer.answer, element("ul", *evidence) if evidence else None),
    )


def _render_work(report: Report) -> Markup | None:
    cost, roofline = report.cost, report.roofline
    if cost is None:
        return None
    rows = [
        ("work", f"{format_count(cost.flops)} FLOPs"),
        ("least traffic", format_bytes(cost.bytes_min)),
        ("arithmetic intensity", format_quantity(cost.arithmetic_intensity, "FLOP/byte")),
        *describe_composed(cost),
    ]
    if roofline is not None:
        rows += [
            ("achieved", format_rate(roofline.achieved_flops_per_s, "FLOP")),
            ("achieved traffic", format_rate(roofline.achieved_bytes_per_s, "B")),
            (
                "share of the ceiling",
                f"{format_share(roofline.share_of_ceiling)} ({roofline.bound or 'bound not known'}; "
                f"{roofline.ceiling_source or 'no ceiling is known for this device'})",
            ),
        ]
    return element(
        "section",
        element("h3", "The work this shape asks for"),
        render_facts(rows),
        element("ul", *(element("li", line) for line in cost.assumptions)),
        class_="reasons",
    )


PANEL = html_panel("summary", "Summary", render)
