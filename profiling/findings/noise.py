"""Is the spread too large to rank this run? A difference inside it says nothing."""

from statistics import median

from profiling.findings.facts import NO_DEVICE_ITEMS
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_count, format_duration, format_share
from profiling.report_schema import Evidence, LatencySummary, Report
from profiling.trace.events import Trace

# Interquartile range over the median. H200 runs of every backend here have 0.1 to 1.8 % on the device and up to 17 % on
# the wall clock, where the host takes part.
# Source of the two limits: torch.utils.benchmark.Measurement, which warns at 10 % and 25 %.
SHOWN_SPREAD = 0.10
LOUD_SPREAD = 0.25
_FEWEST_STEPS = 3


def _judge(report: Report, trace: Trace | None) -> Outcome:
    latency = report.latency
    clock = latency.device or latency.wall
    if clock is not None:
        return _judge_clock("device" if latency.device else "wall", clock)
    if trace is None:
        return NotEvaluated(reason="No clock ran and no trace was recorded.")
    return _judge_steps(trace)


def _judge_clock(name: str, clock: LatencySummary) -> Outcome:
    if clock.median_ns <= 0:
        return NotEvaluated(reason=f"The {name} clock's median is 0, so no share of it can be taken.")
    spread = clock.iqr_ns / clock.median_ns
    shown = (
        f"The {name} clock's interquartile range is {format_share(spread)} of its median "
        f"({format_duration(clock.median_ns)}, {format_count(clock.count)} samples)"
    )
    if spread < SHOWN_SPREAD:
        return Clear(explanation=f"{shown}: differences above that can be ranked.")
    return Fired(
        # The wall clock has the whole machine in it, and a CPU is seldom a run's own.
        severity="warning" if spread >= LOUD_SPREAD and name == "device" else "info",
        explanation=f"{shown}: a difference smaller than that cannot be ranked.",
        evidence=(
            Evidence(
                text=(
                    f"{name}: {format_duration(clock.p10_ns)} (p10), {format_duration(clock.median_ns)} (median), "
                    f"{format_duration(clock.p90_ns)} (p90), {clock.method}"
                )
            ),
        ),
        advice=_ADVICE,
    )


def _judge_steps(trace: Trace) -> Outcome:
    """A bare trace: device time of its steps, which are few, so that their range stands for the spread."""
    shown: list[list[int]] = [[] for _ in trace.steps]
    totals = [0] * len(trace.steps)
    for item in trace.device_items:
        if item.step is not None:
            shown[item.step].append(item.index)
            totals[item.step] += item.duration_ns
    if trace.steps and not trace.device_items:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    if not any(totals) or len(totals) < _FEWEST_STEPS:
        return NotEvaluated(
            reason=(
                f"The trace has fewer than {format_count(_FEWEST_STEPS)} steps with device items; record with "
                f"schedule(active={_FEWEST_STEPS}) or more."
            )
        )
    if len(set(map(len, shown))) > 1:
        return NotEvaluated(
            reason=(
                f"The steps run {format_count(min(map(len, shown)))} to {format_count(max(map(len, shown)))} device "
                "items, so they are not repetitions of one another; record steps of the same work."
            )
        )
    middle = median(totals)
    spread = (max(totals) - min(totals)) / middle if middle else float("inf")
    explanation = (
        f"Device time differs by {format_share(spread)} of its median ({format_duration(middle)}) between the "
        f"{format_count(len(totals))} steps"
    )
    if spread < SHOWN_SPREAD:
        return Clear(explanation=f"{explanation}: differences above that can be ranked.")
    slowest = max(range(len(totals)), key=lambda step: totals[step])
    return Fired(
        severity="warning" if spread >= LOUD_SPREAD else "info",
        explanation=f"{explanation}: a difference smaller than that cannot be ranked.",
        evidence=(
            Evidence(
                text=f"{trace.steps[slowest].name} takes {format_duration(totals[slowest])}",
                items=tuple(shown[slowest]),
            ),
        ),
        advice=_ADVICE,
    )


_ADVICE = (
    "Lock the clocks or wait until they settle, keep the device to yourself, take more samples, and interleave what "
    "you compare."
)

RULE = Rule(
    slug="noise",
    title="Noise too large to rank",
    source="Spread of the un-profiled clocks, or of the trace's steps; limits of torch.utils.benchmark.",
    judge=_judge,
)
