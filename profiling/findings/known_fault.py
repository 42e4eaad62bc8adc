"""A fault of a library that this workload is known to meet, beside what the deltas of this run say."""

from attention.known_faults import find_known_faults
from attention.workload import Workload
from profiling.environment import build_device_facts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace


def _judge(report: Report, trace: Trace | None) -> Outcome:
    if not isinstance(report.workload, Workload) or report.environment is None:
        return NotEvaluated(reason="A trace alone does not say what was asked for, or where.")
    faults = find_known_faults(report.workload, build_device_facts(report.environment))
    if not faults:
        return Clear(explanation="No known fault of this backend fits this workload and device.")
    return Fired(
        severity="warning",
        explanation=" ".join(f"{fault.explanation}." for fault in faults) + f" {_what_happened(report)}",
        evidence=tuple(Evidence(text=f"seen: {fault.seen}") for fault in faults),
        advice=" ".join(fault.advice for fault in faults),
    )


def _what_happened(report: Report) -> str:
    wrong = [delta.tensor for delta in report.correctness if delta.within_budget is False]
    if wrong:
        return f"This run met it: {', '.join(wrong)} outside the budget."
    return "This run did not meet it." if report.correctness else "This run was not judged."


RULE = Rule(
    slug="known_fault",
    title="Known fault of the library",
    source="measured with this app where a GPU and versions are named, else the report that is named",
    judge=_judge,
    of_attention=True,
)
