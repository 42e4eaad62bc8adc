"""Did anything run on a device at all? Without device items every number is the CPU's."""

from profiling.findings.facts import TraceFacts
from profiling.findings.rule import Clear, Fired, Outcome, TraceRule
from profiling.format import format_count, format_duration, format_items
from profiling.no_device import explain_no_device
from profiling.report_schema import Evidence, Report

SHOWN_OPERATORS = 3


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    trace = facts.trace
    if trace.device_items:
        return Clear(explanation=f"{format_items(len(trace.device_items), 'device item')} in the trace.")
    device = report.environment.device if report.environment else None
    launches = tuple(call for call in trace.launches if call.launches_work)
    if device == "cuda" or launches:
        were = "launch was" if len(launches) == 1 else "launches were"
        besides = f", though {format_count(len(launches))} {were}" if launches else ""
        return Fired(
            severity="error",
            explanation=(
                f"No device item was recorded{besides}: "
                "the profiler did not see the GPU, so nothing here says what ran on it."
            ),
            evidence=tuple(Evidence(text=f"launch {call.name} without a device item") for call in launches[:1]),
            advice="Check that the profiler may use CUPTI in this process (driver, permissions), then record again.",
        )
    busiest = sorted(report.operators, key=lambda operator: -operator.self_cpu_time_ns)[:SHOWN_OPERATORS]
    total_ns = sum(operator.self_cpu_time_ns for operator in report.operators)
    window = format_items(report.steps_recorded, "recorded step") if trace.steps else "the whole trace"
    return Fired(
        severity="info",
        explanation=(
            f"No device item was recorded: {explain_no_device(report)}. The operators took "
            f"{format_duration(total_ns)} of self CPU time in {window}."
        ),
        evidence=tuple(
            Evidence(
                text=f"{operator.name}: {format_duration(operator.self_cpu_time_ns)} self CPU time",
                operators=tuple(op.index for op in facts.named(operator.name)),
            )
            for operator in busiest
        ),
        advice=(
            "Read the operators instead of the kernels; to see kernels, run on a GPU and record with "
            "ProfilerActivity.CUDA among the activities."
        ),
    )


RULE = TraceRule(
    slug="device_activity",
    title="Work on the CPU",
    source="Device items and launches of the trace.",
    judge=_judge,
)
