"""The experiment form: one control a workload field, and what can be said of the choice before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from attention.backends import BACKENDS
from attention.cost import estimate_memory
from attention.masks import mask_of
from attention.validation import FIELDS_BY_NAME, WORKLOAD_FIELDS, WorkloadField, check_memory, parse_workload
from attention.workload import InvalidWorkload, Workload
from profiling.budget import estimate_gpu_seconds
from profiling.environment import build_device_facts
from profiling.format import format_bytes, format_duration
from profiling.recording import Environment
from ui.components.mask_picture import render_mask_picture
from ui.markup import Markup, element, text

# Fields that stand on one line; those named in no row go under "advanced".
_ROWS = (
    ("backend",),
    ("batch_size", "num_heads", "kv_heads"),
    ("seq_len_q", "seq_len_kv", "head_dim"),
    ("dtype", "mask"),
)
_PICTURE_SIZE = 8  # rows and columns of the mask's picture
NOT_SET = "not set"


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


def create_controls(values: Mapping[str, object]) -> dict[str, gr.components.FormComponent]:
    """A control for every field of WORKLOAD_FIELDS, in the page's order."""
    controls = {}
    for row in _ROWS:
        with gr.Row(elem_classes="field-row"):
            for name in row:
                controls[name] = _create_control(FIELDS_BY_NAME[name], values.get(name))
    shown = {name for row in _ROWS for name in row}
    with gr.Accordion("Advanced", open=False):
        for field in WORKLOAD_FIELDS:
            if field.name not in shown:
                controls[field.name] = _create_control(field, values.get(field.name))
    return {field.name: controls[field.name] for field in WORKLOAD_FIELDS}


def _create_control(field: WorkloadField, value: object) -> gr.components.FormComponent:
    options: dict[str, Any] = {"label": field.label, "elem_id": f"field-{field.name}", "min_width": 60}
    if field.name not in {name for row in _ROWS for name in row}:
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

    Raises:
        InvalidWorkload: a number that has to be given was cleared. Elsewhere a missing value means its default, but
            a form that shows an empty box must not run something else.
    """
    fields = {field.name: value for field, value in zip(WORKLOAD_FIELDS, values, strict=True)}
    for field in WORKLOAD_FIELDS:
        if field.kind == "int" and fields[field.name] is None:
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
        return FormNotes(workload=None, message=render_problem(problem), estimate=blank, chips=blank, picture=None)
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
    rows = min(_PICTURE_SIZE, workload.seq_len_q)
    columns = min(_PICTURE_SIZE, workload.seq_len_kv)
    small = replace(workload, seq_len_q=rows, seq_len_kv=columns)
    mask = mask_of(small)
    allows = mask.build_mod(small)
    allowed = [
        [allows is None or bool(allows(0, 0, q_idx, kv_idx)) for kv_idx in range(columns)] for q_idx in range(rows)
    ]
    title = f"mask {mask.title}"
    scaled = (rows, columns) != (workload.seq_len_q, workload.seq_len_kv)
    note = f"rows: queries, columns: keys{f'; drawn for {rows} × {columns}' if scaled else ''}"
    return element(
        "div",
        render_mask_picture(allowed, title=title),
        element("div", text(mask.title), element("br"), element("span", note, class_="quiet")),
        class_="mask-row form-note att",
    )
