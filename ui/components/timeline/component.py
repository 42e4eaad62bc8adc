"""The timeline as a Gradio component: template, style and script are files beside this one.

It is made by a function and not as a subclass of ``gr.HTML``, because Gradio writes a ``.pyi`` file next to the source
of every subclass when that is imported.
"""

import json
from pathlib import Path

import gradio as gr

from ui.components.timeline.lanes import Json

_FOLDER = Path(__file__).parent


def write_timeline(timeline: Json | None) -> str:
    """What ``build_timeline`` returned as the component's value; empty draws the empty state.

    Text and not an object, because Gradio watches every field of an object, which takes seconds for a long trace.
    """
    return "" if timeline is None else json.dumps(timeline, separators=(",", ":")).replace("<", "\\u003c")


def create_timeline(value: str = "", *, elem_id: str = "timeline") -> gr.HTML:
    """A component that draws what ``write_timeline`` wrote."""
    return gr.HTML(
        value=value,
        html_template=(_FOLDER / "timeline.html").read_text(encoding="utf-8"),
        css_template=(_FOLDER / "timeline.css").read_text(encoding="utf-8"),
        js_on_load=(_FOLDER / "timeline.js").read_text(encoding="utf-8"),
        apply_default_css=False,
        elem_id=elem_id,
    )
