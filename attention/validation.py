"""One door for every experiment: form, command line and API give named values, a checked Workload comes back."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from attention.backends import BACKENDS, DeviceFacts
from attention.cost import estimate_memory
from attention.lookup import find, find_name
from attention.masks import MASKS, Mask, mask_of
from attention.workload import (
    SIZE_LIMITS,
    Direction,
    DType,
    InvalidWorkload,
    Layout,
    MaskForm,
    MaskSpec,
    Scalar,
    Workload,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadField:
    """One value that a user may give. ``default`` is the tutorial's; None means it may be left out."""

    name: str
    kind: Literal["choice", "int", "float", "text"]
    label: str
    help: str
    default: Scalar | None
    choices: tuple[str, ...] = ()


def _size(name: str, label: str, help: str, default: int | None) -> WorkloadField:
    return WorkloadField(name=name, kind="int", label=label, help=f"{help}; 1 to {SIZE_LIMITS[name]}", default=default)


# By parameter name: one that several masks share is one field.
MASK_PARAMETER_FIELDS: dict[str, WorkloadField] = {
    parameter.name: WorkloadField(
        name=f"mask_{parameter.name}",
        kind=parameter.kind,
        label=parameter.label,
        help=parameter.help,
        default=None,  # a value is an error where the mask has no such parameter
        choices=parameter.choices,
    )
    for mask in MASKS
    for parameter in mask.parameters
}

WORKLOAD_FIELDS: tuple[WorkloadField, ...] = (
    WorkloadField(
        name="backend",
        kind="choice",
        label="backend",
        help="how attention is computed",
        default="sdpa_auto",
        choices=tuple(backend.slug for backend in BACKENDS),
    ),
    _size("batch_size", "batch size", "independent sequences", 8),
    _size("num_heads", "query heads", "heads of the query", 16),
    _size("kv_heads", "key/value heads", "heads of key and value; must divide num_heads", 16),
    _size("seq_len_q", "query length", "query rows", 1024),
    _size("seq_len_kv", "key/value length", "keys that a query may attend to", 1024),
    _size("head_dim", "head dim", "elements a head", 64),
    _size("head_dim_v", "value head dim", "elements a head of value and output; left out it is head_dim", None),
    WorkloadField(
        name="dtype",
        kind="choice",
        label="dtype",
        help="element type of query, key and value",
        default="bfloat16",
        choices=tuple(dtype.value for dtype in DType),
    ),
    WorkloadField(
        name="mask",
        kind="choice",
        label="mask",
        help="which keys a query may attend to",
        default="causal",
        choices=tuple(mask.slug for mask in MASKS),
    ),
    WorkloadField(
        name="mask_form",
        kind="choice",
        label="mask form",
        help="how the mask reaches the call; it decides which backends are eligible",
        default="auto",
        choices=tuple(form.value for form in MaskForm),
    ),
    *MASK_PARAMETER_FIELDS.values(),
    WorkloadField(
        name="direction",
        kind="choice",
        label="direction",
        help="forward runs under no_grad",
        default="forward",
        choices=tuple(direction.value for direction in Direction),
    ),
    WorkloadField(
        name="layout",
        kind="choice",
        label="layout",
        help="how the tensors lie in memory; expanded_kv gives key and value the query's heads",
        default="contiguous",
        choices=tuple(layout.value for layout in Layout),
    ),
    WorkloadField(
        name="scale", kind="float", label="scale", help="softmax scale; left out it is 1/sqrt(head_dim)", default=None
    ),
    WorkloadField(name="seed", kind="int", label="seed", help="seed of the random inputs", default=0),
)
TEXT_LIMIT = 2_000  # some hundred document lengths
FIELDS_BY_NAME = {field.name: field for field in WORKLOAD_FIELDS}

# On a CPU the whole protocol must end in seconds on two cores: a score matrix of 2 M elements keeps naive
# and math near 10 ms a call, and float32 is the type that a CPU computes without emulation.
CPU_DEFAULTS: dict[str, Scalar | None] = {
    "batch_size": 1,
    "num_heads": 8,
    "kv_heads": 8,
    "seq_len_q": 512,
    "seq_len_kv": 512,
    "dtype": "float32",
}


def default_fields(device: str) -> dict[str, Scalar | None]:
    """Every field's default on ``device`` ("cpu" or "cuda")."""
    defaults: dict[str, Scalar | None] = {field.name: field.default for field in WORKLOAD_FIELDS}
    return defaults | CPU_DEFAULTS if device == "cpu" else defaults


# Left out, a field follows the one that a plain self-attention call shares it with.
FOLLOWS = {"kv_heads": "num_heads", "seq_len_kv": "seq_len_q"}


def complete_fields(given: Mapping[str, object], device: str) -> dict[str, object]:
    """``given`` with every field that was left out, or is None: the device's default, or what it follows."""
    present = {name: value for name, value in given.items() if value is not None}
    fields: dict[str, object] = {**default_fields(device), **present}
    for name, leader in FOLLOWS.items():
        if name not in present:
            fields[name] = fields[leader]
    return fields


def parse_workload(fields: Mapping[str, object]) -> Workload:
    """The workload that ``fields`` describe; values may be text, fields left out or None take the default.

    Raises:
        InvalidWorkload: names the field, its value, what is allowed and what to do.
    """
    for name in fields:
        if name not in FIELDS_BY_NAME:
            nearest = get_close_matches(str(name), FIELDS_BY_NAME, n=1)
            remedy = f"use {nearest[0]}" if nearest else f"use one of {', '.join(FIELDS_BY_NAME)}"
            raise InvalidWorkload(str(name), fields[name], "is not a field of a workload", remedy)
    given = {field.name: _parse_value(field, fields.get(field.name)) for field in WORKLOAD_FIELDS}
    mask = find(str(given.pop("mask")), MASKS, field="mask")
    form = MaskForm(str(given.pop("mask_form")))
    named = {name: given.pop(field.name) for name, field in MASK_PARAMETER_FIELDS.items()}
    parameters = _mask_parameters(mask, named)
    workload = Workload(
        mask=MaskSpec(name=mask.slug, parameters=parameters, form=form),
        dtype=DType(str(given.pop("dtype"))),
        direction=Direction(str(given.pop("direction"))),
        layout=Layout(str(given.pop("layout"))),
        **given,  # type: ignore[arg-type]  # ints, floats and text by WORKLOAD_FIELDS; Workload checks them
    )
    mask.check(workload)
    return workload


def flatten_workload(workload: Workload) -> dict[str, Scalar | None]:
    """The fields that ``parse_workload`` reads back to an equal workload."""
    values: dict[str, Scalar | None] = {
        "mask": workload.mask.name,
        "mask_form": workload.mask.form.value,
    }
    for name, field in MASK_PARAMETER_FIELDS.items():
        values[field.name] = workload.mask.parameters.get(name)
    for field in WORKLOAD_FIELDS:
        if field.name not in values:
            values[field.name] = getattr(workload, field.name)
    return {field.name: values[field.name] for field in WORKLOAD_FIELDS}


def with_backend(workload: Workload, backend: str) -> Workload:
    """The same call on another backend: one variable changed.

    Raises:
        InvalidWorkload: no backend has this name.
    """
    return replace(workload, backend=find(backend, BACKENDS, field="backend").slug)


def check_memory(workload: Workload, available_bytes: int | None, device: DeviceFacts) -> None:
    """Nothing, or a refusal with the numbers where the run cannot fit; ``available_bytes`` None is not judged.

    Raises:
        InvalidWorkload: the estimate is above what the device has.
    """
    # A selector holds what the backend holds that it lands on: math writes the score matrix.
    lands_on = find(workload.backend, BACKENDS, field="backend").check(workload, device).selects or workload.backend
    estimate = estimate_memory(with_backend(workload, lands_on))
    if available_bytes is None or estimate.total_bytes <= available_bytes:
        return
    parts = {
        "inputs": estimate.inputs_bytes,
        "output": estimate.output_bytes,
        "mask": estimate.mask_bytes,
        "gradients": estimate.gradients_bytes,
        "score matrices": estimate.score_matrices_bytes,
        "float64 reference": estimate.reference_bytes,
    }
    listed = ", ".join(f"{name} {_gibibytes(size)}" for name, size in parts.items() if size)
    raise InvalidWorkload(
        "workload",
        workload.describe(),
        f"needs {_gibibytes(estimate.total_bytes)} on {lands_on} ({listed}) and {device.name} has "
        f"{_gibibytes(available_bytes)} free",
        "lower batch_size or the sequence lengths, or choose a fused backend",
    )


def check_workload(workload: Workload) -> None:
    """Nothing, or the contradiction between a workload's mask, backend and lengths.

    Raises:
        InvalidWorkload: as ``parse_workload``, for a workload that was built by hand.
    """
    find(workload.backend, BACKENDS, field="backend")
    mask_of(workload).check(workload)


def _mask_parameters(mask: Mask, given: Mapping[str, Scalar | None]) -> dict[str, Scalar]:
    accepted = {parameter.name for parameter in mask.parameters}
    for name, value in given.items():
        if value is not None and name not in accepted:
            raise InvalidWorkload(f"mask_{name}", value, f"is not a parameter of mask {mask.slug}", "leave it out")
    return {name: value for name, value in given.items() if value is not None}


def _parse_value(field: WorkloadField, value: object) -> Scalar | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return field.default
    if field.kind == "choice":
        return find_name(value, field.choices, field=field.name)
    if field.kind == "text":
        return _parse_text(field, value)
    return _parse_int(field, value) if field.kind == "int" else _parse_float(field, value)


def _parse_text(field: WorkloadField, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**20:
        value = str(value)  # a list of one, as JSON gives it
    if isinstance(value, str) and len(value) <= TEXT_LIMIT:
        return "".join(value.split())
    raise InvalidWorkload(field.name, value, "is not a short text", f"give at most {TEXT_LIMIT} characters")


def _parse_int(field: WorkloadField, value: object) -> int:
    limit = SIZE_LIMITS.get(field.name)
    # The range of a mask's number depends on the mask, which says it once the value is a number.
    remedy = f"choose 1 to {limit}" if limit else "give a whole number such as 4"
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # A number box of a page gives 8.0 for 8.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    # 20 digits hold every value in range; int() of a longer text is refused or slow.
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", value):
        return int(value)
    raise InvalidWorkload(field.name, value, "is not a whole number", remedy)


def _parse_float(field: WorkloadField, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # float() would also take 1_0 and digits of other scripts, which look like a slip.
    if number or (isinstance(value, str) and len(value) <= 40 and value.isascii() and "_" not in value):
        try:
            return float(value)  # type: ignore[arg-type]  # a number or text; Workload refuses nan and infinity
        except (ValueError, OverflowError):
            pass
    remedy = "leave it out for 1/sqrt(head_dim)" if field.name == "scale" else "give a number such as 0.25"
    raise InvalidWorkload(field.name, value, "is not a number", remedy)


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:,.2f} GiB"
