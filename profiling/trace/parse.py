"""Bytes of a Chrome trace as PyTorch's profiler writes it -> Trace, unlinked.

Read: complete events (``ph: X``) of operators, runtime and driver calls, kernels, copies and sets, and host labels,
under today's category names, the capitalised ones of torch 1.8 to 1.11, and ROCm's; a document with a head or a bare
list; plain or gzip. Left out: flow arrows (correlation says the same), Python frames, counters, and the device's
copies of host labels, which are no work.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from profiling.trace.events import Annotation, DeviceItem, DeviceProperties, Operator, RuntimeCall, Trace
from profiling.trace.repair import InvalidTrace, ProblemLog, expand, read_document

__all__ = ["InvalidTrace", "parse_trace"]

STEP_PREFIX = "ProfilerStep#"

EventKind = Literal["kernel", "memcpy", "memset", "runtime", "operator", "annotation"]

# Source: category names of pytorch/kineto `ActivityType.cpp` and, for the older ones, of its TensorBoard plugin.
_CATEGORIES: dict[str, EventKind] = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "runtime": "runtime",
    "driver": "runtime",
    "hip_runtime": "runtime",
    "hip_driver": "runtime",
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "annotation",
}

# A clock that starts at zero gives small numbers; beside times of more than a second (in ns) a zero is a missing time.
_MISSING_TIME_GAP_NS = 1_000_000_000

_RawEvent = tuple[int, int, dict[str, Any]]  # start and duration in ns, and the event
_ThreadNamer = Callable[[dict[str, Any]], int | str]


def parse_trace(data: bytes) -> Trace:
    """The trace in ``data``, plain JSON or gzip, with nothing linked yet. Repairs are in ``problems``.

    Raises:
        InvalidTrace: the bytes are not a trace, or expand beyond the limit.
    """
    log = ProblemLog()
    head, events = read_document(expand(data, log), log)
    found, count = _sort_events(events, log)
    if events and not count:
        raise InvalidTrace("Not a profiler trace: no entry of the list is an event; choose another file.")
    first = _first_start(found.values())
    name_thread = _thread_namer(found["runtime"] + found["operator"] + found["annotation"])
    return Trace(
        device_items=_build_device_items(found, first),
        launches=_build_launches(found["runtime"], first, name_thread),
        operators=_build_operators(found["operator"], first, name_thread),
        annotations=tuple(
            Annotation(
                name=str(event.get("name", "")),
                start_ns=start - first,
                duration_ns=duration,
                thread=name_thread(event),
            )
            for start, duration, event in found["annotation"]
        ),
        devices=_build_devices(head.get("deviceProperties")),
        problems=log.build(),
        metadata={key: value for key, value in head.items() if type(value) in (str, int)},
        event_count=count,
        start_ns=first,
    )


@lru_cache(maxsize=256)
def _kind_of(category: str) -> EventKind | None:
    return _CATEGORIES.get(category.lower())


def _sort_events(events: list[Any], log: ProblemLog) -> tuple[dict[EventKind, list[_RawEvent]], int]:
    """Complete events by kind, each list ordered by start with the longer first; and how many events there were."""
    found: dict[EventKind, list[_RawEvent]] = {kind: [] for kind in _CATEGORIES.values()}
    count = 0
    for event in events:
        if type(event) is not dict or "ph" not in event:
            if event is not None:  # None stands for one that was unreadable, counted already
                log.add("not an event", ascii(event)[:120])
            continue
        count += 1
        if event["ph"] != "X":
            continue
        category = event.get("cat")
        kind = _kind_of(category) if type(category) is str else None
        if kind is None:
            continue
        start, duration = event.get("ts"), event.get("dur")
        if type(start) is not int or type(duration) is not int or duration < 0:
            log.add("event without a usable time", f"{event.get('name')!s:.80}: ts={start} dur={duration}")
            continue
        if kind == "operator" and str(event.get("name")).startswith(STEP_PREFIX):
            kind = "annotation"  # torch 1.8 to 1.11
        found[kind].append((start, duration, event))
    for raw in found.values():
        raw.sort(key=_by_start)
    return found, count


def _by_start(raw: _RawEvent) -> tuple[int, int]:
    return raw[0], -raw[1]


def _first_start(groups: Iterable[list[_RawEvent]]) -> int:
    groups = [group for group in groups if group]
    first = min((group[0][0] for group in groups), default=0)
    if first == 0:
        later = min((raw[0] for group in groups for raw in group if raw[0] > 0), default=0)
        if later > _MISSING_TIME_GAP_NS:
            return later
    return first


def _thread_namer(host: list[_RawEvent]) -> _ThreadNamer:
    """A function event -> thread: the profiler's thread id, with the process before it when there are several."""
    several = len({str(event.get("pid")) for _, _, event in host}) > 1

    def name(event: dict[str, Any]) -> int | str:
        thread = event.get("tid")
        if several:
            return f"{event.get('pid')}/{thread}"
        return thread if isinstance(thread, int) else str(thread)

    return name


def _build_device_items(found: dict[EventKind, list[_RawEvent]], first: int) -> tuple[DeviceItem, ...]:
    kinds: tuple[Literal["kernel", "memcpy", "memset"], ...] = ("kernel", "memcpy", "memset")
    merged = sorted(((raw, kind) for kind in kinds for raw in found[kind]), key=lambda pair: _by_start(pair[0]))
    items = []
    for index, ((start, duration, event), kind) in enumerate(merged):
        args = _args(event)
        items.append(
            DeviceItem(
                index=index,
                kind=kind,
                name=str(event.get("name", "")),
                start_ns=start - first,
                duration_ns=duration,
                device=_integer(args.get("device", event.get("pid"))),
                stream=_integer(args.get("stream", event.get("tid"))),
                correlation=_integer(args.get("correlation")),
                grid=_triple(args.get("grid")),
                block=_triple(args.get("block")),
                registers_per_thread=_integer(args.get("registers per thread")),
                shared_memory_bytes=_integer(args.get("shared memory")),
                occupancy_reported=_share(args.get("est. achieved occupancy %")),
                bytes=_integer(args.get("bytes")),
            )
        )
    return tuple(items)


def _build_launches(raw: list[_RawEvent], first: int, name_thread: _ThreadNamer) -> tuple[RuntimeCall, ...]:
    return tuple(
        RuntimeCall(
            index=index,
            name=str(event.get("name", "")),
            category=event["cat"],
            start_ns=start - first,
            duration_ns=duration,
            thread=name_thread(event),
            correlation=_integer(_args(event).get("correlation")),
            launches_work=False,
        )
        for index, (start, duration, event) in enumerate(raw)
    )


def _build_operators(raw: list[_RawEvent], first: int, name_thread: _ThreadNamer) -> tuple[Operator, ...]:
    return tuple(
        Operator(
            index=index,
            name=str(event.get("name", "")),
            start_ns=start - first,
            duration_ns=duration,
            thread=name_thread(event),
            input_shapes=_shapes(_args(event).get("Input Dims", _args(event).get("Input dims"))),
        )
        for index, (start, duration, event) in enumerate(raw)
    )


def _build_devices(raw: object) -> tuple[DeviceProperties, ...]:
    if not isinstance(raw, list):
        return ()
    devices = []
    for entry in raw:
        if not isinstance(entry, dict):
            continue
        major, minor = _integer(entry.get("computeMajor")), _integer(entry.get("computeMinor"))
        devices.append(
            DeviceProperties(
                index=_integer(entry.get("id")) or 0,
                name=str(entry.get("name", "")),
                compute_capability=None if major is None or minor is None else (major, minor),
                sm_count=_integer(entry.get("numSms")),
                max_threads_per_sm=_integer(entry.get("maxThreadsPerMultiprocessor")),
                registers_per_sm=_integer(entry.get("regsPerMultiprocessor")),
                shared_memory_per_block_bytes=_integer(entry.get("sharedMemPerBlock")),
                shared_memory_per_block_optin_bytes=_integer(entry.get("sharedMemPerBlockOptin")),
                shared_memory_per_sm_bytes=_integer(entry.get("sharedMemPerMultiprocessor")),
                warp_size=_integer(entry.get("warpSize")),
                total_memory_bytes=_integer(entry.get("totalGlobalMem")),
            )
        )
    return tuple(devices)


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if type(args) is dict else {}


def _integer(value: object) -> int | None:
    return value if type(value) is int else None


def _triple(value: object) -> tuple[int, int, int] | None:
    if isinstance(value, list) and len(value) == 3 and all(type(part) is int for part in value):
        return value[0], value[1], value[2]
    return None


def _share(percent: object) -> float | None:
    return percent / 100 if isinstance(percent, int | float) and 0 <= percent <= 100 else None


def _shapes(value: object, depth: int = 3) -> tuple[object, ...] | None:
    """Nested tuples of an operator's input dimensions: inputs, tensors of a list input, sizes."""
    if not isinstance(value, list) or not depth:
        return None
    return tuple(_shapes(part, depth - 1) if isinstance(part, list) else part for part in value)
