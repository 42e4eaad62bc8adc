"""replay.py: the recorded call again with torch alone, checked against the stored numbers.

The script is ``replay_template.txt`` with its parts filled in: the recorded numbers as one JSON literal, the
source of ``attend`` and ``repeat_heads`` from ``attention.backends.naive``, and that of the mask's predicate and bias,
so that there is one formula of each. For an operation beyond attention the part between the template's two marks is
``replay_operation.txt`` instead, with the operation's own formula.
Whatever text a recording holds stays data: it can end neither the literal nor the JSON inside it.
"""

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from attention.backends import BACKENDS
from attention.backends.naive import attend, repeat_heads
from attention.fusion import operation_of
from attention.fusion.workload import FusionWorkload
from attention.kinds import kind_of
from attention.lookup import find
from attention.masks import MASKS, mask_of
from attention.validation import flatten_workload
from attention.workload import Direction, MaskForm, Workload
from profiling.export.exporter import Exporter
from profiling.failures import REFUSALS
from profiling.format import NOT_RECORDED, format_duration
from profiling.recording import Delta, Failure
from profiling.report import Analysis
from profiling.report_schema import Report

# What the template can rebuild without this package.
REPLAYED_BACKENDS = (
    "naive",
    "naive_inplace",
    "sdpa_auto",
    "sdpa_math",
    "sdpa_flash",
    "sdpa_efficient",
    "sdpa_cudnn",
    "flex",
    "flex_eager",
    "compiled_naive",
    "compiled_naive_cudagraph",
    "compiled_naive_max_autotune",
    "compiled_sdpa",
    "sdpa_cudagraph",
)
REPLAYED_MASKS = tuple(mask.slug for mask in MASKS)
_TEMPLATE = Path(__file__).with_name("replay_template.txt")
_OPERATION_TEMPLATE = Path(__file__).with_name("replay_operation.txt")
_ATTENTION_BEGINS, _ATTENTION_ENDS = "@@ATTENTION_BEGINS@@\n", "@@ATTENTION_ENDS@@\n"


def write_replay_script(analysis: Analysis) -> bytes:
    """A Python file, UTF-8; equal reports give equal bytes."""
    workload = analysis.report.workload
    assert workload is not None, "Exporter.write asks first"
    head, part = _TEMPLATE.read_text(encoding="utf-8").split(_ATTENTION_BEGINS)
    part, tail = part.split(_ATTENTION_ENDS)
    if isinstance(workload, FusionWorkload):
        part = _write_operation(workload)
    else:
        naive = "\n\n".join(inspect.getsource(function) for function in (attend, repeat_heads))
        part = part.replace("@@NAIVE_SOURCE@@", naive.strip())
        part = part.replace("@@MASK_SOURCE@@", write_mask_source(workload))
    script = head + part + tail.replace("@@REFUSAL_WORDS@@", repr(REFUSALS))
    # The numbers last: text inside them is never searched for a placeholder.
    return script.replace("@@RECORDED@@", _json_literal(_recorded(analysis.report))).encode("utf-8")


def _write_operation(workload: FusionWorkload) -> str:
    """The operation's formula, its operands, its call and its reference."""
    builder = operation_of(workload).build
    sources = _sources(builder)
    constants = [part for part in sources.values() if "\n" not in part]
    functions = [part for part in sources.values() if "\n" in part]
    text = "\n\n\n".join([*(["\n".join(constants)] if constants else []), *functions])
    part = _OPERATION_TEMPLATE.read_text(encoding="utf-8")
    return part.replace("@@FORMULA_SOURCE@@", text).replace("@@FORMULA_BUILDER@@", builder.__name__)


def write_mask_source(workload: Workload) -> str:
    """Python that defines ``build_mask_mod`` and ``build_mask_bias`` of the workload's mask, with all they call.

    Either is None where the mask has no predicate or adds nothing.
    """
    mask = mask_of(workload)
    parts: dict[str, str] = {}
    names = {}
    for name, builder in (("build_mask_mod", mask.build_mod), ("build_mask_bias", mask.build_bias)):
        names[name] = None if builder(workload) is None else builder.__name__
        if names[name] is not None:
            parts |= _sources(builder)
    constants = [part for part in parts.values() if "\n" not in part]
    functions = [f"\n\n{part}" for part in parts.values() if "\n" in part]
    chosen = [f"{name} = {builder}" for name, builder in names.items()]
    return "\n".join([*constants, *functions, *(["\n"] if functions else []), *chosen]).strip()


def _sources(function: Callable[..., Any]) -> dict[str, str]:
    """Name to source of ``function`` and of the functions and constants of its module, or imported there, it reads."""
    assert isinstance(function, FunctionType)
    parts: dict[str, str] = {}
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType):
            parts |= _sources(value)
        elif inspect.isbuiltin(value):  # such as math.gcd
            parts[name] = f"from {value.__module__} import {name}"
        elif isinstance(value, str | int | float):
            parts[name] = f"{name} = {value!r}"
    return parts | {function.__name__: inspect.getsource(function).strip()}


def _names(code: CodeType) -> Iterator[str]:
    """Every global name that the code reads, and attribute names with them; nested functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _recorded(report: Report) -> dict[str, Any]:
    """The numbers that the script compares with, and the workload with every default worked out."""
    workload, machine = report.workload, report.environment
    assert workload is not None, "Exporter.write asks first"
    assert machine is not None, "Exporter.write asks first"
    delta, refusal, wall = _output_delta(report), _refusal(report), report.latency.wall
    return {
        "description": workload.describe(),
        "workload": flatten_workload(workload)
        | {"compile_mode": find(workload.backend, kind_of(workload).backends, field="backend").compile_mode}
        | (_operation_facts(workload) if isinstance(workload, FusionWorkload) else _attention_facts(workload)),
        "machine": {
            "device": machine.device,
            "device_name": machine.device_name,
            "platform": machine.platform,
            "torch": machine.torch,
            "captured_at": machine.captured_at,
        },
        "inputs_fingerprint": report.inputs_fingerprint,
        "refused": None if refusal is None else refusal.message,
        "output": None if delta is None else _delta_numbers(delta),
        "wall_time": NOT_RECORDED if wall is None else f"{format_duration(wall.median_ns)} ({wall.method})",
    }


def _attention_facts(workload: Workload) -> dict[str, Any]:
    return {
        "value_dim": workload.value_dim,
        "softmax_scale": workload.softmax_scale,
        "presented_kv_heads": workload.presented_kv_heads,
        "mask_passed_as": mask_passed_as(workload),
        "mask_parameters": workload.mask.parameters,
    }


def _operation_facts(workload: FusionWorkload) -> dict[str, Any]:
    operands = operation_of(workload).operands
    return {
        "widest": workload.widest,
        "operands": [
            [operand.name, list(operand.shape(workload)), operand.fan_in(workload) ** -0.5, operand.per_token]
            for operand in operands
        ],
    }


def _delta_numbers(delta: Delta) -> dict[str, Any]:
    return {
        "max_abs_error": delta.max_abs_error,
        "error_budget": delta.error_budget,
        "budget_basis": delta.budget_basis,
        "nan_count": delta.nan_count,
        "inf_count": delta.inf_count,
        # A tensor of two dimensions stands as one head of one batch entry.
        "reference_samples": [
            [[*[0] * (4 - len(sample.index)), *sample.index], sample.value] for sample in delta.reference_samples
        ],
    }


def mask_passed_as(workload: Workload) -> str:
    """How the mask reaches the call: none, predicate, is_causal, bool, additive or additive_float32."""
    form, backend = mask_of(workload).resolve_form(workload), find(workload.backend, BACKENDS, field="backend")
    if form is None:
        return "none"
    if backend.builds_mask:
        return "predicate"
    if form is MaskForm.IS_CAUSAL and backend.takes_dense_mask:
        return "bool"
    return form.value


def _json_literal(value: dict[str, Any]) -> str:
    """JSON that stands in a raw, triple-quoted string: ASCII alone, and no quote that could end it."""
    lines = [f"{_json(name)}: {_json_lines(part)}" for name, part in value.items()]
    return ("{\n" + ",\n".join(lines) + "\n}").replace("'", "\\u0027")


def _json_lines(value: Any) -> str:
    if not isinstance(value, dict):
        return _json(value)
    return "{\n  " + ",\n  ".join(f"{_json(name)}: {_json(part)}" for name, part in value.items()) + "\n}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _output_delta(report: Report) -> Delta | None:
    return next((delta for delta in report.correctness if delta.tensor == "output"), None)


def _refusal(report: Report) -> Failure | None:
    return next((failure for failure in report.failures if failure.kind == "refused"), None)


def _needs(analysis: Analysis) -> str | None:
    report = analysis.report
    if report.workload is None or report.environment is None:
        return "The workload or the machine was not recorded, so there is no call to run again."
    lacks = _lacks(report.workload) if isinstance(report.workload, Workload) else None
    if lacks is not None:
        return lacks
    backend = find(report.workload.backend, kind_of(report.workload).backends, field="backend")
    if _refusal(report) is not None and not backend.is_probed:
        return f"{report.workload.backend} was turned down by its rule and never called, so torch has said nothing."
    if _output_delta(report) is None and _refusal(report) is None:
        return "The run ended before its output was checked, so there are no numbers to compare with."
    return None


def _lacks(workload: Workload) -> str | None:
    if workload.backend not in REPLAYED_BACKENDS:
        return f"replay.py cannot run backend {workload.backend} with torch alone."
    if workload.direction is not Direction.FORWARD:
        return "replay.py runs the forward call alone, and this run has gradients."
    if workload.mask.name not in REPLAYED_MASKS:
        return f"replay.py cannot rebuild mask {workload.mask.name} with torch alone."
    return None


EXPORTER = Exporter(
    slug="replay_script",
    title="A script that runs this call again with torch alone and checks the numbers",
    file_name="replay.py",
    media_type="text/x-python",
    encode=write_replay_script,
    needs=_needs,
)
