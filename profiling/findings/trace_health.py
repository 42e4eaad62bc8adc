"""Did the trace keep everything that ran? Lost kernels make every total too small, without an error anywhere."""

from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_count
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace


def _judge(report: Report, trace: Trace | None) -> Outcome:
    health = report.trace_health
    if health is None:
        return NotEvaluated(reason="No trace was recorded.")
    counts = (
        f"{format_count(health.launches)} launches, {format_count(health.linked_kernels)} device items linked to one"
    )
    if health.status == "ok" and not health.launches and not health.linked_kernels:
        return Clear(explanation="The trace is whole; it holds no launch and no device item.")
    if health.status == "ok":
        return Clear(explanation=f"The trace is whole: {counts}, and nothing had to be repaired that matters.")
    evidence = tuple(
        Evidence(text=f"{problem.kind}, {format_count(problem.count)}×: {problem.example}")
        for problem in health.problems
    )
    unusable = health.status == "unusable"
    return Fired(
        severity="error" if unusable else "warning",
        explanation=(
            f"The trace is {health.status}: {counts}. "
            + ("No total can be taken from it." if unusable else "Counts and totals may be too small.")
        ),
        evidence=evidence,
        advice="Record again in a fresh process, with a synchronize before each step's end; compare the launch counts.",
    )


RULE = Rule(
    slug="trace_health",
    title="Trace health",
    source="Launches compared with device items by correlation; lost in pytorch/pytorch#192021, pytorch/kineto#996.",
    judge=_judge,
)
