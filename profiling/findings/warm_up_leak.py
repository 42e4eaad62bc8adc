"""Does work of the warm-up run inside the recorded steps? It was queued before them and would be counted with them."""

from profiling.findings.facts import NO_DEVICE_ITEMS, NO_STEPS, TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_count, format_duration, format_items
from profiling.report_schema import Report
from profiling.trace.health import split_outsiders


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.device_items:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    if not facts.trace.steps:
        return NotEvaluated(reason=NO_STEPS)
    leaked, _ = split_outsiders(facts.trace)
    if not leaked:
        return Clear(explanation="No work from before the first step runs inside the steps.")
    time_ns = sum(item.duration_ns for item in leaked)
    return Fired(
        severity="warning",
        explanation=(
            f"Launched before the steps' window but run inside it: {format_items(len(leaked), 'device item')} "
            f"({format_duration(time_ns)}). The numbers here leave that out, yet it kept the device busy: "
            f"{format_count(len(facts.items) + len(leaked))} items in the window, {format_count(len(facts.items))} "
            "launched in its steps."
        ),
        evidence=(build_item_evidence(f"{format_items(len(leaked), 'item')} of the warm-up", leaked),),
        advice="Synchronise before profiler.step(), at least before the first recorded step, and record again.",
    )


RULE = TraceRule(
    slug="warm_up_leak",
    title="Warm-up leak",
    source="Items by the time of their launch: 17 kernels in a window of 15 launches were seen without a synchronize.",
    judge=_judge,
)
