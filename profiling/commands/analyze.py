"""``analyze``: a trace that was recorded elsewhere, alone or against another one; no GPU and no torch."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from profiling.commands.command import EXIT_FAILED, BadInput, Command, Context, Outcome
from profiling.commands.outputs import add_json_argument, parse_outputs, write_bytes, write_files

if TYPE_CHECKING:
    from profiling.commands.outputs import Outputs
    from profiling.report import Analysis

# The words of the page's and the endpoint's label too; here, so that --help needs no reader.
LABEL_HELP = "the record_function label around each call; left out it is attn_fwd, or a recording's own"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "a profiler trace, .json or .json.gz, or a recording.json.gz of this app"
    parser.add_argument("trace_path", metavar="TRACE", help=what)
    parser.add_argument("--label", metavar="NAME", help=LABEL_HELP)
    parser.add_argument("--against", metavar="TRACE", help="compare with this one, which counts as before")
    add_json_argument(parser, "the report, or with --against the comparison,")
    parser.add_argument("--bundle", metavar="DIR", help="write every download into this folder")


def _execute(arguments: argparse.Namespace, context: Context) -> Outcome:
    outputs = parse_outputs(arguments)
    if arguments.label is not None and not arguments.label.strip():
        raise BadInput("label='' is empty; give the record_function label, or leave --label out.")
    if arguments.label is not None and _as_text(arguments.label) != arguments.label:
        raise BadInput(f"label={_as_text(arguments.label)!r} is not UTF-8; give the label as the code has it.")
    analysis = _read("TRACE", arguments.trace_path, arguments.label)
    if arguments.against is not None:
        return _compare(arguments, outputs, analysis)

    from profiling.report_schema import write_report

    report = analysis.report
    output = write_report(report).decode() + "\n" if outputs.json_only else _render(analysis)
    unusable = report.trace_health is None or report.trace_health.status == "unusable"
    written = write_files(outputs, analysis)
    exit_code = EXIT_FAILED if unusable else written.exit_code
    return Outcome(output=output, exit_code=exit_code, notes=written.notes)


def _render(analysis: "Analysis") -> str:
    from profiling.commands.summary import render_report
    from profiling.commands.text import clean, wrap
    from profiling.lacking import find_lacks

    lines = [wrap(f"- {clean(lack.sentence)}") for lack in find_lacks(analysis)]
    lacks = "\n".join(("NOT IN THIS FILE", *lines, "")) if lines else ""
    return "\n".join(part for part in (render_report(analysis.report), lacks) if part)


def _compare(arguments: argparse.Namespace, outputs: "Outputs", after: "Analysis") -> Outcome:
    """The comparison instead of the report; the downloads stay those of TRACE."""
    from profiling.commands.comparison_summary import render_comparison
    from profiling.comparison import compare_analyses
    from profiling.comparison_schema import write_comparison

    before = _read("against", arguments.against, arguments.label)
    comparison = compare_analyses(
        before, after, before_title=_as_text(arguments.against), after_title=_as_text(arguments.trace_path)
    )
    data = write_comparison(comparison)
    written = write_files(replace(outputs, json_file=None), after)
    notes = list(written.notes)
    if outputs.json_file is not None:
        notes.append(write_bytes(outputs.json_file, data))
    output = data.decode() + "\n" if outputs.json_only else render_comparison(comparison)
    exit_code = EXIT_FAILED if comparison.reasons else written.exit_code
    return Outcome(output=output, exit_code=exit_code, notes=tuple(notes))


def _as_text(argument: str) -> str:
    """The argument as text; a path may hold bytes that are none, which Python keeps as halves of surrogate pairs."""
    return os.fsencode(argument).decode("utf-8", "replace")


def _read(name: str, path: str, label: str | None) -> "Analysis":
    from profiling.report import analyze_file
    from profiling.trace.parse import InvalidTrace
    from profiling.trace.repair import MAX_EXPANDED_BYTES

    try:
        if not path:
            raise BadInput(f"{name}='' is empty; name a trace file.")
        with Path(path).open("rb") as file:
            # A device such as /dev/zero has no end; the reader refuses anything longer than its limit.
            data = file.read(MAX_EXPANDED_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{name}={path!r} cannot be read: {error.strerror}; name a trace file.") from error
    try:
        return analyze_file(data, label)
    except InvalidTrace as error:
        raise BadInput(f"{name}={path!r} is neither a trace nor a recording: {error}") from error


COMMAND = Command(
    slug="analyze",
    help="read a trace that was recorded elsewhere: health, kernels, operators, findings; or compare two",
    add_arguments=_add_arguments,
    execute=_execute,
)
