"""Memory: what one un-profiled call held, beside what its shape alone asks for."""

from profiling.format import NOT_RECORDED, format_bytes, format_ratio
from profiling.report_schema import Report
from ui.components.facts import render_facts
from ui.markup import Markup, element
from ui.panels.panel import html_panel
from ui.view import RunView


def render(view: RunView) -> Markup:
    """Measured bytes, then what a score matrix would take."""
    report = view.analysis.report
    memory = report.memory
    if memory is None:
        reason = (
            "A trace alone does not say what a call held."
            if report.workload is None
            else "Memory was not measured in this run."
        )
        return element("div", element("p", reason), class_="att")
    rows = [
        ("peak during the call", format_bytes(memory.peak_bytes)),
        ("query, key, value, and mask and grad_output where given", format_bytes(memory.inputs_bytes)),
        ("output", format_bytes(memory.output_bytes)),
        ("allocated besides these and gradients", format_bytes(memory.materialized_bytes)),
    ]
    if report.cost is not None:
        rows.append(("one score matrix would take", format_bytes(report.cost.score_matrix_bytes)))
    return element(
        "div",
        element(
            "p",
            "Taken in a call without the profiler, because recording shapes keeps tensors alive."
            if memory.peak_bytes is not None
            else "This device keeps no count of what PyTorch allocates, so only sizes known from the shape are here.",
            class_="quiet",
        ),
        render_facts(rows),
        element("p", _judge(report)),
        class_="att",
    )


def _judge(report: Report) -> str:
    assert report.memory is not None
    extra, cost = report.memory.materialized_bytes, report.cost
    if extra is None or cost is None:
        return f"Whether a score matrix was written is {NOT_RECORDED}."
    if extra < cost.score_matrix_bytes:
        return "No whole score matrix was written: the call allocated less than one copy of it."
    size = format_ratio(extra / cost.score_matrix_bytes)
    return f"The call allocated {size} one score matrix: it writes the matrix to memory."


PANEL = html_panel("memory", "Memory", render)
