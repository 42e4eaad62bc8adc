"""Does the host submit the call more slowly than the device runs it? Then a faster kernel changes nothing."""

from statistics import median

from profiling.clocks import device_clock, slower_side
from profiling.findings.facts import NO_STEPS
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.findings.sync_in_step import is_synchronisation
from profiling.format import format_comparison, format_duration, format_ratio, format_spread
from profiling.report_schema import Evidence, LatencySummary, Report
from profiling.trace.events import RuntimeCall, Trace

# The profiler slows the host: on an H200's host a profiled call took 1.4 to 3.8 times its un-profiled submission, over
# twelve backends (median of three steps each). What is host-bound beyond four times is so without the profiler too.
PROFILER_SLOWDOWN = 4.0
_ADVICE = "Capture the call in a CUDA graph, or give each call more work; a faster kernel alone will not help."


def _judge(report: Report, trace: Trace | None) -> Outcome:
    device, submission = device_clock(report), report.latency.submission
    if device is None:
        on_cpu = report.environment is not None and report.environment.device == "cpu"
        return NotEvaluated(
            reason="This ran on the CPU: host and device are one." if on_cpu else "Device time was not measured."
        )
    if submission is not None:
        return _judge_clocks(device, submission)
    if trace is None:
        return NotEvaluated(reason="Submission time was not measured.")
    return _judge_steps(trace, device)


def _judge_clocks(device: LatencySummary, submission: LatencySummary) -> Outcome:
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
        advice=_ADVICE,
    )


def _judge_steps(trace: Trace, device: LatencySummary) -> Outcome:
    """A bare trace has the host's time with the profiler's own in it: it decides only what that cannot change."""
    spans = _time_submissions(trace)
    if not spans:
        return NotEvaluated(reason=f"No step launches anything, so the host's time is not known. {NO_STEPS}")
    host_ns, device_ns = round(median(spans.values())), device.median_ns
    both = (
        f"Under the profiler the host takes {format_duration(host_ns)} a step to submit, its waits left out, and the "
        f"device {format_duration(device_ns)} to run"
    )
    if host_ns <= device_ns:
        return Clear(
            explanation=f"Device-bound: {both[0].lower()}{both[1:]}; without the profiler the host is faster still."
        )
    if host_ns < PROFILER_SLOWDOWN * device_ns:
        return NotEvaluated(
            reason=(
                f"{both}, but the profiler itself slows the host up to {format_ratio(PROFILER_SLOWDOWN)}; time the "
                "call without it to decide."
            )
        )
    slowest = max(spans, key=lambda step: spans[step])
    return Fired(
        severity="warning",
        explanation=(
            f"{both}: more than the {format_ratio(PROFILER_SLOWDOWN)} that the profiler's own slowdown explains, so "
            "the device waits for the host."
        ),
        evidence=(
            Evidence(
                text=f"{trace.steps[slowest].name}: {format_duration(spans[slowest])} to submit",
                items=tuple(item.index for item in trace.device_items if item.step == slowest),
            ),
            Evidence(text=f"device {format_duration(device_ns)}, {device.method}"),
        ),
        advice=_ADVICE,
    )


def _time_submissions(trace: Trace) -> dict[int, int]:
    """Step -> host time of its label, or until its last launch, without the calls that wait for the device."""
    ends: dict[int, int] = {}
    waits: dict[int, list[RuntimeCall]] = {}
    for call in trace.launches:
        if call.step is None:
            continue
        if call.launches_work:
            ends[call.step] = call.end_ns
        elif is_synchronisation(call.name):
            waits.setdefault(call.step, []).append(call)
    spans = {}
    for index, last_launch_ns in ends.items():
        step = trace.steps[index]
        labelled = step.label_start_ns is not None and step.label_end_ns is not None
        begin = step.label_start_ns if step.label_start_ns is not None and labelled else step.start_ns
        end = step.label_end_ns if step.label_end_ns is not None and labelled else last_launch_ns
        waited_ns = sum(call.duration_ns for call in waits.get(index, ()) if begin <= call.start_ns < end)
        spans[index] = max(end - begin - waited_ns, 0)
    return spans


def _shown(clock: LatencySummary) -> str:
    return f"{format_duration(clock.median_ns)} {format_spread(clock.iqr_ns, beside_ns=clock.median_ns)}"


RULE = Rule(
    slug="host_bound",
    title="Host-bound",
    source="Un-profiled clocks, or a trace's host time beyond the profiler's own: submission without its waits.",
    judge=_judge,
)
