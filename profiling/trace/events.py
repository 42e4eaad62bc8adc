"""One profiler trace as plain data: integer nanoseconds counted from the first event.

A field that the trace lacks is None, never 0.

What a trace has by the hundred thousand is a msgspec Struct, which is made ten times as fast as a frozen dataclass
(0.09 against 0.96 µs, nine fields, Python 3.11). ``gc=False`` keeps them out of the garbage collector's walks: they
hold numbers, texts and tuples of those, which make no cycles. ``msgspec.structs.replace`` copies one.
"""

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """The ``deviceProperties`` of the trace's head, for occupancy."""

    index: int
    name: str
    compute_capability: tuple[int, int] | None
    sm_count: int | None
    max_threads_per_sm: int | None
    registers_per_sm: int | None
    shared_memory_per_block_bytes: int | None
    shared_memory_per_block_optin_bytes: int | None
    shared_memory_per_sm_bytes: int | None
    warp_size: int | None
    total_memory_bytes: int | None


class DeviceItem(Struct, frozen=True, kw_only=True, gc=False):
    """One kernel, memory copy or memory set on a device stream."""

    index: int  # position in Trace.device_items
    kind: Literal["kernel", "memcpy", "memset"]
    name: str
    start_ns: int
    duration_ns: int
    device: int | None
    stream: int | None
    correlation: int | None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers_per_thread: int | None = None
    shared_memory_bytes: int | None = None
    occupancy_reported: float | None = None  # share, 0-1
    bytes: int | None = None
    launch: int | None = None  # index into Trace.launches, by correlation
    operator: int | None = None  # index into Trace.operators: the innermost operator around the launch
    step: int | None = None  # index into Trace.steps, by the launch's time

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class RuntimeCall(Struct, frozen=True, kw_only=True, gc=False):
    """One CUDA or HIP runtime or driver call on the host. ``launches_work``: it should have device items."""

    index: int
    name: str
    category: str
    start_ns: int
    duration_ns: int
    thread: int | str
    correlation: int | None
    launches_work: bool
    operator: int | None = None
    step: int | None = None

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class Operator(Struct, frozen=True, kw_only=True, gc=False):
    """One PyTorch operator call on the host; ``parent`` is the operator around it on its thread."""

    index: int
    name: str
    start_ns: int
    duration_ns: int
    thread: int | str
    parent: int | None = None
    depth: int = 0
    step: int | None = None
    input_shapes: tuple[object, ...] | None = None

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class Annotation(Struct, frozen=True, kw_only=True, gc=False):
    """A ``record_function`` label on the host. The device's copies of it are no work and are left out."""

    name: str
    start_ns: int
    duration_ns: int
    thread: int | str

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One active step: its ``ProfilerStep#N`` span, and the label's span inside it when there is one.

    Where the trace has no such span, each span of the label is a step, and its own label.
    """

    index: int
    name: str
    start_ns: int
    end_ns: int
    thread: int | str
    label_start_ns: int | None = None
    label_end_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong with the trace; ``example`` shows one case."""

    kind: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHealth:
    """Read before any number: ``suspect`` taints totals, ``unusable`` has none."""

    status: Literal["ok", "suspect", "unusable"]
    problems: tuple[Problem, ...]
    launches: int  # calls that should have put work on a device
    linked_kernels: int  # device items with a launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A parsed and linked trace. Each tuple is ordered by start."""

    device_items: tuple[DeviceItem, ...] = ()
    launches: tuple[RuntimeCall, ...] = ()  # every runtime and driver call, launching or not
    operators: tuple[Operator, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    steps: tuple[Step, ...] = ()
    profiler_work: tuple[Annotation, ...] = ()  # the profiler's own on the host: buffers asked for and flushed
    label_copies: frozenset[str] = frozenset()  # names of host labels that the device's side of the trace repeats
    python_calls: int = 0  # Python functions recorded (with_stack=True)
    python_labels: int = 0  # of these, the ones that enter a record_function
    devices: tuple[DeviceProperties, ...] = ()
    problems: tuple[Problem, ...] = ()  # repairs made while parsing
    metadata: dict[str, str | int] = field(default_factory=dict)
    event_count: int = 0
    start_ns: int = 0  # the first event on the trace's own clock, so that times can be shown as written
