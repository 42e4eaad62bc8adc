"""Do tiny kernels follow each other? Each costs a launch and a pass over memory; fused they would be one."""

from profiling.findings.facts import NO_DEVICE_ITEMS, TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_count, format_duration, format_share
from profiling.report_schema import Report
from profiling.trace.events import DeviceItem

# A launch takes the host 3 to 21 µs under the profiler on an H200's host and 2 to 5 without: a kernel of less than 5
# costs about as much to launch as to run, or more.
TINY_NS = 5_000
# Two in a row are every memset before its kernel.
SHORTEST_RUN = 3
# The five that build the mask of SDPA's math path hold 4 % of its step; a quarter is a step made of them.
LOUD_SHARE = 0.25


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    activity = report.activity
    if activity is None or not activity.span_ns:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    runs = _find_runs(facts)
    if not runs:
        return Clear(
            explanation=(
                f"Nowhere do {format_count(SHORTEST_RUN)} kernels of less than {format_duration(TINY_NS)} follow each "
                "other on one stream."
            )
        )
    count = sum(map(len, runs))
    held_ns = sum(run[-1].end_ns - run[0].start_ns for run in runs)
    work_ns = sum(item.duration_ns for run in runs for item in run)
    share = held_ns / activity.span_ns
    longest = max(runs, key=len)
    return Fired(
        severity="warning" if share >= LOUD_SHARE else "info",
        explanation=(
            f"{facts.per_step(count, 'kernel')} of less than {format_duration(TINY_NS)} in rows of up to "
            f"{format_count(len(longest))}: they work {facts.time_per_step(work_ns)} "
            f"and hold the device for {facts.time_per_step(held_ns)}, {format_share(share)} of the time from first to "
            "last item."
        ),
        evidence=(
            build_item_evidence(f"the longest row: {format_count(len(longest))} kernels", longest),
            build_item_evidence(f"all {format_count(count)}", [item for run in runs for item in run]),
        ),
        advice="To fuse: torch.compile makes one kernel of pointwise neighbours, a CUDA graph saves their launches.",
    )


def _find_runs(facts: TraceFacts) -> list[list[DeviceItem]]:
    """Rows of tiny kernels of one step on one stream, with no other item between."""
    open_runs: dict[tuple[int | None, int | None], list[DeviceItem]] = {}
    runs: list[list[DeviceItem]] = []
    for item in facts.items:
        stream = (item.device, item.stream)
        run = open_runs.get(stream)
        tiny = item.kind == "kernel" and item.duration_ns < TINY_NS
        if run and (not tiny or run[-1].step != item.step):
            runs.append(open_runs.pop(stream))
            run = None
        if tiny:
            open_runs.setdefault(stream, []).append(item)
    runs += open_runs.values()
    return [run for run in runs if len(run) >= SHORTEST_RUN]


RULE = TraceRule(
    slug="tiny_kernels",
    title="Tiny kernels in a row",
    source="Durations of neighbours on one stream, against what a launch costs the host.",
    judge=_judge,
)
