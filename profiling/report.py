"""A recording or a bare trace, turned into the report. No torch, no GPU, milliseconds."""

from dataclasses import dataclass, replace

from attention.backends import BACKENDS
from attention.kinds import AnyWorkload, kind_of
from profiling.answers import build_answers
from profiling.findings import evaluate_rules
from profiling.measured_unlocks import build_measured_unlocks
from profiling.observed import build_observed_backend
from profiling.recording import Failure, Latency, LedgerEntry, Recording, UnreadableRecording, parse_recording
from profiling.report_schema import Cost, LatencyReport, Report
from profiling.roofline import build_roofline
from profiling.statistics import (
    build_activity,
    build_kernel_summaries,
    build_operator_summaries,
    count_items_per_step,
    device_time_per_step_ns,
    summarize_samples,
    unattributed_device_time_ns,
)
from profiling.trace import read_trace
from profiling.trace.events import Trace
from profiling.trace.health import build_health
from profiling.trace.problems import InvalidTrace, TooLarge


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What a panel, the command line or an export may show. ``trace`` None: none was recorded or none could be read."""

    recording: Recording
    trace: Trace | None
    report: Report


def analyze_recording(recording: Recording) -> Analysis:
    """The analysis of a recording, whole or partial. A trace that cannot be read becomes a Failure; the rest stands."""
    trace = None
    if recording.trace_gz is not None:
        try:
            trace = read_trace(recording.trace_gz, label=recording.label)
        except InvalidTrace as problem:
            failure = Failure(
                stage="profile",
                kind="error",
                message=f"The recorded trace could not be read: {problem}",
                hint="Run again; the timing and correctness of this run do not depend on the trace.",
            )
            recording = replace(recording, failures=(*recording.failures, failure))
    return Analysis(recording=recording, trace=trace, report=build_report(recording, trace))


def analyze_trace(data: bytes, label: str = "attn_fwd") -> Analysis:
    """The analysis of a trace that someone brings, as JSON or gzipped JSON. It knows no workload, clocks or memory.

    Raises:
        InvalidTrace: the bytes are not a trace.
    """
    recording = Recording(label=label, trace_gz=data)
    trace = read_trace(data, label=label)
    return Analysis(recording=recording, trace=trace, report=build_report(recording, trace))


def analyze_file(data: bytes, label: str | None = None) -> Analysis:
    """The analysis of a file that someone brings: a profiler trace, or a recording that this app wrote.

    ``label`` names the span around each call; None: the default of a trace, a recording's own.

    Raises:
        InvalidTrace: the bytes are neither.
    """
    try:
        # First, because reading a trace bounds what the file may expand to.
        return analyze_trace(data) if label is None else analyze_trace(data, label)
    except TooLarge:
        raise
    except InvalidTrace as problem:
        try:
            recording = parse_recording(data)
        except UnreadableRecording as fault:
            raise InvalidTrace(str(fault)) from None
        except ValueError:
            raise problem from None
        return analyze_recording(recording if label is None else replace(recording, label=label))


def build_report(recording: Recording, trace: Trace | None) -> Report:
    """Every number that is shown of a recording and its trace; None where the recording lacks it."""
    workload = recording.workload
    latency = build_latency(recording.latency, recording.ledger)
    cost = None if workload is None else build_cost(workload)
    roofline = None
    if workload is not None and cost is not None:
        roofline = build_roofline(cost, latency.device, recording.environment, workload.dtype)
    report = Report(
        workload=workload,
        environment=recording.environment,
        decisions=recording.decisions,
        failures=recording.failures,
        warnings=recording.warnings,
        requested_backend=None if workload is None else workload.backend,
        predicted_backend=predict_backend(recording),
        schedule=recording.schedule,
        latency=latency,
        memory=recording.memory,
        compilation=recording.compilation,
        kernel_source=recording.kernel_source,
        paging=recording.paging,
        cost=cost,
        roofline=roofline,
        correctness=recording.correctness,
        mask_truth=recording.mask_truth,
        non_finite=recording.non_finite,
        unlock_measurements=build_measured_unlocks(recording, latency),
        inputs_fingerprint=recording.inputs_fingerprint,
        gpu_seconds=recording.gpu_seconds,
    )
    if trace is not None:
        expected_steps = None if recording.schedule is None else recording.schedule.active
        report = replace(
            report,
            trace_devices=tuple(device.name for device in trace.devices),
            observed_backend=build_observed_backend(trace),
            steps_recorded=len(trace.steps),
            trace_health=build_health(trace, expected_steps=expected_steps),
            device_items_per_step=count_items_per_step(trace),
            kernels=build_kernel_summaries(trace),
            operators=build_operator_summaries(trace),
            activity=build_activity(trace),
            device_time_per_step_ns=device_time_per_step_ns(trace),
            unattributed_device_time_ns=unattributed_device_time_ns(trace) if trace.device_items else None,
        )
    return replace(report, verdicts=evaluate_rules(report, trace), answers=build_answers(report, trace))


def predict_backend(recording: Recording) -> str | None:
    """The backend that the decisions promise: an explicit choice itself if accepted, a selector's pick.

    None: refused, not decided, or a selector that named no pick.
    """
    if recording.workload is None:
        return None
    requested = recording.workload.backend
    decision = next((decision for decision in recording.decisions if decision.backend == requested), None)
    if decision is None or decision.verdict != "accepted":
        return None
    selects = any(backend.selects for backend in BACKENDS if backend.slug == requested)
    return decision.selects if selects else requested


def build_cost(workload: AnyWorkload) -> Cost:
    """FLOPs, least traffic, and what a composed form of one call writes to memory."""
    kind = kind_of(workload)
    flops, bytes_min = kind.count_flops(workload), kind.count_bytes_min(workload)
    return Cost(
        flops=flops,
        bytes_min=bytes_min,
        score_matrix_bytes=kind.count_score_matrix_bytes(workload),
        intermediates_bytes=kind.count_intermediates_bytes(workload),
        arithmetic_intensity=flops / bytes_min,
        assumptions=kind.describe_cost(workload),
    )


def build_latency(latency: Latency, ledger: tuple[LedgerEntry, ...]) -> LatencyReport:
    """The distributions of the clocks that ran."""
    return LatencyReport(
        device=None if latency.device is None else summarize_samples(latency.device),
        submission=None if latency.submission is None else summarize_samples(latency.submission),
        wall=None if latency.wall is None else summarize_samples(latency.wall),
        first_call_ns=latency.first_call_ns,
        ledger=ledger,
    )
