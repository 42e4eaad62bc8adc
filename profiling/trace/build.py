"""Parsed events and what was found of their links -> the objects of a Trace, each made once."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from profiling.trace.document import LARGEST_INTEGER, NOT_WRITTEN, SMALLEST_INTEGER, EventArgs
from profiling.trace.events import Annotation, DeviceItem, DeviceProperties, Operator, RuntimeCall
from profiling.trace.parse import ParsedTrace, TimedEvents
from profiling.trace.problems import ProblemLog

Thread = int | str

_NO_ARGS = EventArgs()
_SHAPES_DEPTH = 3  # inputs, tensors of a list input, sizes
# Bytes of different shapes that are read; empty lists take twenty times their text in memory. Ten thousand calls that
# are all of another shape have 1 MB.
_MOST_SHAPES_BYTES = 16 * 2**20
_MOST_DEVICES = 1024  # no host has as many, and each launch shape looks for its own


def name_threads(parsed: ParsedTrace) -> Callable[[TimedEvents], list[Thread]]:
    """A function events -> thread of each: the profiler's thread id, after the process where there are several."""
    host = (parsed.runtime.events, parsed.operators.events, parsed.annotations.events)
    several = len({event.pid for events in host for event in events}) > 1

    def name(timed: TimedEvents) -> list[Thread]:
        if several:
            names: dict[object, str] = {}
            return [
                names.get(key := (event.pid, event.tid)) or names.setdefault(key, f"{event.pid}/{event.tid}")
                for event in timed.events
            ]
        return ["None" if event.tid is None else event.tid for event in timed.events]

    return name


def build_annotations(timed: TimedEvents, origin_ns: int, threads: Sequence[Thread]) -> tuple[Annotation, ...]:
    return tuple(
        [
            Annotation(name=event.name or "", start_ns=start - origin_ns, duration_ns=duration, thread=thread)
            for event, start, duration, thread in zip(
                timed.events, timed.starts_ns, timed.durations_ns, threads, strict=True
            )
        ]
    )


def build_operators(
    timed: TimedEvents,
    origin_ns: int,
    threads: Sequence[Thread],
    parents: Sequence[int | None],
    depths: Sequence[int],
    steps: Sequence[int | None],
    log: ProblemLog,
) -> tuple[Operator, ...]:
    one = _share_equal()
    names = [event.name or "" for event in timed.events]
    dims = _read_shapes([event.args or _NO_ARGS for event in timed.events], log)
    return tuple(
        [
            Operator(
                index=index,
                name=one(name, name),
                start_ns=start - origin_ns,
                duration_ns=duration,
                thread=thread,
                parent=parent,
                depth=depth,
                step=step,
                input_shapes=shapes,
            )
            for index, (name, start, duration, thread, parent, depth, step, shapes) in enumerate(
                zip(names, timed.starts_ns, timed.durations_ns, threads, parents, depths, steps, dims, strict=True)
            )
        ]
    )


def build_launches(
    timed: TimedEvents,
    origin_ns: int,
    threads: Sequence[Thread],
    working: Sequence[bool],
    operators: Sequence[int | None],
    steps: Sequence[int | None],
) -> tuple[RuntimeCall, ...]:
    one = _share_equal()
    categories = [event.cat or "" for event in timed.events]
    names = [event.name or "" for event in timed.events]
    return tuple(
        [
            RuntimeCall(
                index=index,
                name=one(name, name),
                category=one(category, category),
                start_ns=start - origin_ns,
                duration_ns=duration,
                thread=thread,
                correlation=None if event.args is None else event.args.correlation,
                launches_work=works,
                operator=operator,
                step=step,
            )
            for index, (event, name, category, start, duration, thread, works, operator, step) in enumerate(
                zip(
                    timed.events,
                    names,
                    categories,
                    timed.starts_ns,
                    timed.durations_ns,
                    threads,
                    working,
                    operators,
                    steps,
                    strict=True,
                )
            )
        ]
    )


def build_device_items(
    parsed: ParsedTrace, launches: Sequence[RuntimeCall], launch_of: dict[int, int]
) -> tuple[DeviceItem, ...]:
    """``launch_of``: correlation -> index of the launch."""
    one, origin_ns, timed = _share_equal(), parsed.start_ns, parsed.device
    items: list[DeviceItem] = []
    for event, kind, start, duration in zip(
        timed.events, parsed.device_kinds, timed.starts_ns, timed.durations_ns, strict=True
    ):
        args = event.args or _NO_ARGS
        launch = None if args.correlation is None else launch_of.get(args.correlation)
        call = None if launch is None else launches[launch]
        name = event.name or ""
        items.append(
            DeviceItem(
                index=len(items),
                kind=kind,
                name=one(name, name),
                start_ns=start - origin_ns,
                duration_ns=duration,
                device=_first_integer(args.device, event.pid),
                stream=_first_integer(args.stream, event.tid),
                correlation=args.correlation,
                grid=args.grid,
                block=args.block,
                registers_per_thread=args.registers_per_thread,
                shared_memory_bytes=args.shared_memory_bytes,
                occupancy_reported=_share(args.occupancy_percent),
                bytes=args.bytes,
                launch=launch,
                operator=None if call is None else call.operator,
                step=None if call is None else call.step,
            )
        )
    return tuple(items)


def build_devices(raw: object) -> tuple[DeviceProperties, ...]:
    """The devices of ``deviceProperties`` in a trace's head."""
    if not isinstance(raw, list):
        return ()
    devices = []
    for entry in raw[:_MOST_DEVICES]:
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


def _share_equal() -> Callable[[str, str], str]:
    """A text, given twice -> one object for all equal ones, so that a thousand calls of a kernel hold its name once."""
    known: dict[str, str] = {}
    return known.setdefault


def _read_shapes(arguments: Sequence[EventArgs], log: ProblemLog) -> list[tuple[object, ...] | None]:
    """Each operator's input dimensions as nested tuples, decoded once for each text that they have."""
    known: dict[bytes, tuple[object, ...] | None] = {b"": None}
    room = _MOST_SHAPES_BYTES
    found: list[tuple[object, ...] | None] = []
    for args in arguments:
        if args.input_dims is NOT_WRITTEN and args.older_input_dims is NOT_WRITTEN:
            found.append(None)
            continue
        written = bytes(args.input_dims) or bytes(args.older_input_dims)
        if written not in known:
            room -= len(written)
            try:
                known[written] = _nest_tuples(msgspec.json.decode(written), _SHAPES_DEPTH) if room >= 0 else None
                fault = "" if room >= 0 else "beyond the limit"
            except (msgspec.MsgspecError, RecursionError) as error:
                # Valid JSON all the same: a number that nothing holds, or lists a thousand deep.
                known[written], fault = None, str(error)
            if fault:
                log.add("unexpected value", f"Input Dims is {ascii(written[:40])[1:]}: {fault}; read as not recorded")
        found.append(known[written])
    return found


def _nest_tuples(value: object, depth: int) -> tuple[object, ...] | None:
    if not isinstance(value, list) or not depth:
        return None
    return tuple(_nest_tuples(part, depth - 1) if isinstance(part, list) else part for part in value)


def _first_integer(written: int | None, other: int | str | None) -> int | None:
    if written is not None:
        return written
    return other if isinstance(other, int) else None


def _integer(value: Any) -> int | None:
    return value if type(value) is int and SMALLEST_INTEGER <= value <= LARGEST_INTEGER else None


def _share(percent: float | None) -> float | None:
    return percent / 100 if percent is not None and 0 <= percent <= 100 else None
