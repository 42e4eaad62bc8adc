"""Is what ran what was asked for? Requested, predicted and observed are three facts; this rule compares them."""

from dataclasses import replace

from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.observed import expected_families
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace


def _judge(report: Report, trace: Trace | None) -> Outcome:
    if report.workload is None:
        return NotEvaluated(reason="The trace does not say which backend was asked for.")
    observed = report.observed_backend
    if observed is None:
        return NotEvaluated(reason="No trace was recorded, so what ran is not known.")
    if observed.confidence == "unknown":
        return NotEvaluated(reason=f"The trace names no single backend: {observed.evidence[0]}.")
    requested, predicted = report.workload.backend, report.predicted_backend
    expected = expected_families(report.workload)
    if not expected:
        return NotEvaluated(
            reason=f"{requested} is not a backend of this catalogue, so what it should show is not known."
        )
    shown = f"{observed.family} ({observed.confidence})"
    evidence = tuple(Evidence(text=text) for text in observed.evidence)
    if observed.family not in expected:
        return Fired(
            severity="error",
            explanation=f"{requested} was asked for, but the trace shows {shown}: these numbers are not {requested}'s.",
            evidence=evidence,
            advice="Do not compare these numbers; check that nothing changed the pinned backend around the call.",
        )
    if predicted is None or predicted == requested:
        return Clear(explanation=f"{requested} was asked for and {shown} ran.")
    promised = expected_families(replace(report.workload, backend=predicted))
    if observed.family in promised:
        return Clear(explanation=f"{requested} was predicted to choose {predicted}, and {shown} ran.")
    return Fired(
        severity="warning",
        explanation=(f"{requested} was predicted to choose {predicted}, but {shown} ran."),
        evidence=evidence,
        advice=f"Pin {predicted} to measure it; the choice belongs to this torch build and device.",
    )


RULE = Rule(
    slug="backend_match",
    title="Requested and observed backend",
    source="Operator and kernel names in the trace against the workload and PyTorch's eligibility checks.",
    judge=_judge,
)
