"""The report: every number that a panel, the command line or an export shows, and nothing else.

Times are integer nanoseconds, sizes bytes, shares 0-1. None means not recorded, never zero.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from attention.backends import Decision
from attention.kernel_source import KernelSource
from attention.paging import Paging
from profiling.check_records import MaskTruth, NonFiniteRows
from profiling.recording import (
    CapturedWarning,
    Compilation,
    Delta,
    Environment,
    Failure,
    LedgerEntry,
    Memory,
    Schedule,
)
from profiling.stored_workload import StoredWorkload
from profiling.trace.events import TraceHealth

REPORT_FORMAT_VERSION = 1

KernelRole = Literal[
    "attention_forward",
    "attention_backward",
    "attention",  # the name does not say which
    "gemm",
    "convolution",
    "softmax",
    "normalization",
    "mask",  # applies one
    "mask_build",
    "scale",
    "elementwise",
    "cast",
    "copy",
    "reduce",
    "random",
    "communication",
    "memcpy",
    "memset",
    "other",
]
Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSummary:
    """Device items of one name and launch shape, over all recorded steps."""

    name: str
    short_name: str
    kind: Literal["kernel", "memcpy", "memset"]
    role: KernelRole
    family: str  # "cuDNN", "flash", "ATen elementwise", …; "unknown" when no pattern fits
    calls: int
    calls_per_step: float | None  # None: the trace has no steps
    device_time_ns: int
    mean_ns: float
    min_ns: int
    max_ns: int
    share_of_device_time: float
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    registers_per_thread: int | None
    shared_memory_bytes: int | None
    bytes: int | None  # of one memcpy or memset
    occupancy_reported: float | None
    occupancy_recomputed: float | None
    occupancy_limiter: str | None  # "registers", "shared memory", "threads", "blocks"; a tie is joined by "and"
    uses_tensor_cores: bool | None  # None: the name does not say
    launched_by: str | None  # the innermost operator around the launch
    description: str  # one plain sentence
    data_type: str | None = None  # of the tensors, as torch names it ("float8": either format); None: it does not say
    tile: str | None = None  # rows×columns of one block's output; None: the name does not say
    occupancy_note: str | None = None  # why nothing was recomputed, or why the reported value is an artefact
    items: tuple[int, ...] = ()  # indices into Trace.device_items, to highlight on the timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSummary:
    """Calls of one PyTorch operator inside the recorded steps. Device times are None on a CPU-only trace."""

    name: str
    calls: int
    cpu_time_ns: int
    self_cpu_time_ns: int
    device_time_ns: int | None
    self_device_time_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch with no device item inside one step, between the step's first and last item."""

    start_ns: int
    duration_ns: int
    step: int | None
    before: str  # short name of the item that follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Device time over all steps: ``busy + idle = span``, where each step's span is first start to last end."""

    span_ns: int
    busy_ns: int
    idle_ns: int
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsPerStep:
    """Device items a step, counted by correlation; a float when steps differ."""

    kernels: float
    memcpy: float
    memset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """One clock's distribution. ``iqr_ns`` is the interquartile range; spread is shown as ± half of it."""

    median_ns: int
    p10_ns: int
    p90_ns: int
    iqr_ns: int
    count: int
    method: str
    l2: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyReport:
    device: LatencySummary | None = None
    submission: LatencySummary | None = None
    wall: LatencySummary | None = None
    first_call_ns: int | None = None
    ledger: tuple[LedgerEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUnlock:
    """One change that unlocks a refusing backend, as UnlockMeasurement, beside the run that was asked for.

    ``base_backend`` None: the run itself gave no time. ``base_ns`` is its median on the clock that both have, device
    time where there is one; ``clock`` names it.
    """

    backend: str
    change: str
    device: LatencySummary | None = None
    wall: LatencySummary | None = None
    max_abs_error: float | None = None
    error_budget: float | None = None
    within_budget: bool | None = None
    skipped: str = ""
    base_backend: str | None = None
    base_ns: int | None = None
    clock: Literal["device", "wall"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBackend:
    """What the trace proves. ``family``: one of a backend's ``families``, or unknown."""

    family: str
    evidence: tuple[str, ...]
    confidence: Literal["proven", "likely", "unknown"]  # proven: an operator and a kernel agree


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    flops: int
    bytes_min: int
    score_matrix_bytes: int | None  # one copy in the workload's dtype; math holds it in float32 at least
    arithmetic_intensity: float  # FLOP/byte
    assumptions: tuple[str, ...]
    intermediates_bytes: int | None = None  # what the eager form of an operation writes between its operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Rates from the measured device time. Ceilings None: this device's are not known here."""

    achieved_flops_per_s: float
    achieved_bytes_per_s: float
    ceiling_source: str | None
    share_of_ceiling: float | None
    bound: Literal["compute", "memory"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a finding rests on; ``items`` and ``operators`` are indices into the trace, to click."""

    text: str
    items: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """One rule's answer: it fired, it looked and found nothing, or it could not look and says why."""

    rule: str
    status: Literal["fired", "clear", "not_evaluated"]
    title: str
    explanation: str
    severity: Severity | None = None  # only when fired
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One of the six questions, answered."""

    question: str
    answer: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    format_version: int = REPORT_FORMAT_VERSION
    workload: StoredWorkload | None = None
    environment: Environment | None = None
    trace_devices: tuple[str, ...] = ()  # the GPUs that the trace's head names
    decisions: tuple[Decision, ...] = ()
    failures: tuple[Failure, ...] = ()
    warnings: tuple[CapturedWarning, ...] = ()
    requested_backend: str | None = None
    predicted_backend: str | None = None
    observed_backend: ObservedBackend | None = None
    schedule: Schedule | None = None
    steps_recorded: int = 0
    trace_health: TraceHealth | None = None  # None: no trace was recorded
    device_items_per_step: ItemsPerStep | None = None  # None: the trace has no device items or no steps
    kernels: tuple[KernelSummary, ...] = ()
    operators: tuple[OperatorSummary, ...] = ()
    activity: Activity | None = None
    device_time_per_step_ns: int | None = None  # summed device items of a step, mean over steps
    unattributed_device_time_ns: int | None = None  # under no operator; with all self device times it is the whole
    latency: LatencyReport = field(default_factory=LatencyReport)
    memory: Memory | None = None
    compilation: Compilation | None = None  # None: nothing was compiled
    kernel_source: KernelSource | None = None  # None: the kernel is part of torch, or none ran
    paging: Paging | None = None  # None: the call read key and value themselves, from no block table
    cost: Cost | None = None
    roofline: Roofline | None = None
    correctness: tuple[Delta, ...] = ()
    mask_truth: MaskTruth | None = None  # None: there is no mask, or no output to read it from
    non_finite: tuple[NonFiniteRows, ...] = ()
    unlock_measurements: tuple[MeasuredUnlock, ...] = ()
    inputs_fingerprint: dict[str, int] = field(default_factory=dict)
    verdicts: tuple[RuleVerdict, ...] = ()
    answers: tuple[Answer, ...] = ()
    gpu_seconds: float | None = None


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Report)


def write_report(report: Report) -> bytes:
    """The report as indented JSON with stable keys, UTF-8."""
    data: bytes = _adapter().dump_json(report, indent=2)
    return data


def parse_report(data: bytes) -> Report:
    """The report that ``write_report`` wrote.

    Raises:
        ValueError: not a report of this format.
    """
    report = _adapter().validate_json(data)
    assert isinstance(report, Report)
    return report
