"""The six questions to put to every profile, answered from one run's numbers, with what each answer rests on."""

from collections import Counter

from profiling.clocks import device_clock, slower_side, steady_clock
from profiling.format import (
    format_bytes,
    format_comparison,
    format_count,
    format_duration,
    format_items,
    format_share,
    format_spread,
)
from profiling.no_device import answer_without
from profiling.report_schema import Answer, LatencySummary, OperatorSummary, Report
from profiling.trace.events import Trace

REGION = "Which region was measured?"
WARM = "Was it warmed up?"
KERNEL = "Which kernel dominates self device time?"
OPERATOR = "Which operator dominates total time?"
COPIES_AND_GAPS = "Do copies or gaps appear on the device?"
CPU_WORK = "What work moved to the CPU?"

# CUPTI's names of copies that cross between host and device: "Memcpy HtoD (Pageable -> Device)".
_CROSSING = ("HtoD", "DtoH")


def build_answers(report: Report, trace: Trace | None) -> tuple[Answer, ...]:
    """The six answers, in order. Each says what is missing where this run has no number for it."""
    return (
        _region(report, trace),
        _warm(report, trace),
        _kernel(report, trace),
        _operator(report, trace),
        _copies_and_gaps(report, trace),
        _cpu_work(report, trace),
    )


def _region(report: Report, trace: Trace | None) -> Answer:
    if trace is None:
        return Answer(question=REGION, answer=_no_trace(report), evidence=_failures(report))
    if not trace.steps:
        return Answer(
            question=REGION,
            answer="The whole trace: no ProfilerStep span marks a step, so nothing is counted per step.",
            evidence=(f"{format_count(trace.event_count)} events, 0 ProfilerStep spans",),
        )
    labels = _label_names(trace)
    marked = f"the call in each is labelled {', '.join(labels)}" if labels else "no label marks the call inside"
    span = trace.steps[0].name.partition("#")[0]
    inside = f"each from its {span} span's start to its end, device work by its launch; {marked}"
    spans = [step.end_ns - step.start_ns for step in trace.steps]
    evidence = [
        f"{trace.steps[0].name} to {trace.steps[-1].name}, each {format_duration(min(spans))} to "
        f"{format_duration(max(spans))} of host time"
    ]
    if report.schedule is not None:
        evidence.append(
            f"schedule: wait {report.schedule.wait}, warm-up {report.schedule.warmup}, active {report.schedule.active}"
        )
    answer = f"{format_items(len(trace.steps), 'recorded step')}: {inside}."
    if report.device_time_per_step_ns is not None:
        answer += f" A step's device items add up to {format_duration(report.device_time_per_step_ns)}."
    return Answer(question=REGION, answer=answer, evidence=tuple(evidence))


def _warm(report: Report, trace: Trace | None) -> Answer:
    evidence: list[str] = []
    first_ns, steady = report.latency.first_call_ns, steady_clock(report)
    sentences: list[str] = []
    if first_ns is not None and steady is not None:
        name, clock = steady
        sentences.append(
            f"Yes: this run's first call, timed apart, took {format_duration(first_ns)}; later ones take "
            f"{format_duration(clock.median_ns)} {format_spread(clock.iqr_ns, beside_ns=clock.median_ns)} ({name})."
        )
        evidence.append(f"first call is {format_comparison(first_ns, clock.median_ns)} a later one")
        evidence.append(f"{name}: {clock.method}, {format_count(clock.count)} samples")
    elif first_ns is not None:
        sentences.append(f"Only the first call was timed: {format_duration(first_ns)}; no warm call was.")
    totals = _step_totals(trace)
    if len(totals) > 1 and min(totals) > 0:
        spread = (max(totals) - min(totals)) / min(totals)
        kind = "device" if trace is not None and trace.device_items else "host"
        sentences.append(f"The recorded steps differ by {format_share(spread)} in {kind} time from least to most.")
        evidence.append(f"{kind} time of each step: {', '.join(format_duration(total) for total in totals)}")
    if trace is not None and trace.steps:
        evidence.append(f"the first recorded step is {trace.steps[0].name}")
    if not sentences:
        unknown = "Not known: no first call was timed and no two recorded steps can be compared."
        sentences.append(_no_trace(report) if trace is None else unknown)
    elif first_ns is None:
        sentences.insert(0, "The trace does not say what ran before it.")
    return Answer(question=WARM, answer=" ".join(sentences), evidence=tuple(evidence))


def _kernel(report: Report, trace: Trace | None) -> Answer:
    kernels = [kernel for kernel in report.kernels if kernel.kind == "kernel"]
    if not kernels:
        reason = _no_trace(report) if trace is None else answer_without("kernel", "None", report)
        missing = () if trace is None else (f"0 kernels in {format_count(trace.event_count)} events",)
        return Answer(question=KERNEL, answer=reason, evidence=missing)
    top = max(kernels, key=lambda kernel: kernel.device_time_ns)
    others = len(kernels) - 1
    company = format_items(others, "other kernel") if others else "it is the only one"
    by = f", launched by {top.launched_by}" if top.launched_by else ""
    return Answer(
        question=KERNEL,
        answer=(
            f"{top.short_name} takes {format_share(top.share_of_device_time)} of device time, "
            f"{format_duration(top.mean_ns)} a call; {company}."
        ),
        evidence=(
            f"{format_items(top.calls, 'call')}, {format_duration(top.device_time_ns)} in all{by}: {top.description}",
            f"shortest {format_duration(top.min_ns)}, longest {format_duration(top.max_ns)}",
        ),
    )


def _operator(report: Report, trace: Trace | None) -> Answer:
    if not report.operators:
        reason = _no_trace(report) if trace is None else "Not known: the trace holds no operator."
        return Answer(question=OPERATOR, answer=reason, evidence=())
    top_cpu = max(report.operators, key=lambda operator: operator.cpu_time_ns)
    on_device = [operator for operator in report.operators if operator.device_time_ns]
    if not on_device:
        return Answer(
            question=OPERATOR,
            answer=f"{top_cpu.name} takes the most total CPU time, {_total(top_cpu.cpu_time_ns, top_cpu)}.",
            evidence=(_self_times(top_cpu), *_self_leader(report)),
        )
    top = max(on_device, key=lambda operator: operator.device_time_ns or 0)
    answer = f"{top.name} takes the most total device time, {_total(top.device_time_ns or 0, top)}"
    if top_cpu.name == top.name:
        answer += f", and the most total CPU time, {format_duration(top.cpu_time_ns)}."
    else:
        answer += f"; {top_cpu.name} takes the most total CPU time, {_total(top_cpu.cpu_time_ns, top_cpu)}."
    evidence = dict.fromkeys((_self_times(top), _self_times(top_cpu), *_self_leader(report)))
    return Answer(question=OPERATOR, answer=answer, evidence=tuple(evidence))


def _copies_and_gaps(report: Report, trace: Trace | None) -> Answer:
    if trace is None:
        return Answer(question=COPIES_AND_GAPS, answer=_no_trace(report), evidence=())
    if not trace.device_items:
        return Answer(
            question=COPIES_AND_GAPS,
            answer="There is no device activity to have copies or gaps.",
            evidence=(f"0 device items in {format_count(trace.event_count)} events",),
        )
    moves = [kernel for kernel in report.kernels if kernel.kind != "kernel"]
    evidence = [
        f"{kernel.short_name}: {format_items(kernel.calls, 'call')} of {format_bytes(kernel.bytes)}, "
        f"{format_share(kernel.share_of_device_time)} of device time"
        for kernel in moves
    ]
    counts = report.device_items_per_step
    if counts is not None:
        copies = f"{_moves(counts.memcpy, counts.memset)} a step"
    else:
        calls = Counter(item.kind for item in trace.device_items)
        copies = _moves(calls["memcpy"], calls["memset"])
    share = sum(kernel.share_of_device_time for kernel in moves)
    answer = f"{copies}{f', {format_share(share)} of device time' if moves else ''}."
    answer = answer[0].upper() + answer[1:]
    casts = [kernel for kernel in report.kernels if kernel.kind == "kernel" and kernel.role in ("cast", "copy")]
    if casts:
        answer += (
            f" Kernels that cast or copy take {format_share(sum(kernel.share_of_device_time for kernel in casts))}."
        )
        evidence += [f"{one.short_name}: {format_items(one.calls, 'call')}, {one.description}" for one in casts]
    activity = report.activity
    if activity is not None and activity.span_ns:
        region = "each step's" if trace.steps else "the trace's"
        span = f"{format_duration(activity.span_ns)} between {region} first and last device item"
        evidence.append(f"device busy for {format_duration(activity.busy_ns)} of {span}")
        if activity.idle_ns:
            idle = f"{format_duration(activity.idle_ns)} ({format_share(activity.idle_ns / activity.span_ns)})"
            answer += f" The device is idle for {idle} of the {span}."
        else:
            answer += f" There is no gap in the {span}."
        if activity.gaps:
            gap = max(activity.gaps, key=lambda gap: gap.duration_ns)
            evidence.append(f"longest gap {format_duration(gap.duration_ns)}, before {gap.before}")
    return Answer(question=COPIES_AND_GAPS, answer=answer, evidence=tuple(evidence))


def _cpu_work(report: Report, trace: Trace | None) -> Answer:
    if trace is not None and not trace.device_items:
        leaders = sorted(report.operators, key=lambda operator: -operator.self_cpu_time_ns)[:3]
        return Answer(
            question=CPU_WORK,
            answer=answer_without("device item", "All of it", report),
            evidence=tuple(_self_times(operator) for operator in leaders),
        )
    sentences: list[str] = []
    evidence: list[str] = []
    device, submission = device_clock(report), report.latency.submission
    if submission is not None and device is not None:
        sentences.append(_bound(device, submission))
        evidence += [f"{name}: {clock.method}" for name, clock in (("submission", submission), ("device", device))]
    if trace is not None:
        crossing = [
            item
            for item in trace.device_items
            if any(way in item.name for way in _CROSSING) and (item.step is not None or not trace.steps)
        ]
        if crossing:
            sizes = [item.bytes for item in crossing if item.bytes is not None]
            moved = format_bytes(sum(sizes) if len(sizes) == len(crossing) else None)
            copies = format_items(len(crossing), "copy", "copies")
            sentences.append(f"{copies} between host and device (size in all: {moved}).")
        else:
            sentences.append("No tensor crosses between host and device: the CPU only launches.")
        launches = Counter(
            call.name for call in trace.launches if call.launches_work and (call.step is not None or not trace.steps)
        )
        evidence += [f"{format_count(calls)} × {name}" for name, calls in launches.most_common(3)]
    if not sentences:
        return Answer(question=CPU_WORK, answer=_no_trace(report), evidence=())
    return Answer(question=CPU_WORK, answer=" ".join(sentences), evidence=tuple(evidence))


def _bound(device: LatencySummary, submission: LatencySummary) -> str:
    times = (
        f"{format_duration(submission.median_ns)} to submit the call against {format_duration(device.median_ns)} on "
        "the device"
    )
    slower = slower_side(device=device, submission=submission)
    if slower == "host":
        return f"The host needs {times}: the run is host-bound."
    if slower == "even":
        return f"The host needs {times}: even within the noise, so neither is the limit alone."
    return f"The host needs {times}: submission hides behind device work when calls follow each other."


def _no_trace(report: Report) -> str:
    refused = next((failure for failure in report.failures if failure.kind == "refused"), None)
    if refused is not None:
        return f"Nothing was measured: {report.requested_backend} refused this workload."
    if report.failures:
        last = report.failures[-1]
        return f"Not known: no trace was recorded, as the stage {last.stage} did not finish ({last.kind})."
    return "Not known: no trace was recorded."


def _failures(report: Report) -> tuple[str, ...]:
    return tuple(f"{failure.stage}: {failure.message}" for failure in report.failures)


def _label_names(trace: Trace) -> list[str]:
    starts = {step.label_start_ns for step in trace.steps if step.label_start_ns is not None}
    steps = {step.name for step in trace.steps}
    return sorted({note.name for note in trace.annotations if note.start_ns in starts and note.name not in steps})


def _step_totals(trace: Trace | None) -> list[int]:
    """Device time of each step, or the label's host time where nothing ran on a device."""
    if trace is None or not trace.steps:
        return []
    if trace.device_items:
        totals: Counter[int] = Counter()
        for item in trace.device_items:
            if item.step is not None:
                totals[item.step] += item.duration_ns
        return [totals[step.index] for step in trace.steps]
    return [
        step.label_end_ns - step.label_start_ns
        if step.label_start_ns is not None and step.label_end_ns is not None
        else step.end_ns - step.start_ns
        for step in trace.steps
    ]


def _moves(copies: float, sets: float) -> str:
    return f"{format_items(copies, 'memcpy', 'memcpy')} and {format_items(sets, 'memset', 'memset')}"


def _total(time_ns: int, operator: OperatorSummary) -> str:
    return f"{format_duration(time_ns)} in {format_items(operator.calls, 'call')}"


def _self_times(operator: OperatorSummary) -> str:
    device = (
        f", {format_duration(operator.self_device_time_ns)} self device time"
        if operator.self_device_time_ns is not None
        else ""
    )
    return f"{operator.name}: {format_duration(operator.self_cpu_time_ns)} self CPU time{device}"


def _self_leader(report: Report) -> tuple[str, ...]:
    leader = max(report.operators, key=lambda operator: operator.self_cpu_time_ns)
    return (f"most self CPU time: {leader.name}, {format_duration(leader.self_cpu_time_ns)}",)
