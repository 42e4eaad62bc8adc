"""``run``: one workload under the profiler, and its report."""

import argparse
from typing import TYPE_CHECKING

from profiling.commands.command import EXIT_FAILED, EXIT_FINE, Command, Context, Outcome
from profiling.commands.experiment import (
    add_steps_argument,
    add_workload_arguments,
    parse_schedule,
    refuse_invalid,
    resolve_workload,
    run_request,
)
from profiling.commands.outputs import add_export_arguments, add_json_argument, parse_outputs, write_files
from profiling.recording import FailureKind, RunRequest
from profiling.unlocks import MEASURE_UNLOCKS_HELP

if TYPE_CHECKING:
    from profiling.report_schema import Report

# A refusal is the answer to the question that was asked; a clock that this build lacks leaves the rest standing.
_NO_FAULT: frozenset[FailureKind] = frozenset({"refused", "unavailable"})


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workload_arguments(parser)
    add_steps_argument(parser)
    parser.add_argument(
        "--measure-unlocks",
        action="store_true",
        help=MEASURE_UNLOCKS_HELP,
    )
    add_json_argument(parser, "the report")
    add_export_arguments(parser)


def _execute(arguments: argparse.Namespace, context: Context) -> Outcome:
    outputs, schedule = parse_outputs(arguments), parse_schedule(arguments)
    workload, device = resolve_workload(arguments, context)
    request = RunRequest(
        workloads=(workload,), schedule=schedule, device=device, measure_unlocks=arguments.measure_unlocks
    )
    recording = run_request(request, context)
    refuse_invalid(recording)

    # Late: `--help` and a typing mistake need none of it.
    from profiling.commands.summary import render_report
    from profiling.report import analyze_recording
    from profiling.report_schema import write_report

    analysis = analyze_recording(recording)
    written = write_files(outputs, analysis)
    notes = (*failure_notes(analysis.report), *written.notes)
    output = write_report(analysis.report).decode() + "\n" if outputs.json_only else render_report(analysis.report)
    return Outcome(output=output, exit_code=max(exit_code_of(analysis.report), written.exit_code), notes=notes)


def exit_code_of(report: "Report") -> int:
    """0 also for a refused backend, 1 for any other failure."""
    kinds = {failure.kind for failure in report.failures}
    return EXIT_FAILED if kinds - _NO_FAULT else EXIT_FINE


def failure_notes(report: "Report") -> tuple[str, ...]:
    """One line a failure; the report has it whole."""
    return tuple(
        f"{failure.kind.replace('_', ' ')} in stage {failure.stage}: {' '.join(failure.message.split())}"
        for failure in report.failures
    )


COMMAND = Command(
    slug="run",
    help="run one workload under the profiler and report what ran, what it cost and whether it was right",
    add_arguments=_add_arguments,
    execute=_execute,
)
