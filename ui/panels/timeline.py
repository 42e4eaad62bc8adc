"""Timeline: operators, runtime calls and device streams of one step over one time axis."""

import gradio as gr

from ui.components.timeline import build_timeline, create_timeline, write_timeline
from ui.markup import Markup, element
from ui.panels.panel import Panel, Values
from ui.roles import render_role
from ui.view import RunView


def render(view: RunView) -> Values:
    """The drawing's data, and a legend of the roles that occur in it."""
    return write_timeline(build_timeline(view.analysis)), render_legend(view)


def render_legend(view: RunView) -> Markup:
    """One swatch a role, in order of device time; empty without device activity."""
    roles = dict.fromkeys(kernel.role for kernel in view.analysis.report.kernels)
    if not roles:
        return Markup("")
    gaps = element("span", "▨ hatched: no device work")
    return element("div", *(render_role(role) for role in roles), gaps, class_="legend att")


def layout(values: Values | None) -> tuple[gr.components.Component, ...]:
    timeline, legend = values if values else ("", "")
    shown = gr.HTML(legend, apply_default_css=False)
    return create_timeline(timeline), shown


PANEL = Panel(slug="timeline", title="Timeline", render=render, layout=layout, stays_mounted=True)
