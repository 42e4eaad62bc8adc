"""``analyze``: a trace that was recorded elsewhere; no GPU and no torch."""

import argparse
from typing import TYPE_CHECKING

from profiling.commands.command import EXIT_FAILED, BadInput, Command, Context, Outcome
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
    analysis = _read(arguments.trace_path)

    from profiling.commands.summary import render_report
    from profiling.report_schema import write_report

    report = analysis.report
    output = write_report(report).decode() + "\n" if outputs.json_only else render_report(report)
    unusable = report.trace_health is None or report.trace_health.status == "unusable"
    written = write_files(outputs, analysis)
    exit_code = EXIT_FAILED if unusable else written.exit_code
    return Outcome(output=output, exit_code=exit_code, notes=written.notes)


def _read(text: str) -> "Analysis":
    from profiling.report import analyze_file
    from profiling.trace.parse import InvalidTrace
    from profiling.trace.repair import MAX_EXPANDED_BYTES

    try:
        if not text:
            raise BadInput("TRACE='' is empty; name a trace file.")
        with open(text, "rb") as file:
            # A device such as /dev/zero has no end; the reader refuses anything longer than its limit.
            data = file.read(MAX_EXPANDED_BYTES + 1)
    except OSError as error:
        raise BadInput(f"TRACE={text!r} cannot be read: {error.strerror}; name a trace file.") from error
    try:
        return analyze_file(data)
    except InvalidTrace as error:
        raise BadInput(f"TRACE={text!r} is neither a trace nor a recording: {error}") from error


COMMAND = Command(
    slug="analyze",
    help="read a trace that was recorded elsewhere: health, kernels, operators, findings",
    add_arguments=_add_arguments,
    execute=_execute,
)
