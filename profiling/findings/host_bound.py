"""Does the host submit the call more slowly than the device runs it? Then a faster kernel changes nothing."""

from profiling.clocks import device_clock, slower_side
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_comparison, format_duration, format_spread
from profiling.report_schema import Evidence, LatencySummary, Report
from profiling.trace.events import Trace


def _judge(report: Report, trace: Trace | None) -> Outcome:
    device, submission = device_clock(report), report.latency.submission
    if device is None:
        on_cpu = report.environment is not None and report.environment.device == "cpu"
        return NotEvaluated(
            reason="This ran on the CPU: host and device are one." if on_cpu else "Device time was not measured."
        )
    if submission is None:
        return NotEvaluated(reason="Submission time was not measured.")
    both = f"{_shown(submission)} to submit and {_shown(device)} to run"
    slower = slower_side(device=device, submission=submission)
    if slower != "host":
        found = "Device-bound" if slower == "device" else "Even within the noise"
        return Clear(explanation=f"{found}: the call takes {both}.")
    return Fired(
        severity="warning",
        explanation=(
            f"The call takes {both}: submitting is {format_comparison(submission.median_ns, device.median_ns)} "
            "running, so the device waits for the host."
        ),
        evidence=(
            Evidence(text=f"submission {_shown(submission)}, {submission.count} samples, {submission.method}"),
            Evidence(text=f"device {_shown(device)}, {device.count} samples, {device.method}"),
        ),
        advice="Capture the call in a CUDA graph, or give each call more work; a faster kernel alone will not help.",
    )


def _shown(clock: LatencySummary) -> str:
    return f"{format_duration(clock.median_ns)} {format_spread(clock.iqr_ns, beside_ns=clock.median_ns)}"


RULE = Rule(
    slug="host_bound",
    title="Host-bound",
    source="Un-profiled clocks: submission is host time without waiting; device time excludes launch gaps.",
    judge=_judge,
)
