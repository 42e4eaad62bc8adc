"""``analyze``: a trace that was recorded elsewhere; no GPU and no torch."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from profiling.commands.command import EXIT_FAILED, EXIT_FINE, BadInput, Command, Context, Outcome
from profiling.commands.outputs import add_json_argument, parse_outputs, write_files

if TYPE_CHECKING:
    from profiling.report import Analysis


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "a profiler trace, .json or .json.gz, or a recording.json.gz of this app"
    parser.add_argument("trace_path", metavar="TRACE", help=what)
    add_json_argument(parser, "the report")
    parser.add_argument("--bundle", metavar="DIR", help="write every download into this folder")


def _execute(arguments: argparse.Namespace, context: Context) -> Outcome:
    outputs = parse_outputs(arguments)
    analysis = _read(Path(arguments.trace_path))

    from profiling.commands.summary import render_report
    from profiling.report_schema import write_report

    report = analysis.report
    output = write_report(report).decode() + "\n" if outputs.json_only else render_report(report)
    unusable = report.trace_health is None or report.trace_health.status == "unusable"
    notes = write_files(outputs, analysis)
    return Outcome(output=output, exit_code=EXIT_FAILED if unusable else EXIT_FINE, notes=notes)


def _read(path: Path) -> "Analysis":
    from profiling.report import analyze_file
    from profiling.trace.parse import InvalidTrace

    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"TRACE={str(path)!r} cannot be read: {error.strerror}; name a trace file.") from error
    try:
        return analyze_file(data)
    except InvalidTrace as error:
        raise BadInput(f"TRACE={str(path)!r} is neither a trace nor a recording: {error}") from error


COMMAND = Command(
    slug="analyze",
    help="read a trace that was recorded elsewhere: health, kernels, operators, findings",
    add_arguments=_add_arguments,
    execute=_execute,
)
