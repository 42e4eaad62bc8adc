"""The run in a dozen lines: what ran, what it cost, whether it was right. One wording for text and for markdown."""

from dataclasses import dataclass

from profiling.compilation import describe_compilation
from profiling.format import (
    NOT_RECORDED,
    format_bytes,
    format_count,
    format_duration,
    format_error,
    format_items,
    format_rate,
    format_ratio,
    format_share,
    format_spread,
)
from profiling.no_device import explain_no_device
from profiling.recording import Delta
from profiling.report_schema import LatencySummary, Report

VERDICT_WORDS = {"accepted": "takes it", "rejected": "refuses", "undetermined": "not known"}
VERDICT_MARKS = {"accepted": "✓", "rejected": "✗", "undetermined": "?"}
BASIS_WORDS = {"rule": "rule", "probe": "trial"}  # by rule: from shape, dtype and device; by trial: PyTorch was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One line of the headline; ``method`` says how the value was come by."""

    label: str
    value: str
    method: str = ""


def build_headline(report: Report) -> tuple[Fact, ...]:
    """The facts in reading order. What a brought trace cannot have (a workload, clocks) is left out, not guessed."""
    facts = [_backend_fact(report), *_time_facts(report), _items_fact(report)]
    if report.workload is not None:
        facts += [_memory_fact(report), _error_fact(report)]
    if report.roofline is not None:
        facts.append(_rate_fact(report))
    if report.compilation is not None:
        value = "; ".join(f"{name} {value}" for name, value in describe_compilation(report.compilation))
        facts.append(Fact(label="compilation", value=value, method=report.compilation.method))
    facts.append(_health_fact(report))
    if report.gpu_seconds is not None:
        value = format_duration(report.gpu_seconds * 1e9)
        facts.append(Fact(label="whole run", value=value, method="wall time from the inputs to the last check"))
    return tuple(facts)


def worst_delta(report: Report) -> Delta | None:
    """The tensor that is furthest from its reference, measured in its own budget; None when none was compared.

    A tensor outside its budget comes before any that is inside, also when no finite element could be compared.
    """
    if not report.correctness:
        return None
    return max(report.correctness, key=lambda delta: (delta.within_budget is False, _share_of_budget(delta) or 0.0))


def _backend_fact(report: Report) -> Fact:
    observed = report.observed_backend
    if observed is None:
        seen, method = NOT_RECORDED, ""
    else:
        seen, method = f"{observed.family} ({observed.confidence})", "; ".join(observed.evidence)
    if report.requested_backend is None:
        return Fact(label="backend", value=f"observed {seen}", method=method)
    predicted = report.predicted_backend or "none (refused or undetermined)"
    value = f"requested {report.requested_backend} → predicted {predicted} → observed {seen}"
    return Fact(label="backend", value=value, method=method)


def _time_facts(report: Report) -> list[Fact]:
    latency, facts = report.latency, []
    if latency.device is not None:
        facts.append(_clock_fact("device time", latency.device))
    if report.device_time_per_step_ns is not None:
        value = format_duration(report.device_time_per_step_ns)
        method = "sum of one step's device items in the trace, mean over the recorded steps"
        facts.append(Fact(label="device time in the trace", value=value, method=method))
    if not facts and report.environment is not None:
        on_cpu = report.environment.device == "cpu" and latency.wall is not None
        why = "this ran on the CPU" if on_cpu else "no device clock ran"
        facts.append(Fact(label="device time", value=NOT_RECORDED, method=why))
    facts += [
        _clock_fact(label, clock)
        for label, clock in (("submission time", latency.submission), ("wall time", latency.wall))
        if clock is not None
    ]
    if latency.first_call_ns is not None:
        value, method = (
            format_duration(latency.first_call_ns),
            "wall time of this run's first call, in a process that may have run others; in no median",
        )
        facts.append(Fact(label="first call", value=value, method=method))
    return facts


def _clock_fact(label: str, clock: LatencySummary) -> Fact:
    spread = format_spread(clock.iqr_ns, beside_ns=clock.median_ns)
    caches = f", L2 {clock.l2}" if clock.l2 else ""
    method = f"median ± half the IQR of {format_count(clock.count)} samples; {clock.method}{caches}"
    return Fact(label=label, value=f"{format_duration(clock.median_ns)} {spread}", method=method)


def _items_fact(report: Report) -> Fact:
    items, label = report.device_items_per_step, "device items a step"
    if items is None:
        return Fact(label=label, value=NOT_RECORDED, method=why_not_counted(report))
    kernels = f"{format_count(items.kernels)} {'kernel' if items.kernels == 1 else 'kernels'}"
    value = f"{kernels}, {format_count(items.memcpy)} memcpy, {format_count(items.memset)} memset"
    return Fact(label=label, value=value, method=f"by correlation inside {format_items(report.steps_recorded, 'step')}")


def why_not_counted(report: Report) -> str:
    """Why there are no device items a step: no step to count by is not the same as no device item."""
    if report.trace_health is None:
        return "no trace was recorded"
    if report.kernels:
        calls = sum(kernel.calls for kernel in report.kernels)
        return f"no ProfilerStep span marks a step in this trace; {format_items(calls, 'device item')} in all of it"
    return f"no device activity was recorded; {explain_no_device(report)}"


def _memory_fact(report: Report) -> Fact:
    memory, label = report.memory, "peak memory"
    if memory is None:
        return Fact(label=label, value=NOT_RECORDED)
    parts = f"inputs {format_bytes(memory.inputs_bytes)}, output {format_bytes(memory.output_bytes)}"
    if report.paging is not None:
        parts += f", cache of blocks {format_bytes(report.paging.cache_bytes)}"
    method = f"this device keeps no count; {parts}"
    if memory.peak_bytes is not None:
        beside = format_bytes(memory.materialized_bytes)
        method = f"device bytes of one call without the profiler: {parts}, besides these {beside}"
    return Fact(label=label, value=format_bytes(memory.peak_bytes), method=method)


def _error_fact(report: Report) -> Fact:
    delta, label = worst_delta(report), "worst error"
    if delta is None:
        return Fact(label=label, value=NOT_RECORDED, method="correctness was not checked")
    share = _share_of_budget(delta)
    against = (
        "not judged" if share is None else f"{format_ratio(share)} its budget of {format_error(delta.error_budget)}"
    )
    verdict = {True: "within budget", False: "OUTSIDE its budget", None: ""}[delta.within_budget]
    value = f"{format_error(delta.max_abs_error)} ({delta.tensor}), {against}{f', {verdict}' if verdict else ''}"
    return Fact(label=label, value=value, method=f"against {delta.reference}; budget: {delta.budget_basis}")


def _share_of_budget(delta: Delta) -> float | None:
    if delta.max_abs_error is None or not delta.error_budget:
        return None
    return delta.max_abs_error / delta.error_budget


def _rate_fact(report: Report) -> Fact:
    assert report.roofline is not None
    roofline = report.roofline
    flops, traffic = format_rate(roofline.achieved_flops_per_s, "FLOP"), format_rate(roofline.achieved_bytes_per_s, "B")
    value = f"{flops}, {traffic}"
    if roofline.share_of_ceiling is not None:
        value += f", {format_share(roofline.share_of_ceiling)} of the {roofline.bound} ceiling"
    rates = "FLOPs as the report counts them, and the least bytes that a call must move, over device time"
    method = f"{rates}; ceiling modelled from: {roofline.ceiling_source or NOT_RECORDED}"
    return Fact(label="achieved rates", value=value, method=method)


def _health_fact(report: Report) -> Fact:
    health, label = report.trace_health, "trace health"
    if health is None:
        return Fact(label=label, value="no trace was recorded")
    problems = "; ".join(f"{problem.kind} × {format_count(problem.count)}" for problem in health.problems)
    value = f"{health.status}: {problems}" if problems else health.status
    launches, linked = (
        format_items(health.launches, "launch", "launches"),
        format_items(health.linked_kernels, "device item"),
    )
    method = f"{launches} on the host, {linked} linked"
    return Fact(label=label, value=value, method=method)
