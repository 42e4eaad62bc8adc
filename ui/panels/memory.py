"""Memory: what one un-profiled call held, beside what its shape alone asks for."""

from attention.fusion import operation_of
from attention.fusion.workload import FusionWorkload
from profiling.composed import describe_composed
from profiling.format import NOT_RECORDED, format_bytes, format_ratio
from profiling.paged_memory import PAGING_METHOD, describe_copies, describe_paging
from profiling.report_schema import Report
from ui.components.facts import render_facts
from ui.markup import Markup, element
from ui.panels.panel import html_panel
from ui.view import RunView


def render(view: RunView) -> Markup:
    """Measured bytes, then what a score matrix or an operation's intermediates would take."""
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
        (_name_inputs(report), format_bytes(memory.inputs_bytes)),
        ("output", format_bytes(memory.output_bytes)),
        ("allocated besides these and gradients", format_bytes(memory.materialized_bytes)),
    ]
    if report.cost is not None:
        rows += describe_composed(report.cost)
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
        *_block_table(report),
        class_="att",
    )


def _block_table(report: Report) -> tuple[Markup, ...]:
    if report.paging is None:
        return ()
    facts = render_facts(describe_paging(report.paging))
    return element("h4", "Block table"), facts, element("p", PAGING_METHOD, class_="quiet")


def _judge(report: Report) -> str:
    assert report.memory is not None
    if report.paging is not None:
        return describe_copies(report.paging)
    extra, cost = report.memory.materialized_bytes, report.cost
    if cost is not None and cost.intermediates_bytes is not None:
        return _judge_intermediates(extra, cost.intermediates_bytes)
    if extra is None or cost is None or cost.score_matrix_bytes is None:
        return f"Whether a score matrix was written is {NOT_RECORDED}."
    if extra < cost.score_matrix_bytes:
        return "No whole score matrix was written: the call allocated less than one copy of it."
    size = format_ratio(extra / cost.score_matrix_bytes)
    return f"The call allocated {size} one such matrix: it writes the matrix to memory."


def _name_inputs(report: Report) -> str:
    if isinstance(report.workload, FusionWorkload):
        return ", ".join(operand.name for operand in operation_of(report.workload).operands)
    return "query, key, value, and mask and grad_output where given"


def _judge_intermediates(extra: int | None, intermediates_bytes: int) -> str:
    if extra is None:
        return f"What the call held besides its inputs and output is {NOT_RECORDED}."
    return (
        f"The call held {format_bytes(extra)} besides its inputs and output at its peak. The eager form writes "
        f"{format_bytes(intermediates_bytes)} between its operators, not all of it alive at once."
    )


PANEL = html_panel("memory", "Memory", render)
