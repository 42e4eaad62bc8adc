"""What leaves the GPU process: one plain, picklable Recording for one workload.

A partial recording is valid: a failed stage leaves a Failure and everything before it stands.
"""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from attention.backends import Decision
from attention.kernel_source import KernelSource
from attention.kinds import AnyWorkload
from attention.paging import Paging
from attention.validation import check_workload
from attention.workload import InvalidWorkload
from profiling.check_records import MaskTruth, NonFiniteRows, UnlockMeasurement, clocks_of
from profiling.samples import Samples as Samples
from profiling.stored_workload import StoredWorkload, describe_place

FORMAT_VERSION = 1
_MOST_BYTES = 32 * 2**20  # of a recording, mostly 30 KB; JSON takes up to twenty times its text in memory
_HEAD = b'{"format_version"'  # how a written recording begins

# In the order in which they run; the page names them while they do.
Stage = Literal[
    "queue", "environment", "inputs", "first_call", "warmup", "timing", "memory", "profile", "correctness", "decisions",
    "unlocks",  # when asked for
]  # fmt: skip
FailureKind = Literal[
    "refused",  # the pinned backend cannot run this workload: a result, not a fault
    "out_of_memory",
    "invalid",  # the workload does not fit this device
    "stopped",  # the visitor pressed Stop
    "timeout",
    "crashed",  # the process that owns the GPU died
    "quota",
    "unavailable",  # a feature this torch build or machine lacks
    "error",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A stage that did not finish: what happened, in whose words, and what to do."""

    stage: Stage
    kind: FailureKind
    message: str
    hint: str
    sticky: bool = False  # the CUDA context is lost; the process must not be used again


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One step of a run, as it happens. ``done`` of ``total`` counts stages over all workloads."""

    stage: Stage
    workload_index: int
    workload_count: int
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps of ``torch.profiler.schedule``; only the active ones are in the trace."""

    wait: int = 1
    warmup: int = 1
    active: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine, taken in the process that runs the workload. None: could not be read."""

    device: Literal["cpu", "cuda"]
    device_name: str
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    total_memory_bytes: int | None = None
    free_memory_bytes: int | None = None
    mig: bool | None = None
    driver: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    torch: str = ""
    triton: str | None = None
    python: str = ""
    platform: str = ""
    cpu_count: int = 0
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    flags: dict[str, bool | str] = field(default_factory=dict)
    packages: dict[str, str | None] = field(default_factory=dict)  # version; None: not installed. Empty: not recorded
    on_zero_gpu: bool = False
    app_revision: str | None = None
    captured_at: str = ""  # UTC, ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """Where the run's seconds went: one stage and its wall time in the GPU process."""

    stage: Stage
    wall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The un-profiled clocks. None: the clock does not exist on this device or did not run."""

    device: Samples | None = None
    submission: Samples | None = None
    wall: Samples | None = None
    first_call_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Device bytes of one un-profiled call. None: the device keeps no such count."""

    peak_bytes: int | None  # of a call that replays its own CUDA graph: since before the graph was captured
    inputs_bytes: int
    output_bytes: int
    materialized_bytes: int | None  # peak minus inputs, mask, output and gradients: what the call allocated besides


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSample:
    """One element of the float64 reference, so that a replay can check its own reference first."""

    index: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One tensor against its float64 reference, both from the same rounded inputs."""

    tensor: str
    max_abs_error: float | None  # None: no finite element to compare
    rms_error: float | None
    error_budget: float | None  # None: not judged
    budget_basis: str
    within_budget: bool | None
    nan_count: int
    inf_count: int
    worst_index: tuple[int, ...] | None
    worst_value: float | None
    worst_reference: float | None
    dead_rows: int  # query rows of one head, over the batch, that may attend to nothing
    reference: str
    reference_samples: tuple[ReferenceSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What torch.compile did in one run. None: this torch does not count it."""

    mode: str
    compile_ns: int | None  # in the first call
    graph_breaks: int | None
    recompiles: int | None  # frames compiled after the first call
    cached_graphs: int | None  # graphs whose code was read from Inductor's cache on disk and not generated
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedWarning:
    stage: Stage
    category: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One workload on one machine. ``workload`` None: a trace that someone brought themselves."""

    format_version: int = FORMAT_VERSION
    workload: StoredWorkload | None = None
    environment: Environment | None = None
    decisions: tuple[Decision, ...] = ()
    schedule: Schedule | None = None
    label: str = "attn_fwd"  # the record_function label around each step's call
    latency: Latency = field(default_factory=Latency)
    memory: Memory | None = None
    compilation: Compilation | None = None  # None: nothing was compiled
    kernel_source: KernelSource | None = None  # None: the kernel is part of torch, or none ran
    paging: Paging | None = None  # None: the call read key and value themselves, from no block table
    correctness: tuple[Delta, ...] = ()
    mask_truth: MaskTruth | None = None  # None: there is no mask, or no output to read it from
    non_finite: tuple[NonFiniteRows, ...] = ()  # one a tensor that holds NaN or infinite values
    unlock_measurements: tuple[UnlockMeasurement, ...] = ()  # empty unless asked for
    inputs_fingerprint: dict[str, int] = field(default_factory=dict)  # tensor -> sum of its bit patterns
    warnings: tuple[CapturedWarning, ...] = ()
    failures: tuple[Failure, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    gpu_seconds: float | None = None  # how long this workload held the GPU, wall
    trace_gz: bytes | None = None  # exactly as the profiler wrote it


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One GPU entry. ``depth``: only the machine, also the refusals, or the whole recording."""

    workloads: tuple[AnyWorkload, ...]
    depth: Literal["environment", "check", "record"] = "record"
    schedule: Schedule = field(default_factory=Schedule)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    measure_unlocks: bool = False  # also time and judge the changes that make a refusing backend run


# The one interface between the page or command line and whatever owns the GPU. Closing the iterator stops the run.
# Failures travel inside recordings; an implementation raises only for faults of its own.
Recorder = Callable[[RunRequest], Iterator[Progress | Recording]]


@cache
def _adapter() -> Any:
    # Imported late: `check --help` must answer without it.
    from pydantic import ConfigDict, TypeAdapter, with_config

    with_config(ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", allow_inf_nan=False))(Recording)
    return TypeAdapter(Recording)


def write_recording(recording: Recording) -> bytes:
    """The recording as gzipped JSON; equal recordings give equal bytes."""
    return gzip.compress(_adapter().dump_json(recording), mtime=0)


class UnreadableRecording(ValueError):
    """A recording by its looks, with something in it that is wrong; one line for the person who brought it."""


def parse_recording(data: bytes) -> Recording:
    """The recording that ``write_recording`` wrote.

    Raises:
        UnreadableRecording: a recording of another format, cut off, or with a value that no run writes.
        ValueError: not a recording at all, or larger than the reader's limit.
    """
    from pydantic import ValidationError
    from pydantic_core import from_json

    from profiling.trace.repair import ProblemLog, expand

    text = expand(data, ProblemLog())
    if len(text) > _MOST_BYTES or b'"format_version"' not in text:
        raise ValueError("not a recording")
    try:
        found = from_json(text)
    except ValueError as error:
        if text.startswith(_HEAD):
            raise UnreadableRecording(f"The recording is cut off or damaged ({error}); download it again.") from None
        raise
    # Every field has a default, so that without this any JSON object would be an empty recording.
    if not isinstance(found, dict) or "format_version" not in found:
        raise ValueError("no format_version: not a recording")
    if "verdicts" in found:
        raise UnreadableRecording(
            "This is a report.json, which does not hold the trace that it was made from; give recording.json.gz."
        )
    if (version := found["format_version"]) != FORMAT_VERSION:
        raise UnreadableRecording(
            f"format_version={version!r:.40} of the recording is not known; this app reads {FORMAT_VERSION}: "
            "update the app or record again."
        )
    try:
        recording = _adapter().validate_json(text)
        assert isinstance(recording, Recording)
        _check_contents(recording)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = describe_place(first["loc"])
        what = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise UnreadableRecording(f"The recording's {where} is wrong: {what}; record it again.") from None
    except InvalidWorkload as error:
        raise UnreadableRecording(f"The recording's workload is wrong: {error}") from None
    return recording


def _check_contents(recording: Recording) -> None:
    """Nothing, or what the types alone let pass.

    Raises:
        InvalidWorkload: the workload contradicts itself, or names what does not exist.
        UnreadableRecording: a clock without a duration, or with a negative one.
    """
    if recording.workload is not None:
        check_workload(recording.workload)
    clocks = {f"latency.{name}": getattr(recording.latency, name) for name in ("device", "submission", "wall")}
    for name, samples in (clocks | clocks_of(recording.unlock_measurements)).items():
        if samples is not None and (not samples.samples_ns or min(samples.samples_ns) < 0):
            raise UnreadableRecording(
                f"The recording's {name} has no samples or negative ones; a clock that did not run is null."
            )
