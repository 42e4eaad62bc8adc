"""The right side of the page: one report, from its origin line to its tabs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import gradio as gr

from ui.components.findings import render_findings
from ui.components.notice import render_notices
from ui.components.origin import render_origin
from ui.components.trace_note import render_banner, render_panel_note
from ui.components.verdict_strip import render_strip
from ui.gallery import GalleryEntry
from ui.markup import Markup, element, join
from ui.panels import PANELS, compare_traces, downloads
from ui.sources import Baseline, create_baseline
from ui.view import RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """The components of one report, in the order of ``render_values``."""

    components: tuple[gr.blocks.Block, ...]
    notices: gr.HTML
    downloads: tuple[gr.components.Component, ...]
    baseline: Baseline
    comparison: gr.components.Component


def render_values(view: RunView) -> list[Any]:
    """One value a component of ReportView, all made of the same view."""
    values: list[Any] = [
        render_origin(view),
        _render_notices(view),
        gr.update(visible=True),
        render_strip(view),
        render_findings(view),
        # A refusal's result is the table of verdicts.
        gr.update(selected="backends") if view.was_refused else gr.update(),
    ]
    for panel in PANELS:
        values += (render_panel_note(view, panel.slug), *panel.render(view))
    return values


def create_report_view(view: RunView | None, gallery: Sequence[GalleryEntry]) -> ReportView:
    """The components with their first values; without a view the tabs stay hidden behind a line on what to do."""
    origin = gr.HTML(render_origin(view) if view else _render_empty(), elem_id="origin", apply_default_css=False)
    notices = gr.HTML(_render_notices(view) if view else "", elem_id="notices", apply_default_css=False)
    with gr.Column(visible=view is not None, elem_id="results") as results:
        strip = gr.HTML(render_strip(view) if view else "", elem_id="strip", apply_default_css=False)
        findings = gr.HTML(render_findings(view) if view else "", elem_id="findings", apply_default_css=False)
        panels: dict[str, tuple[gr.components.Component, ...]] = {}
        with gr.Tabs(elem_id="result-tabs", overflow_behavior="wrap") as tabs:
            for panel in PANELS:
                with gr.Tab(
                    panel.title, id=panel.slug, elem_id=f"tab-{panel.slug}", render_children=panel.stays_mounted
                ):
                    note = gr.HTML(render_panel_note(view, panel.slug) if view else "", apply_default_css=False)
                    if panel is compare_traces.PANEL:
                        baseline = create_baseline(gallery)
                    panels[panel.slug] = (note, *panel.layout(panel.render(view) if view else None))
    return ReportView(
        components=(origin, notices, results, strip, findings, tabs, *chain.from_iterable(panels.values())),
        notices=notices,
        downloads=panels[downloads.PANEL.slug][1:],
        baseline=baseline,
        comparison=panels[compare_traces.PANEL.slug][-1],
    )


def _render_notices(view: RunView) -> Markup:
    return join((render_banner(view), render_notices(view)))


def _render_empty() -> Markup:
    return element(
        "div",
        element("h3", "No run yet"),
        element(
            "p",
            "Choose an experiment on the left and press Run live, or open a trace of your own. The kernels, the "
            "timeline, the deltas and every backend's verdict will stand here.",
        ),
        class_="att",
    )
