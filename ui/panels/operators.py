"""Operators: PyTorch's own calls inside the recorded steps, with CPU and device time, self and total."""

from collections import Counter

from profiling.format import format_count, format_duration, format_items
from profiling.report_schema import OperatorSummary
from profiling.trace.events import Trace
from ui.components.names import render_name
from ui.components.table import MAX_ROWS, Cell, Column, Row, number, render_table
from ui.markup import Markup, element, join
from ui.panels.panel import html_panel
from ui.view import RunView

COLUMNS = (
    Column(title="operator"),
    Column(title="calls", kind="number"),
    Column(title="self CPU time", kind="number", help="host time in this operator, without the ones it calls"),
    Column(title="CPU time", kind="number", help="host time, with the ones it calls"),
)
DEVICE_COLUMNS = (
    Column(title="self device time", kind="number", help="device items that it launched itself"),
    Column(title="device time", kind="number", help="device items that it or an operator inside it launched"),
)
SHAPES = Column(title="input shapes", help="of the calls inside the steps, the most frequent first")
MOST_SHAPES = 3  # of one operator; one call of attention gives each operator one or two


def render(view: RunView) -> Markup:
    """The table, or why there is none."""
    report = view.analysis.report
    if not report.operators:
        return element("div", element("p", "No operator was recorded inside a step."), class_="att")
    steps = format_items(report.steps_recorded, "recorded step") if report.steps_recorded else "the whole trace"
    timed = any(operator.device_time_ns is not None for operator in report.operators)
    explanation = (
        f"All calls in {steps}, summed. Total times nest: an operator holds the time of those it calls, so only the "
        "self columns add up. CPU time includes the profiler's own cost"
        f"{'; the un-profiled clocks are in the strip above' if report.latency.wall else ''}."
        f"{'' if timed else ' Device times are not recorded: the trace holds no device item.'}"
        f"{_describe_rest(report.unattributed_device_time_ns)}"
    )
    shapes = _count_shapes(view.analysis.trace)
    rows = [
        Row(cells=(*_cells(operator, timed=timed), *((_shapes(shapes.get(operator.name)),) if shapes else ())))
        for operator in report.operators[:MAX_ROWS]
    ]
    left_out = len(report.operators) - MAX_ROWS
    # Two columns that say nothing would push the shapes out of sight.
    columns = (*COLUMNS, *(DEVICE_COLUMNS if timed else ()), *((SHAPES,) if shapes else ()))
    return element(
        "div",
        element("p", explanation, class_="quiet"),
        render_table(columns, rows, caption="operators", pin_first=True, left_out=left_out),
        class_="att",
    )


def _describe_rest(unattributed_ns: int | None) -> str:
    if not unattributed_ns:
        return ""
    return (
        f" {format_duration(unattributed_ns)} of device time lies under no operator, as in a replayed graph or where "
        "the launch was not recorded; with the self device times it makes up the whole."
    )


def _cells(operator: OperatorSummary, *, timed: bool) -> tuple[Cell, ...]:
    device = (operator.self_device_time_ns, operator.device_time_ns) if timed else ()
    return (
        Cell(content=render_name(operator.name, operator.name), sort_key=operator.name),
        number(format_count(operator.calls), operator.calls),
        number(format_duration(operator.self_cpu_time_ns), operator.self_cpu_time_ns),
        number(format_duration(operator.cpu_time_ns), operator.cpu_time_ns),
        *(number(format_duration(time_ns), time_ns) for time_ns in device),
    )


def _count_shapes(trace: Trace | None) -> dict[str, Counter[str]]:
    """Operator name -> how often its calls had which input shapes; empty where none were recorded."""
    found: dict[str, Counter[str]] = {}
    for operator in trace.operators if trace else ():
        if operator.input_shapes and (operator.step is not None or (trace and not trace.steps)):
            shown = ", ".join(_show(shape) for shape in operator.input_shapes if shape)
            if shown:
                found.setdefault(operator.name, Counter())[shown] += 1
    return found


def _show(shape: object) -> str:
    """``[8, 16, 1024, 64]``, nested for a list of tensors."""
    return f"[{', '.join(_show(part) for part in shape)}]" if isinstance(shape, tuple) else str(shape)


def _shapes(counts: Counter[str] | None) -> Cell:
    if not counts:
        return Cell(content="–")
    lines = [element("div", shape) for shape, _ in counts.most_common(MOST_SHAPES)]
    more = len(counts) - len(lines)
    return Cell(content=join((*lines, element("div", f"and {format_count(more)} more") if more else None)))


PANEL = html_panel("operators", "Operators", render)
