"""The experiment form: one control a workload field, and what can be said of the choice before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from attention.field import OPERATION_NAMES, WorkloadField
from attention.kinds import AnyWorkload, kind_of
from attention.masks import MASKS
from attention.masks.causal import ALIGNMENT
from attention.validation import (
    FIELDS_BY_NAME,
    MASK_PARAMETER_FIELDS,
    WORKLOAD_FIELDS,
    check_memory,
    operation_of_fields,
    parse_workload,
    with_backend,
)
from attention.workload import InvalidWorkload, Workload
from profiling.budget import estimate_gpu_seconds
from profiling.environment import build_device_facts
from profiling.format import format_bytes, format_duration
from profiling.recording import Environment
from ui.components.mask_note import render_corners, render_mask_note
from ui.markup import Markup, element

# Fields that stand on one line; those named in no row go under "advanced".
_ROWS = (
    # A line each: their longest names take one.
    ("operation",),
    ("backend",),
    ("batch_size", "num_heads", "kv_heads"),
    ("seq_len_q", "seq_len_kv", "head_dim"),
    ("tokens", "hidden_size", "intermediate_size"),
    ("dtype", "mask"),
    # The parameters of the chosen mask; those of the others are hidden.
    tuple(field.name for field in MASK_PARAMETER_FIELDS.values()),
)
_PARAMETERS = frozenset(_ROWS[-1])
_ON_ROWS = {name for row in _ROWS[:-1] for name in row}
# Not every operation has these, or not every mask.
_CHANGING = tuple(field.name for field in WORKLOAD_FIELDS if field.operations != OPERATION_NAMES)
NOT_SET = "not set"
_CORNER_FIELD = f"mask_{ALIGNMENT.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormNotes:
    """What the form says of its present values. ``workload`` None: a value is wrong and ``message`` says which.

    ``picture`` None: there is nothing to draw, so the last picture may stay.
    """

    workload: AnyWorkload | None
    message: Markup
    estimate: Markup
    chips: Markup
    picture: Markup | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """A control for every field, in WORKLOAD_FIELDS order, and the rows that hold most of them, in page order."""

    by_field: dict[str, gr.components.FormComponent]
    rows: tuple[gr.Row, ...]
    advanced: gr.Accordion

    @property
    def changing(self) -> "list[gr.Row | gr.components.FormComponent]":
        """What ``show_fields`` shows and hides."""
        return [*self.rows, *(self.by_field[name] for name in _CHANGING), self.by_field["backend"]]


def create_controls(values: Mapping[str, object]) -> Controls:
    """The form with ``values`` in it, in the page's order."""
    controls, rows = {}, []
    shown = shown_fields(values)
    filled = dict(zip(FIELDS_BY_NAME, control_values(values), strict=True))
    operation = operation_of_fields(values)
    for names in _ROWS:
        with gr.Row(elem_classes="field-row", visible=bool(shown & set(names))) as row:
            rows.append(row)
            for name in names:
                controls[name] = _create_control(FIELDS_BY_NAME[name], filled[name], operation, name in shown)
    with gr.Accordion("Advanced", open=False) as advanced:
        for field in WORKLOAD_FIELDS:
            if field.name not in controls:
                controls[field.name] = _create_control(field, filled[field.name], operation, field.name in shown)
    by_field = {field.name: controls[field.name] for field in WORKLOAD_FIELDS}
    return Controls(by_field=by_field, rows=tuple(rows), advanced=advanced)


def shown_fields(fields: Mapping[str, object]) -> set[str]:
    """Names of the fields that the chosen operation and mask have; a mask that is not known has no parameters."""
    operation, mask = operation_of_fields(fields), fields.get("mask")
    of_mask = {f"mask_{parameter.name}" for entry in MASKS if entry.slug == mask for parameter in entry.parameters}
    return {
        field.name
        for field in WORKLOAD_FIELDS
        if operation in field.operations and (field.name not in _PARAMETERS or field.name in of_mask)
    }


def show_fields(values: Sequence[object]) -> list[Any]:
    """Updates for ``Controls.changing`` that leave the chosen operation's and mask's own, and offer its backends.

    No value changes here: while a preset fills the controls one by one, this sees them half filled.
    """
    fields = _name_values(values)
    shown = shown_fields(fields)
    rows = [gr.update(visible=bool(shown & set(names))) for names in _ROWS]
    return [*rows, *(gr.update(visible=name in shown) for name in _CHANGING), gr.update(**_backend_choices(fields))]


def _backend_choices(fields: Mapping[str, object]) -> dict[str, Any]:
    return {"choices": list(FIELDS_BY_NAME["backend"].choices_of(operation_of_fields(fields)))}


def _name_values(values: Sequence[object]) -> dict[str, object]:
    return {field.name: value for field, value in zip(WORKLOAD_FIELDS, values, strict=True)}


def _create_control(field: WorkloadField, value: object, operation: str, visible: bool) -> gr.components.FormComponent:
    options: dict[str, Any] = {
        "label": field.label,
        "elem_id": f"field-{field.name}",
        "min_width": 60,
        "visible": visible,
    }
    if field.name not in _ON_ROWS:
        options["info"] = field.help
    if field.kind == "choice":
        choices = [(choice, choice) for choice in field.choices_of(operation)]
        if field.default is None:
            choices.insert(0, (NOT_SET, ""))
        # The backends on offer change with the operation. Gradio would judge a value by those that it offered last,
        # which may be the other operation's; ``parse_workload`` judges it by the operation that it comes with.
        options["allow_custom_value"] = field.name == "backend"
        return gr.Dropdown(choices=choices, value=value, **options)
    if field.default is None:
        # A number box without a value shows 0, which here is a wrong value and not a missing one.
        return gr.Textbox(value=str(value), placeholder=NOT_SET, max_lines=1, **options)
    return gr.Number(value=value, **options)


def control_values(fields: Mapping[str, object]) -> list[object]:
    """``fields`` as the controls want them, in WORKLOAD_FIELDS order; a hidden control gets the field's own default."""
    operation = operation_of_fields(fields)

    def shown(field: WorkloadField) -> object:
        value = fields.get(field.name)
        if value is None and (field.default is None or operation not in field.operations):
            return "" if field.default is None else field.default
        return value

    return [shown(field) for field in WORKLOAD_FIELDS]


def control_updates(fields: Mapping[str, object]) -> list[Any]:
    """``control_values`` for controls that show something else: the backend's with the names to choose from."""
    updates: list[Any] = control_values(fields)
    names = [field.name for field in WORKLOAD_FIELDS]
    updates[names.index("backend")] = gr.update(value=fields.get("backend"), **_backend_choices(fields))
    return updates


def read_controls(values: Sequence[object]) -> dict[str, object]:
    """Field values by name from the controls' values in WORKLOAD_FIELDS order.

    What a field of another operation or a parameter of another mask holds is left out: its control is hidden, and
    keeps its value for when that operation or mask is chosen again.

    Raises:
        InvalidWorkload: a number that has to be given was cleared. Elsewhere a missing value means its default, but
            a form that shows an empty box must not run something else.
    """
    fields = _name_values(values)
    shown = shown_fields(fields)
    # Of a mask that is not known the parsing says so, whatever its parameters hold.
    fields |= {name: None for name in fields if name not in shown}
    for field in WORKLOAD_FIELDS:
        if field.name in shown and field.kind == "int" and field.default is not None and fields[field.name] is None:
            raise InvalidWorkload(field.name, "", "is empty", f"give a whole number, such as {field.default}")
    return fields


def build_notes(
    values: Sequence[object], environment: Environment | None, *, measure_unlocks: bool = False
) -> FormNotes:
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
        estimate=_render_estimate(workload, environment, measure_unlocks=measure_unlocks),
        chips=_render_chips(workload, environment),
        picture=render_mask_note(workload) if isinstance(workload, Workload) else Markup(""),
    )


def render_problem(problem: InvalidWorkload) -> Markup:
    """The error form's one line, to stand next to the form."""
    return element("div", f"■ {problem}", class_="form-note form-error att", role="alert")


def _render_estimate(workload: AnyWorkload, environment: Environment | None, *, measure_unlocks: bool) -> Markup:
    seconds = estimate_gpu_seconds([workload], environment, measure_unlocks=measure_unlocks)
    memory = format_bytes(kind_of(workload).estimate_memory(workload).total_bytes)
    on_cpu = environment is not None and environment.device == "cpu"
    return element(
        "div",
        f"about {format_duration(seconds * 1e9)} on the {'CPU' if on_cpu else 'GPU'} and {memory} of memory, estimated",
        class_="form-note att quiet",
    )


def _render_chips(workload: AnyWorkload, environment: Environment | None) -> Markup:
    if environment is None:
        note = "Which backends take this is shown here once the machine is known, after a first run."
        return element("div", note, class_="form-note att quiet")
    facts = build_device_facts(environment)
    backends = kind_of(workload).backends
    decisions = [backend.check(with_backend(workload, backend.slug), facts) for backend in backends]
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


def _render_open_corner(values: Sequence[object]) -> Markup | None:
    """Both corners to choose from; None where another value is wrong as well."""
    try:
        workload = parse_workload(read_controls(values) | {_CORNER_FIELD: ALIGNMENT.choices[0]})
    except InvalidWorkload:  # its message comes once the corner is chosen
        return None
    assert isinstance(workload, Workload), "the corner is a field of attention alone"
    return render_corners(workload, chosen=None)
