"""One door for every experiment: form, command line and API give named values, a checked workload comes back."""

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar

from attention.backends import DeviceFacts
from attention.field import (
    ATTENTION_OPERATION,
    BACKEND_NAMES,
    FUSION_OPERATIONS,
    OPERATION_NAMES,
    WorkloadField,
    fusion_size_field,
    is_blank,
    parse_value,
    size_field,
)
from attention.fusion.workload import FusionOperation, FusionWorkload
from attention.kinds import AnyWorkload, kind_of
from attention.lookup import find
from attention.masks import MASKS, Mask
from attention.workload import Direction, DType, InvalidWorkload, Layout, MaskForm, MaskSpec, Scalar, Workload

WorkloadT = TypeVar("WorkloadT", bound=AnyWorkload)

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
        name="operation",
        kind="choice",
        label="operation",
        help="what is computed; each has fields of its own",
        default=ATTENTION_OPERATION,
        choices=OPERATION_NAMES,
        operations=OPERATION_NAMES,
        defaults={name: name for name in OPERATION_NAMES},
    ),
    WorkloadField(
        name="backend",
        kind="choice",
        label="backend",
        help="how it is computed; attention has backends of its own, the other operations are eager or compiled",
        default="sdpa_auto",
        choices=tuple(dict.fromkeys(slug for names in BACKEND_NAMES.values() for slug in names)),
        operations=OPERATION_NAMES,
        defaults=dict.fromkeys(FUSION_OPERATIONS, "eager"),
    ),
    size_field("batch_size", "batch size", "independent sequences", 8),
    size_field("num_heads", "query heads", "heads of the query", 16),
    size_field("kv_heads", "key/value heads", "heads of key and value; must divide num_heads", 16),
    size_field("seq_len_q", "query length", "query rows", 1024),
    size_field("seq_len_kv", "key/value length", "keys that a query may attend to", 1024),
    size_field("head_dim", "head dim", "elements a head", 64),
    size_field("head_dim_v", "value head dim", "elements a head of value and output; left out it is head_dim", None),
    # The feed-forward block of an 8 B model; the norm has more tokens, so that its tensors outgrow an L2 cache.
    fusion_size_field("tokens", "tokens", "rows of the activations", {"swiglu": 2048, "residual_rms_norm": 16384}),
    fusion_size_field("hidden_size", "hidden size", "elements a token", {"swiglu": 4096, "residual_rms_norm": 4096}),
    fusion_size_field("intermediate_size", "intermediate", "elements of a gate", {"swiglu": 14336}),
    WorkloadField(
        name="dtype",
        kind="choice",
        label="dtype",
        help="element type of the inputs",
        default="bfloat16",
        choices=tuple(dtype.value for dtype in DType),
        operations=OPERATION_NAMES,
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
        help="forward runs under no_grad; forward_backward is offered for attention",
        default="forward",
        choices=tuple(direction.value for direction in Direction),
        operations=OPERATION_NAMES,
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
    WorkloadField(
        name="seed",
        kind="int",
        label="seed",
        help="seed of the random inputs",
        default=0,
        operations=OPERATION_NAMES,
    ),
)
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


# Few enough products for two cores, and rows that fill no cache.
FUSION_CPU_DEFAULTS: dict[str, dict[str, Scalar | None]] = {
    "swiglu": {"tokens": 256, "hidden_size": 512, "intermediate_size": 1408, "dtype": "float32"},
    "residual_rms_norm": {"tokens": 2048, "hidden_size": 1024, "dtype": "float32"},
}


def default_fields(device: str, operation: str = ATTENTION_OPERATION) -> dict[str, Scalar | None]:
    """Every field's default on ``device`` ("cpu" or "cuda"); None for a field that ``operation`` does not have."""
    defaults = {field.name: field.default_of(operation) for field in WORKLOAD_FIELDS}
    if device != "cpu":
        return defaults
    return defaults | (CPU_DEFAULTS if operation == ATTENTION_OPERATION else FUSION_CPU_DEFAULTS[operation])


def operation_of_fields(given: Mapping[str, object]) -> str:
    """The operation that ``given`` names; attention where it names none, or none that exists."""
    named = given.get("operation")
    return named if isinstance(named, str) and named in OPERATION_NAMES else ATTENTION_OPERATION


# Left out, a field follows the one that a plain self-attention call shares it with.
FOLLOWS = {"kv_heads": "num_heads", "seq_len_kv": "seq_len_q"}


def complete_fields(given: Mapping[str, object], device: str) -> dict[str, object]:
    """``given`` with every field that was left out, or is None: the device's default, or what it follows."""
    present = {name: value for name, value in given.items() if value is not None}
    operation = operation_of_fields(given)
    fields: dict[str, object] = {**default_fields(device, operation), **present}
    for name, leader in FOLLOWS.items():
        if name not in present and operation in FIELDS_BY_NAME[name].operations:
            fields[name] = fields[leader]
    return fields


def parse_workload(fields: Mapping[str, object]) -> AnyWorkload:
    """The workload that ``fields`` describe; values may be text, fields left out or None take the default.

    Raises:
        InvalidWorkload: names the field, its value, what is allowed and what to do.
    """
    for name in fields:
        if name not in FIELDS_BY_NAME:
            nearest = get_close_matches(str(name), FIELDS_BY_NAME, n=1)
            remedy = f"use {nearest[0]}" if nearest else f"use one of {', '.join(FIELDS_BY_NAME)}"
            raise InvalidWorkload(str(name), fields[name], "is not a field of a workload", remedy)
    operation = str(parse_value(FIELDS_BY_NAME["operation"], fields.get("operation"), ATTENTION_OPERATION))
    given: dict[str, Scalar | None] = {}
    for field in WORKLOAD_FIELDS:
        value = fields.get(field.name)
        if operation in field.operations:
            given[field.name] = parse_value(field, value, operation)
        elif not is_blank(value):
            raise InvalidWorkload(field.name, value, f"is not a parameter of {operation}", "leave it out")
    del given["operation"]
    return _build_attention(given) if operation == ATTENTION_OPERATION else _build_fusion(operation, given)


def _build_fusion(operation: str, given: dict[str, Scalar | None]) -> FusionWorkload:
    return FusionWorkload(
        operation=FusionOperation(operation),
        dtype=DType(str(given.pop("dtype"))),
        direction=Direction(str(given.pop("direction"))),
        **given,  # type: ignore[arg-type]  # ints and text by WORKLOAD_FIELDS; FusionWorkload checks them
    )


def _build_attention(given: dict[str, Scalar | None]) -> Workload:
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


def flatten_workload(workload: AnyWorkload) -> dict[str, Scalar | None]:
    """The fields that ``parse_workload`` reads back to an equal workload: those of its operation, in order."""
    if isinstance(workload, FusionWorkload):
        own = [field.name for field in WORKLOAD_FIELDS if workload.operation in field.operations]
        return {name: getattr(workload, name) for name in own}
    values: dict[str, Scalar | None] = {
        "operation": ATTENTION_OPERATION,
        "mask": workload.mask.name,
        "mask_form": workload.mask.form.value,
    }
    for name, field in MASK_PARAMETER_FIELDS.items():
        values[field.name] = workload.mask.parameters.get(name)
    own = [field.name for field in WORKLOAD_FIELDS if ATTENTION_OPERATION in field.operations]
    return {name: values[name] if name in values else getattr(workload, name) for name in own}


def with_backend(workload: WorkloadT, backend: str) -> WorkloadT:
    """The same call on another backend: one variable changed.

    Raises:
        InvalidWorkload: no backend has this name.
    """
    return replace(workload, backend=find(backend, kind_of(workload).backends, field="backend").slug)


def check_memory(workload: AnyWorkload, available_bytes: int | None, device: DeviceFacts) -> None:
    """Nothing, or a refusal with the numbers where the run cannot fit; ``available_bytes`` None is not judged.

    Raises:
        InvalidWorkload: the estimate is above what the device has.
    """
    # A selector holds what the backend holds that it lands on: math writes the score matrix.
    kind = kind_of(workload)
    lands_on = find(workload.backend, kind.backends, field="backend").check(workload, device).selects
    lands_on = lands_on or workload.backend
    estimate = kind.estimate_memory(with_backend(workload, lands_on))
    if available_bytes is None or estimate.total_bytes <= available_bytes:
        return
    listed = ", ".join(f"{name} {_gibibytes(size)}" for name, size in estimate.parts.items() if size)
    raise InvalidWorkload(
        "workload",
        workload.describe(),
        f"needs {_gibibytes(estimate.total_bytes)} on {lands_on} ({listed}) and {device.name} has "
        f"{_gibibytes(available_bytes)} free",
        kind.smaller,
    )


def check_workload(workload: AnyWorkload) -> None:
    """Nothing, or the contradiction between a workload's backend, mask and sizes.

    Raises:
        InvalidWorkload: as ``parse_workload``, for a workload that was built by hand.
    """
    kind = kind_of(workload)
    find(workload.backend, kind.backends, field="backend")
    kind.check(workload)


def _mask_parameters(mask: Mask, given: Mapping[str, Scalar | None]) -> dict[str, Scalar]:
    accepted = {parameter.name for parameter in mask.parameters}
    for name, value in given.items():
        if value is not None and name not in accepted:
            raise InvalidWorkload(f"mask_{name}", value, f"is not a parameter of mask {mask.slug}", "leave it out")
    return {name: value for name, value in given.items() if value is not None}


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:,.2f} GiB"
