"""The experiment form: one control a workload field, and what can be said of the choice before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from attention.backends import BACKENDS
from attention.cost import estimate_memory
from attention.masks import MASKS, density, mask_of
from attention.masks.causal import ALIGNMENT
from attention.validation import (
    FIELDS_BY_NAME,
    MASK_PARAMETER_FIELDS,
    WORKLOAD_FIELDS,
    WorkloadField,
    check_memory,
    parse_workload,
)
from attention.workload import InvalidWorkload, MaskForm, Workload
from profiling.budget import estimate_gpu_seconds
from profiling.environment import build_device_facts
from profiling.format import format_bytes, format_count, format_duration, format_share
from profiling.recording import Environment
from ui.components.mask_picture import render_mask_picture, sample_mask
from ui.markup import Markup, element, text

# Fields that stand on one line; those named in no row go under "advanced".
_ROWS = (
    ("backend",),
    ("batch_size", "num_heads", "kv_heads"),
    ("seq_len_q", "seq_len_kv", "head_dim"),
    ("dtype", "mask"),
)
# Below the rows stand the parameters of the chosen mask; those of the others are hidden.
_PARAMETERS = {field.name: name for name, field in MASK_PARAMETER_FIELDS.items()}
_ON_ROWS = {name for row in _ROWS for name in row}
NOT_SET = "not set"
_CORNER_FIELD = f"mask_{ALIGNMENT.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormNotes:
    """What the form says of its present values. ``workload`` None: a value is wrong and ``message`` says which.

    ``picture`` None: there is nothing to draw, so the last picture may stay.
    """

    workload: Workload | None
    message: Markup
    estimate: Markup
    chips: Markup
    picture: Markup | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """A control for every field, in WORKLOAD_FIELDS order, and the row that holds those of a mask's parameters."""

    by_field: dict[str, gr.components.FormComponent]
    parameter_row: gr.Row

    @property
    def of_parameters(self) -> "list[gr.Row | gr.components.FormComponent]":
        """What ``show_parameters`` shows and hides."""
        return [self.parameter_row, *(self.by_field[name] for name in _PARAMETERS)]


def create_controls(values: Mapping[str, object]) -> Controls:
    """The form with ``values`` in it, in the page's order."""
    controls = {}
    for row in _ROWS:
        with gr.Row(elem_classes="field-row"):
            for name in row:
                controls[name] = _create_control(FIELDS_BY_NAME[name], values.get(name))
    shown = shown_parameters(values.get("mask"))
    with gr.Row(elem_classes="field-row", elem_id="mask-parameters", visible=bool(shown)) as parameter_row:
        for name in _PARAMETERS:
            controls[name] = _create_control(FIELDS_BY_NAME[name], values.get(name), visible=name in shown)
    with gr.Accordion("Advanced", open=False):
        for field in WORKLOAD_FIELDS:
            if field.name not in controls:
                controls[field.name] = _create_control(field, values.get(field.name))
    return Controls(
        by_field={field.name: controls[field.name] for field in WORKLOAD_FIELDS}, parameter_row=parameter_row
    )


def shown_parameters(mask: object) -> set[str]:
    """Fields of the mask's own parameters; none for a mask that is not known."""
    return {f"mask_{parameter.name}" for entry in MASKS if entry.slug == mask for parameter in entry.parameters}


def show_parameters(values: Sequence[object]) -> list[Any]:
    """Updates for ``Controls.of_parameters`` that leave the chosen mask's own."""
    fields = {field.name: value for field, value in zip(WORKLOAD_FIELDS, values, strict=True)}
    shown = shown_parameters(fields["mask"])
    return [gr.update(visible=bool(shown)), *(gr.update(visible=name in shown) for name in _PARAMETERS)]


def _create_control(field: WorkloadField, value: object, *, visible: bool = True) -> gr.components.FormComponent:
    options: dict[str, Any] = {
        "label": field.label,
        "elem_id": f"field-{field.name}",
        "min_width": 60,
        "visible": visible,
    }
    if field.name not in _ON_ROWS:
        options["info"] = field.help
    if field.kind == "choice":
        choices = [(choice, choice) for choice in field.choices]
        if field.default is None:
            choices.insert(0, (NOT_SET, ""))
        return gr.Dropdown(choices=choices, value="" if value is None else value, **options)
    if field.default is None:
        # A number box without a value shows 0, which here is a wrong value and not a missing one.
        return gr.Textbox(value="" if value is None else str(value), placeholder=NOT_SET, max_lines=1, **options)
    return gr.Number(value=value, **options)


def control_values(fields: Mapping[str, object]) -> list[object]:
    """``fields`` as the controls want them, in WORKLOAD_FIELDS order."""
    return [
        "" if field.default is None and fields.get(field.name) is None else fields.get(field.name)
        for field in WORKLOAD_FIELDS
    ]


def read_controls(values: Sequence[object]) -> dict[str, object]:
    """Field values by name from the controls' values in WORKLOAD_FIELDS order.

    What a parameter of another mask holds is left out: its control is hidden, and keeps its value for when that
    mask is chosen again.

    Raises:
        InvalidWorkload: a number that has to be given was cleared. Elsewhere a missing value means its default, but
            a form that shows an empty box must not run something else.
    """
    fields = {field.name: value for field, value in zip(WORKLOAD_FIELDS, values, strict=True)}
    if fields["mask"] in {mask.slug for mask in MASKS}:
        shown = shown_parameters(fields["mask"])
        fields |= {name: None for name in _PARAMETERS if name not in shown}
    for field in WORKLOAD_FIELDS:
        if field.kind == "int" and field.default is not None and fields[field.name] is None:
            raise InvalidWorkload(field.name, "", "is empty", f"give a whole number, such as {field.default}")
    return fields


def build_notes(values: Sequence[object], environment: Environment | None) -> FormNotes:
    """Message, estimate, eligibility and picture for the controls' present values."""
    try:
        workload = parse_workload(read_controls(values))
        if environment is not None:
            available = environment.free_memory_bytes or environment.total_memory_bytes
            check_memory(workload, available, build_device_facts(environment))
    except InvalidWorkload as problem:
        blank = Markup("")
        picture = _render_open_corner(values) if problem.field == _CORNER_FIELD else None
        return FormNotes(workload=None, message=render_problem(problem), estimate=blank, chips=blank, picture=picture)
    return FormNotes(
        workload=workload,
        message=Markup(""),
        estimate=_render_estimate(workload, environment),
        chips=_render_chips(workload, environment),
        picture=_render_picture(workload),
    )


def render_problem(problem: InvalidWorkload) -> Markup:
    """The error form's one line, to stand next to the form."""
    return element("div", f"■ {problem}", class_="form-note form-error att", role="alert")


def _render_estimate(workload: Workload, environment: Environment | None) -> Markup:
    seconds = estimate_gpu_seconds([workload], environment)
    memory = format_bytes(estimate_memory(workload).total_bytes)
    on_cpu = environment is not None and environment.device == "cpu"
    return element(
        "div",
        f"about {format_duration(seconds * 1e9)} on the {'CPU' if on_cpu else 'GPU'} and {memory} of memory, estimated",
        class_="form-note att quiet",
    )


def _render_chips(workload: Workload, environment: Environment | None) -> Markup:
    if environment is None:
        note = "Which backends take this is shown here once the machine is known, after a first run."
        return element("div", note, class_="form-note att quiet")
    facts = build_device_facts(environment)
    decisions = [backend.check(replace(workload, backend=backend.slug), facts) for backend in BACKENDS]
    marks = {"accepted": ("✓", "good"), "rejected": ("✗", "warn"), "undetermined": ("?", "")}
    chips = [
        element("li", element("code", decision.backend), " ", _mark(*marks[decision.verdict]), title=decision.reason)
        for decision in decisions
    ]
    refusals = [decision for decision in decisions if decision.verdict == "rejected"]
    reasons = element(
        "details",
        element("summary", "why not"),
        element("ul", *(element("li", f"{decision.backend}: {decision.reason}") for decision in refusals)),
        class_="reasons",
    )
    return element(
        "div",
        element("div", f"By rule on {environment.device_name}:", class_="quiet"),
        element("ul", *chips, class_="chips"),
        reasons if refusals else None,
        class_="form-note att",
    )


def _mark(mark: str, tone: str) -> Markup:
    return element("span", mark, class_=tone or None)


def _render_picture(workload: Workload) -> Markup:
    """The mask as it will run; where the corner matters, the other corner beside it."""
    mask = mask_of(workload)
    if ALIGNMENT in mask.parameters and workload.seq_len_q != workload.seq_len_kv:
        return _render_corners(workload, chosen=str(workload.mask.parameters[ALIGNMENT.name]))
    return element(
        "div",
        render_mask_picture(sample_mask(workload), title=f"mask {mask.title}"),
        element("div", text(mask.title), element("br"), _describe_mask(workload)),
        class_="mask-row form-note att",
    )


def _render_open_corner(values: Sequence[object]) -> Markup | None:
    """Both corners to choose from; None where another value is wrong as well."""
    try:
        workload = parse_workload(read_controls(values) | {_CORNER_FIELD: ALIGNMENT.choices[0]})
    except InvalidWorkload:  # its message comes once the corner is chosen
        return None
    return _render_corners(workload, chosen=None)


def _render_corners(workload: Workload, *, chosen: str | None) -> Markup:
    figures = []
    for corner in ALIGNMENT.choices:
        spec = replace(workload.mask, parameters={**workload.mask.parameters, ALIGNMENT.name: corner})
        cornered = replace(workload, mask=replace(spec, form=MaskForm.AUTO))  # the form may fit one corner alone
        mark = "✓ " if corner == chosen else ""
        picture = render_mask_picture(sample_mask(cornered), title=f"mask {workload.mask.name}, {corner}")
        caption = element("figcaption", f"{mark}{corner}", element("br"), _describe_mask(cornered))
        figures.append(element("figure", picture, caption, class_="mask-corner"))
    return element(
        "div",
        element("div", text(mask_of(workload).title)),
        element("div", *figures, class_="mask-row"),
        class_="form-note att",
    )


def _describe_mask(workload: Workload) -> Markup:
    """Density and dead rows, by formula, and what the picture shows."""
    mask = mask_of(workload)
    rows = workload.batch_size * workload.seq_len_q
    dead = mask.count_dead_rows(workload)
    count = f"{format_count(dead)} of {format_count(rows)}" if dead else "no"
    notes = [
        f"{format_share(density(workload))} of the pairs allowed",
        f"{count} query rows may attend to nothing" + (f" (over {workload.batch_size} batch entries)" if dead else ""),
        f"rows: queries, columns: keys; {workload.seq_len_q} × {workload.seq_len_kv}",
    ]
    if mask.varies_by_batch:
        notes.append("batch entry 0 is drawn")
    if mask.varies_by_head:
        notes.append("the bias of each head is not drawn")
    return element("span", "; ".join(notes), class_="quiet")
