"""Latency: the un-profiled clocks sample by sample, the first call apart, and where the run's seconds went."""

from typing import TYPE_CHECKING

import gradio as gr

from profiling.compilation import describe_compilation
from profiling.format import NOT_RECORDED, format_count, format_duration, format_spread
from profiling.recording import Latency, Samples
from profiling.report_schema import LatencySummary, Report
from ui.components.facts import render_facts
from ui.components.progress import STAGE_TITLES
from ui.components.table import Cell, Column, Row, number, render_table, words
from ui.markup import Markup, element
from ui.panels.panel import Panel, Values
from ui.view import RunView

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Blue, vermilion and green of the Okabe–Ito palette; each clock has a marker of its own as well.
CLOCKS = (
    ("device time", "device", "#0072B2", "circle"),
    ("submission time", "submission", "#D55E00", "square"),
    ("wall time", "wall", "#009E73", "diamond"),
)
# Grey that reads on the light and on the dark page.
INK, GRID = "#7d8590", "rgba(125,133,144,0.25)"
PLOT_HEIGHT_PX = 320
COLUMNS = (
    Column(title="clock"),
    Column(title="median", kind="number"),
    Column(title="spread", kind="number", help="half the interquartile range"),
    Column(title="10th percentile", kind="number"),
    Column(title="90th percentile", kind="number"),
    Column(title="samples", kind="number"),
    Column(title="method"),
)


def render(view: RunView) -> Values:
    """The tables, then the chart; the chart is hidden where no clock ran."""
    report, latency = view.analysis.report, view.analysis.recording.latency
    figure = build_figure(latency)
    return (_render_tables(report), gr.update(value=figure, visible=figure is not None))


def build_figure(latency: Latency) -> "Figure | None":
    """Every sample of every clock in µs, in the order in which they were taken; None where there is none."""
    # Late: the command line and the tests of other panels need no charts.
    from plotly.graph_objects import Figure, Scatter

    recorded: list[tuple[str, Samples, str, str]] = [
        (title, samples, colour, symbol)
        for title, field, colour, symbol in CLOCKS
        if (samples := getattr(latency, field)) is not None
    ]
    if not recorded:
        return None
    figure = Figure()
    for title, samples, colour, symbol in recorded:
        figure.add_trace(
            Scatter(
                x=list(range(1, len(samples.samples_ns) + 1)),
                y=[sample / 1_000 for sample in samples.samples_ns],
                mode="lines+markers",
                name=title,
                line={"color": colour, "width": 1},
                marker={"color": colour, "symbol": symbol, "size": 7},
                hovertemplate="%{y:.4g} µs<extra>" + title + " %{x}</extra>",
            )
        )
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID}
    figure.update_layout(
        height=PLOT_HEIGHT_PX,
        margin={"l": 64, "r": 16, "t": 16, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "family": "system-ui, sans-serif"},
        legend={"orientation": "h", "y": 1.12},
        xaxis={"title": "sample", **axis},
        yaxis={"title": "µs a call", "rangemode": "tozero", **axis},
    )
    return figure


def _layout(values: Values | None) -> tuple[gr.components.Component, ...]:
    tables = gr.HTML(values[0] if values else "", elem_id="panel-latency", apply_default_css=False)
    update = values[1] if values else {"value": None, "visible": False}
    chart = gr.Plot(update["value"], visible=update["visible"], label="samples", elem_id="latency-chart")
    return (tables, chart)


def _render_tables(report: Report) -> Markup:
    latency = report.latency
    rows = [_row(title, getattr(latency, field)) for title, field, _, _ in CLOCKS]
    return element(
        "div",
        element(
            "p",
            "Device time is the work alone; submission is what the host spends on the call; wall is both, from an "
            "idle device to the end of the work. Taken without the profiler.",
            class_="quiet",
        ),
        render_table(COLUMNS, rows, caption="Clocks of the un-profiled calls"),
        element(
            "p",
            f"First call, timed apart: {format_duration(latency.first_call_ns)}. In a process that is warm already "
            "it pays for this workload's own set-up alone.",
        ),
        _render_compilation(report),
        _render_ledger(report),
        class_="att",
    )


def _row(title: str, summary: LatencySummary | None) -> Row:
    if summary is None:
        empty = Cell(content=NOT_RECORDED)
        return Row(cells=(words(title), *([empty] * (len(COLUMNS) - 1))))
    method = summary.method + (f", L2 {summary.l2}" if summary.l2 else "")
    return Row(
        cells=(
            words(title),
            number(format_duration(summary.median_ns), summary.median_ns),
            number(format_spread(summary.iqr_ns, beside_ns=summary.median_ns), summary.iqr_ns),
            number(format_duration(summary.p10_ns), summary.p10_ns),
            number(format_duration(summary.p90_ns), summary.p90_ns),
            number(format_count(summary.count), summary.count),
            words(method),
        )
    )


def _render_compilation(report: Report) -> Markup:
    compilation = report.compilation
    if compilation is None:
        return Markup("")
    return element(
        "div",
        element("h3", "What torch.compile did"),
        render_facts(describe_compilation(compilation)),
        element("p", f"{compilation.method[:1].upper()}{compilation.method[1:]}.", class_="quiet"),
    )


def _render_ledger(report: Report) -> Markup:
    if not report.latency.ledger:
        return Markup("")
    total_ns = None if report.gpu_seconds is None else report.gpu_seconds * 1e9
    stages = [(STAGE_TITLES[entry.stage], format_duration(entry.wall_ns)) for entry in report.latency.ledger]
    return element(
        "div",
        element("h3", "Where the run's time went"),
        render_facts([*stages, ("in all, with clearing up", format_duration(total_ns))]),
    )


PANEL = Panel(slug="latency", title="Latency", render=render, layout=_layout)
