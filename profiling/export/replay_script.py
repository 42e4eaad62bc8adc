"""replay.py: the recorded call again with torch alone, checked against the stored numbers.

The script is ``replay_template.txt`` with two parts filled in: the recorded numbers as one JSON literal, and the
source of ``attend`` and ``repeat_heads`` from ``attention.backends.naive``, so that there is one naive formula.
Whatever text a recording holds stays data: it can end neither the literal nor the JSON inside it.
"""

import inspect
import json
from pathlib import Path
from typing import Any

from attention.backends import BACKENDS
from attention.backends.naive import attend, repeat_heads
from attention.lookup import find
from attention.masks import mask_of
from attention.validation import flatten_workload
from attention.workload import MaskForm, Workload
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
)
REPLAYED_MASKS = ("none", "causal")
_TEMPLATE = Path(__file__).with_name("replay_template.txt")


def write_replay_script(analysis: Analysis) -> bytes:
    """A Python file, UTF-8; equal reports give equal bytes."""
    naive = "\n\n".join(inspect.getsource(function) for function in (attend, repeat_heads))
    script = _TEMPLATE.read_text(encoding="utf-8")
    script = script.replace("@@REFUSAL_WORDS@@", repr(REFUSALS))
    # The numbers last: text inside them is never searched for a placeholder.
    script = script.replace("@@NAIVE_SOURCE@@", naive.strip())
    return script.replace("@@RECORDED@@", _json_literal(_recorded(analysis.report))).encode("utf-8")


def _recorded(report: Report) -> dict[str, Any]:
    """The numbers that the script compares with, and the workload with every default worked out."""
    workload, machine = report.workload, report.environment
    assert workload is not None, "Exporter.write asks first"
    assert machine is not None, "Exporter.write asks first"
    delta, refusal, wall = _output_delta(report), _refusal(report), report.latency.wall
    return {
        "description": workload.describe(),
        "workload": flatten_workload(workload)
        | {
            "value_dim": workload.value_dim,
            "softmax_scale": workload.softmax_scale,
            "mask_passed_as": mask_passed_as(workload),
        },
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


def _delta_numbers(delta: Delta) -> dict[str, Any]:
    return {
        "max_abs_error": delta.max_abs_error,
        "error_budget": delta.error_budget,
        "budget_basis": delta.budget_basis,
        "nan_count": delta.nan_count,
        "inf_count": delta.inf_count,
        "reference_samples": [[sample.index, sample.value] for sample in delta.reference_samples],
    }


def mask_passed_as(workload: Workload) -> str:
    """How the mask reaches the call: none, is_causal, bool or additive."""
    form = mask_of(workload).resolve_form(workload)
    if form is None:
        return "none"
    if form is MaskForm.IS_CAUSAL and find(workload.backend, BACKENDS, field="backend").takes_dense_mask:
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
    if report.workload.backend not in REPLAYED_BACKENDS:
        return f"replay.py cannot run backend {report.workload.backend} with torch alone."
    if report.workload.mask.name not in REPLAYED_MASKS:
        return f"replay.py cannot rebuild mask {report.workload.mask.name} with torch alone."
    if _output_delta(report) is None and _refusal(report) is None:
        return "The run ended before its output was checked, so there are no numbers to compare with."
    return None


EXPORTER = Exporter(
    slug="replay_script",
    title="A script that runs this call again with torch alone and checks the numbers",
    file_name="replay.py",
    media_type="text/x-python",
    encode=write_replay_script,
    needs=_needs,
)
