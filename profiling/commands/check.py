"""``check``: which backends take one workload on this machine, and why not."""

import argparse

from profiling.commands.command import Command, Context, Outcome
from profiling.commands.experiment import add_workload_arguments, refuse_invalid, resolve_workload, run_request
from profiling.commands.outputs import add_json_argument, parse_outputs, write_files
from profiling.commands.run import exit_code_of, failure_notes
from profiling.recording import RunRequest


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workload_arguments(parser)
    add_json_argument(parser, "the report, with PyTorch's raw messages,")


def _execute(arguments: argparse.Namespace, context: Context) -> Outcome:
    outputs = parse_outputs(arguments)
    workload, device = resolve_workload(arguments, context)
    recording = run_request(RunRequest(workloads=(workload,), depth="check", device=device), context)
    refuse_invalid(recording)

    from profiling.commands.summary import render_eligibility
    from profiling.report import analyze_recording
    from profiling.report_schema import write_report

    analysis = analyze_recording(recording)
    report = analysis.report
    output = write_report(report).decode() + "\n" if outputs.json_only else render_eligibility(report)
    written = write_files(outputs, analysis)
    notes = (*failure_notes(report), *written.notes)
    return Outcome(output=output, exit_code=max(exit_code_of(report), written.exit_code), notes=notes)


COMMAND = Command(
    slug="check",
    help="which backends take a workload on this machine, with the reason for each",
    add_arguments=_add_arguments,
    execute=_execute,
)
