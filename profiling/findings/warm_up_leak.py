"""Does work of the warm-up run inside the recorded steps? It was queued before them and would be counted with them."""

from profiling.findings.facts import NO_DEVICE_ITEMS, NO_STEPS, TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_count, format_duration
from profiling.report_schema import Report
from profiling.trace.events import DeviceItem


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.device_items:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    if not facts.trace.steps:
        return NotEvaluated(reason=NO_STEPS)
    leaked = find_leaked(facts)
    if not leaked:
        return Clear(explanation="No work from before the first step runs inside the steps.")
    time_ns = sum(item.duration_ns for item in leaked)
    return Fired(
        severity="warning",
        explanation=(
            f"{format_count(len(leaked))} device items ({format_duration(time_ns)}) run inside the steps' window but "
            f"were launched before it; the numbers here leave them out, yet they kept the device busy: "
            f"{format_count(len(facts.items) + len(leaked))} items in the window, {format_count(len(facts.items))} "
            "launched in its steps."
        ),
        evidence=(build_item_evidence(f"{format_count(len(leaked))} items of the warm-up", leaked),),
        advice="Synchronise before profiler.step(), at least before the first recorded step, and record again.",
    )


def find_leaked(facts: TraceFacts) -> list[DeviceItem]:
    """Items of no step that run before their stream's first counted item, as the trace's health counts them."""
    steps = facts.trace.steps
    begin, end = steps[0].start_ns, max(step.end_ns for step in steps)
    started: set[tuple[int | None, int | None]] = set()
    leaked = []
    for item in facts.trace.device_items:
        stream = (item.device, item.stream)
        if item.step is not None:
            started.add(stream)
        elif stream not in started and item.start_ns < end and (item.launch is None or item.end_ns > begin):
            leaked.append(item)
    return leaked


RULE = TraceRule(
    slug="warm_up_leak",
    title="Warm-up leak",
    source="Items by the time of their launch: 17 kernels in a window of 15 launches were seen without a synchronize.",
    judge=_judge,
)
