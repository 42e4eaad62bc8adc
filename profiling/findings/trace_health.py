"""Did the trace keep everything that ran? Lost kernels make every total too small, without an error anywhere."""

from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_count, format_items
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace, TraceHealth
from profiling.trace.problems import EMPTY, HARMLESS_REPAIRS, OVERLAP


def _judge(report: Report, trace: Trace | None) -> Outcome:
    health = report.trace_health
    if health is None:
        return NotEvaluated(reason="No trace was recorded.")
    launches = format_items(health.launches, "launch", "launches")
    counts = f"{launches}, {format_items(health.linked_kernels, 'device item')} linked to one"
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
            + (
                "No total can be taken from it."
                if unusable
                else "Counts and totals may be too small, or hold something twice."
            )
        ),
        evidence=evidence,
        advice=_advise(health),
    )


def _advise(health: TraceHealth) -> str:
    kinds = {problem.kind for problem in health.problems} - HARMLESS_REPAIRS
    if EMPTY in kinds:
        return (
            "Call profiler.step() after each iteration, wait + warmup + active times before the export. The profiler "
            "keeps its last cycle alone: give the schedule repeat=1, so that no new one begins."
        )
    if kinds == {OVERLAP}:
        return (
            "Read the device's busy time, which counts shared time once, beside the sum of durations. Kernels that "
            "start early by design are no fault, and another recording will show them again."
        )
    return "Record again in a fresh process, with a synchronize before each step's end; compare the launch counts."


RULE = Rule(
    slug="trace_health",
    title="Trace health",
    source="Launches compared with device items by correlation; lost in pytorch/pytorch#192021, pytorch/kineto#996.",
    judge=_judge,
)
