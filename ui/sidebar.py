"""The left column: the experiment, what is known of it before it runs, and the two buttons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from profiling.recording import Environment
from profiling.unlocks import MEASURE_UNLOCKS_HELP
from ui.presets import PRESETS
from ui.workload_form import build_notes, control_values, create_controls, show_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidebar:
    """The form's components; ``controls`` stand in WORKLOAD_FIELDS order, ``notes`` in that of render_note_values."""

    preset: gr.Dropdown
    preset_summary: gr.HTML
    controls: list[gr.components.FormComponent]
    measure_unlocks: gr.Checkbox
    guess: gr.Textbox
    error: gr.HTML
    run: gr.Button
    stop: gr.Button
    notes: list[gr.components.Component | gr.Row]


def create_sidebar(fields: Mapping[str, object]) -> Sidebar:
    """The sidebar with ``fields`` in the form."""
    first = build_notes(control_values(fields), None)
    with gr.Sidebar(width=360, elem_id="sidebar", open=True), gr.Column(elem_id="sidebar-form"):
        preset = gr.Dropdown(
            [(entry.title, entry.slug) for entry in PRESETS], value=PRESETS[0].slug, label="preset", elem_id="preset"
        )
        preset_summary = gr.HTML(PRESETS[0].summary_line(), apply_default_css=False)
        controls = create_controls(fields)
        with controls.advanced:
            measure_unlocks = gr.Checkbox(
                value=False,
                label="measure what unlocks the refused backends",
                info=MEASURE_UNLOCKS_HELP,
                elem_id="measure-unlocks",
            )
        picture = gr.HTML(first.picture, elem_id="mask-picture", apply_default_css=False)
        guess = gr.Textbox(
            label="your guess: kernels a step",
            placeholder="optional, scored against the trace",
            max_lines=1,
            elem_id="guess",
        )
        chips = gr.HTML(first.chips, elem_id="eligibility", apply_default_css=False)
        with gr.Column(elem_id="run-row"):
            error = gr.HTML(first.message, elem_id="form-error", apply_default_css=False)
            estimate = gr.HTML(first.estimate, elem_id="estimate", apply_default_css=False)
            with gr.Row(elem_classes="field-row"):
                run = gr.Button("Run live", variant="primary", elem_id="run")
                stop = gr.Button("Stop", interactive=False, elem_id="stop")
    return Sidebar(
        preset=preset,
        preset_summary=preset_summary,
        controls=list(controls.by_field.values()),
        measure_unlocks=measure_unlocks,
        guess=guess,
        error=error,
        run=run,
        stop=stop,
        notes=[error, estimate, chips, picture, run, *controls.changing],
    )


def render_note_values(
    values: Sequence[object], environment: Environment | None, *, measure_unlocks: bool = False
) -> list[Any]:
    """Values for ``Sidebar.notes``; a wrong value disables Run and says why beside it."""
    notes = build_notes(values, environment, measure_unlocks=measure_unlocks)
    return [
        notes.message,
        notes.estimate,
        notes.chips,
        gr.skip() if notes.picture is None else notes.picture,
        gr.update(interactive=notes.workload is not None),
        *show_fields(values),
    ]
