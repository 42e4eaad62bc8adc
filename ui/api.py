"""The Gradio endpoints: plain JSON in, the same report out that the page and the command line show."""

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gradio as gr
from gradio.data_classes import FileData
from pydantic import TypeAdapter

from attention.field import WorkloadField
from attention.kinds import AnyWorkload
from attention.validation import FOLLOWS, WORKLOAD_FIELDS, complete_fields, parse_workload
from attention.workload import InvalidWorkload
from profiling.commands.analyze import LABEL_HELP
from profiling.comparison import compare_analyses
from profiling.comparison_schema import write_comparison
from profiling.recording import Environment, Recorder, RunRequest
from profiling.report import Analysis, analyze_recording
from profiling.report_schema import write_report
from profiling.unlocks import MEASURE_UNLOCKS_HELP
from profiling.zero_gpu import on_zero_gpu
from ui.live_run import collect_recording
from ui.machine_facts import KnownMachine
from ui.opened_file import UnopenedFile, open_file
from ui.panels.downloads import write_files

Json = dict[str, Any]
_TYPES: dict[str, type] = {"int": int, "float": float, "choice": str, "text": str}
_ENVIRONMENT = TypeAdapter(Environment)


def add_endpoints(record: Recorder, machine: KnownMachine, *, concurrency_limit: int | None) -> None:
    """Adds /profile, /check, /environment and /analyze to the Blocks that is being built."""
    device: dict[str, Any] = {"concurrency_id": "device", "concurrency_limit": concurrency_limit}

    def profile(*values: object) -> tuple[Json, list[Json]]:
        fields, options = values[: len(WORKLOAD_FIELDS)], values[len(WORKLOAD_FIELDS) :]
        request = RunRequest(workloads=(_parse(fields, record, machine),), measure_unlocks=any(options))
        recording = collect_recording(record, request, machine)
        return _answer(analyze_recording(recording))

    def check(*values: object) -> Json:
        request = RunRequest(workloads=(_parse(values, record, machine),), depth="check")
        return _as_json(analyze_recording(collect_recording(record, request, machine)))

    def environment() -> Json:
        """The machine that runs the workloads: device, versions, clocks and flags."""
        recording = collect_recording(record, RunRequest(workloads=(), depth="environment"), machine)
        if recording.environment is None:
            raise _error(recording.failures[0].message if recording.failures else "the machine was not recorded")
        facts: Json = _ENVIRONMENT.dump_python(recording.environment, mode="json")
        return facts

    summary = "Runs one call under the profiler and returns its report and every download."
    _name(profile, summary, options={"measure_unlocks": MEASURE_UNLOCKS_HELP})
    _name(
        check,
        "Asks every backend whether it takes this call; the report's decisions hold each verdict.",
    )
    gr.api(profile, api_name="profile", **device)
    gr.api(check, api_name="check", **device)
    gr.api(environment, api_name="environment", **device)
    _add_analyze()


def _add_analyze() -> None:
    # A file component and not gr.api: it is what makes sure that a path was uploaded and is not the server's own.
    with gr.Row(visible=False):
        inputs = [
            gr.File(label="file", type="filepath"),
            gr.Textbox(label="label"),
            gr.File(label="against", type="filepath"),
        ]
        outputs = [gr.JSON(label="report"), gr.Files(label="files"), gr.JSON(label="comparison")]
        button = gr.Button()
    button.click(
        _analyze,
        inputs=inputs,
        outputs=outputs,
        api_name="analyze",
        api_description=_ANALYZE_DESCRIPTION,
        show_progress="hidden",
    )


_ANALYZE_DESCRIPTION = (
    "Reads a torch.profiler trace or a recording, without a GPU, and returns its report and downloads. "
    f"label: {LABEL_HELP}. against: a second file, which counts as before; with it the third value is the comparison, "
    "without it null."
)


def _analyze(
    file: str | None, label: str | None = None, against: str | None = None
) -> tuple[Json, list[str], Json | None]:
    if file is None:
        raise _error("file='' is empty; give a .json or .json.gz trace of torch.profiler.")
    analysis = _open("file", file, label)
    comparison: Json | None = None
    if against is not None:
        before = _open("against", against, label)
        titles = {"before_title": Path(against).name, "after_title": Path(file).name}
        comparison = json.loads(write_comparison(compare_analyses(before, analysis, **titles)))
    return _as_json(analysis), [str(path) for path in write_files(analysis).values()], comparison


def _open(name: str, path: str, label: str | None) -> Analysis:
    try:
        return open_file(path, label or "")
    except UnopenedFile as problem:
        raise _error(f"{name}={Path(path).name!r}: {problem}") from problem


def _answer(analysis: Analysis) -> tuple[Json, list[Json]]:
    files = [FileData(path=str(path), orig_name=path.name).model_dump() for path in write_files(analysis).values()]
    return _as_json(analysis), files


def _as_json(analysis: Analysis) -> Json:
    report: Json = json.loads(write_report(analysis.report))
    return report


def _parse(values: tuple[object, ...], record: Recorder, machine: KnownMachine) -> AnyWorkload:
    """The workload of an endpoint's arguments, which stand in WORKLOAD_FIELDS order; None was left out."""
    if machine.environment is None and not on_zero_gpu():
        # The defaults are the device's. On ZeroGPU asking would cost the caller a part of their GPU time.
        collect_recording(record, RunRequest(workloads=(), depth="environment"), machine)
    given = {field.name: value for field, value in zip(WORKLOAD_FIELDS, values, strict=True)}
    try:
        return parse_workload(complete_fields(given, machine.device))
    except InvalidWorkload as problem:
        raise _error(str(problem)) from problem


def _error(message: str) -> gr.Error:
    """The one-line message, kept whole on its way to the caller and out of the server's log."""
    return gr.Error(message, print_exception=False)


def _name(endpoint: Callable[..., Any], summary: str, *, options: Mapping[str, str] = MappingProxyType({})) -> None:
    """Gives ``endpoint`` the workload fields as its named parameters, because Gradio reads them off the signature.

    ``options``: switches behind the fields, with what each does; left out it is off.
    """
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None,
            annotation=_TYPES[field.kind] | None,
        )
        for field in WORKLOAD_FIELDS
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation=bool)
        for name in options
    ]
    returned = inspect.signature(endpoint).return_annotation
    endpoint.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
    endpoint.__annotations__ = {item.name: item.annotation for item in parameters} | {"return": returned}
    described = [f"    {field.name}: {_describe(field)}" for field in WORKLOAD_FIELDS]
    described += [f"    {name}: {help}; default false" for name, help in options.items()]
    endpoint.__doc__ = "\n".join([summary, "", "Parameters:", *described])


def _describe(field: WorkloadField) -> str:
    choices = f"; one of {', '.join(field.choices)}" if field.choices else ""
    default = FOLLOWS.get(field.name, field.default)
    return f"{field.help}{choices}" + ("" if default is None else f"; default {default} on a GPU")
