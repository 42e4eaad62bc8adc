"""Is a run's first call far slower than later ones? The first in a process pays for loading, planning, compiling."""

from profiling.clocks import steady_clock
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_comparison, format_duration
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace

# On an H200 the first calls took 13 ms (flash) to 682 ms (cuDNN's plan), 100 times and more the later ones, and on a
# CPU a few times: ten times is above the jitter of a warm call and below every start-up cost seen.
START_UP_RATIO = 10.0


def _judge(report: Report, trace: Trace | None) -> Outcome:
    first_ns = report.latency.first_call_ns
    if first_ns is None:
        return NotEvaluated(reason="The first call was not timed.")
    steady = steady_clock(report)
    if steady is None:
        return NotEvaluated(reason="No later call was timed to compare the first one with.")
    name, clock = steady
    compared = (
        f"This run's first call took {format_duration(first_ns)}, {format_comparison(first_ns, clock.median_ns)} a "
        f"later one ({format_duration(clock.median_ns)}, {name})"
    )
    if clock.median_ns <= 0 or first_ns / clock.median_ns < START_UP_RATIO:
        return Clear(
            explanation=f"{compared}: no start-up cost stands out. A process that ran such a call before has paid it."
        )
    return Fired(
        severity="info",
        explanation=f"{compared}: start-up, paid once a process and left out of every other number here.",
        evidence=(
            Evidence(text=f"first call {format_duration(first_ns)}, timed apart"),
            Evidence(text=f"later calls {format_duration(clock.median_ns)}, median of {clock.count}, {clock.method}"),
        ),
        advice="Call once before you time or serve; a process that lives for one call pays this every time.",
    )


RULE = Rule(
    slug="first_call",
    title="First call",
    source="The run's first call timed apart from the warm ones; the process may have run others before.",
    judge=_judge,
)
