"""Why does the device stand still inside a step? It waits for the host, for a synchronisation, or for its own queue."""

from bisect import bisect_right
from typing import Literal

from profiling.findings.facts import NO_DEVICE_ITEMS, TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.findings.sync_in_step import find_synchronisations
from profiling.format import format_duration, format_items, format_share
from profiling.report_schema import Activity, Evidence, Gap, Report
from profiling.trace.events import DeviceItem, RuntimeCall

Cause = Literal["host wait", "sync", "kernel wait", "unknown"]

# Of the H200 runs of the tests, whole steps of many kernels stand still for 2 to 9 %, and one short cuDNN kernel after
# its memset for 21 to 30 %. Half is far above either. Waits for the host are not among it: the profiler makes them
# longer, and whether they stay without it is the host-bound rule's question.
LOUD_SHARE = 0.5
SHOWN_SHARE = 0.1
# The profiler slows the host down but not a synchronisation's cost to the device: what it leaves idle is real.
LOUD_SYNC_SHARE = 0.1
_SHOWN_GAPS = 5

_MEANING: dict[Cause, str] = {
    "host wait": "the host had not launched the next item yet",
    "sync": "the host had waited for the device before it launched the next item",
    "kernel wait": "the next item was queued already: launch latency, or another stream's work",
    "unknown": "the next item has no launch in the trace",
}
_ADVICE: dict[Cause, str] = {
    "host wait": "Launch ahead: capture the step in a CUDA graph, compile it, or give each kernel more work.",
    "sync": "Remove the synchronisation (.item(), .cpu(), print of a tensor, nonzero) from the step.",
    "kernel wait": "Look at dependencies between streams; gaps of about 1 µs after each kernel are the device's own.",
    "unknown": "Record again: launches are missing.",
}


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    activity = report.activity
    if activity is None or not activity.span_ns:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    share = activity.idle_ns / activity.span_ns
    idle = f"The device stands still for {format_share(share)} of {format_duration(activity.span_ns)}"
    if not activity.gaps:
        return Clear(explanation=f"{idle}, the time from each step's first item to its last.")
    causes = _find_causes(activity, facts)
    totals: dict[Cause, int] = {}
    for gap, cause, _ in causes:
        totals[cause] = totals.get(cause, 0) + gap.duration_ns
    parts = "; ".join(
        f"{cause} {format_duration(total)} ({_MEANING[cause]})"
        for cause, total in sorted(totals.items(), key=lambda pair: -pair[1])
    )
    explanation = f"{idle}, in {format_items(len(causes), 'gap')}. {parts[0].upper()}{parts[1:]}."
    by_sync = totals.get("sync", 0) / activity.span_ns
    if share < SHOWN_SHARE and by_sync < LOUD_SYNC_SHARE:
        return Clear(explanation=explanation)
    by_device = (activity.idle_ns - totals.get("host wait", 0)) / activity.span_ns
    main = max(totals, key=lambda cause: totals[cause])
    return Fired(
        severity="warning" if by_device >= LOUD_SHARE or by_sync >= LOUD_SYNC_SHARE else "info",
        explanation=explanation,
        evidence=tuple(
            Evidence(
                text=f"{format_duration(gap.duration_ns)} before {gap.before}: {cause}",
                items=() if item is None else (item.index,),
                operators=() if item is None or item.operator is None else (item.operator,),
            )
            for gap, cause, item in sorted(causes, key=lambda found: -found[0].duration_ns)[:_SHOWN_GAPS]
        ),
        advice=_ADVICE["sync" if by_sync >= LOUD_SYNC_SHARE else main],
    )


def _find_causes(activity: Activity, facts: TraceFacts) -> list[tuple[Gap, Cause, DeviceItem | None]]:
    """Each gap with its cause and the item that ends it.

    As HolisticTraceAnalysis divides idle time, with the host's own waiting told apart.
    """
    ending = {(item.step, item.start_ns): item for item in reversed(facts.items) if item.duration_ns}
    waits = find_synchronisations(facts)
    ends = [call.end_ns for call in waits]
    found: list[tuple[Gap, Cause, DeviceItem | None]] = []
    for gap in activity.gaps:
        item = ending.get((gap.step, gap.start_ns + gap.duration_ns))
        launch = None if item is None or item.launch is None else facts.trace.launches[item.launch]
        found.append((gap, _name_cause(gap, launch, waits, ends), item))
    return found


def _name_cause(gap: Gap, launch: RuntimeCall | None, waits: list[RuntimeCall], ends: list[int]) -> Cause:
    if launch is None:
        return "unknown"
    if launch.start_ns <= gap.start_ns:
        return "kernel wait"
    last = bisect_right(ends, launch.start_ns) - 1
    # The wait that ended last before the launch, if it was still on when the device ran dry.
    return "sync" if last >= 0 and ends[last] >= gap.start_ns else "host wait"


RULE = TraceRule(
    slug="idle_gaps",
    title="Idle gaps",
    source="Each gap against the launch of the item after it, as HolisticTraceAnalysis breaks idle time down.",
    judge=_judge,
)
