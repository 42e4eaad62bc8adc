"""Operators: PyTorch's own calls inside the recorded steps, with CPU and device time, self and total."""

from profiling.format import format_count, format_duration
from profiling.report_schema import OperatorSummary
from ui.components.names import render_name
from ui.components.table import Cell, Column, Row, number, render_table
from ui.markup import Markup, element
from ui.panels.panel import html_panel
from ui.view import RunView

COLUMNS = (
    Column(title="operator"),
    Column(title="calls", kind="number"),
    Column(title="self CPU time", kind="number", help="host time in this operator, without the ones it calls"),
    Column(title="CPU time", kind="number", help="host time, with the ones it calls"),
    Column(title="self device time", kind="number", help="device items that it launched itself"),
    Column(title="device time", kind="number", help="device items that it or an operator inside it launched"),
)


def render(view: RunView) -> Markup:
    """The table, or why there is none."""
    report = view.analysis.report
    if not report.operators:
        return element("div", element("p", "No operator was recorded inside a step."), class_="att")
    steps = f"{format_count(report.steps_recorded)} recorded steps" if report.steps_recorded else "the whole trace"
    explanation = (
        f"All calls in {steps}, summed. Total times nest: an operator holds the time of those it calls, so only the "
        "self columns add up. CPU time includes the profiler's own cost; the un-profiled clocks are in the strip above."
    )
    rows = [Row(cells=_cells(operator)) for operator in report.operators]
    return element(
        "div",
        element("p", explanation, class_="quiet"),
        render_table(COLUMNS, rows, caption="operators", pin_first=True),
        class_="att",
    )


def _cells(operator: OperatorSummary) -> tuple[Cell, ...]:
    return (
        Cell(content=render_name(operator.name, operator.name), sort_key=operator.name),
        number(format_count(operator.calls), operator.calls),
        number(format_duration(operator.self_cpu_time_ns), operator.self_cpu_time_ns),
        number(format_duration(operator.cpu_time_ns), operator.cpu_time_ns),
        number(format_duration(operator.self_device_time_ns), operator.self_device_time_ns),
        number(format_duration(operator.device_time_ns), operator.device_time_ns),
    )


PANEL = html_panel("operators", "Operators", render)
