"""Bytes of a Chrome trace as PyTorch's profiler writes it -> its events by kind, in order of time.

Read: complete events (``ph: X``) of operators, runtime and driver calls, kernels, copies and sets, and host labels,
under today's category names, the capitalised ones of torch 1.8 to 1.11, and those of ROCm and XPU; a document with a
head or a bare list; plain or gzip. Left out: flow arrows (correlation says the same), counters, and the device's copies
of host labels, which are no work. Of Python frames only the number is kept, and whether one of them made a label.
"""

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from operator import lt
from typing import Any, Literal

from profiling.trace.document import NOT_WRITTEN, Document, Event, NoEvents, UnusualText, decode_document
from profiling.trace.problems import InvalidTrace, ProblemLog, TooLarge
from profiling.trace.repair import GZIP_MAGIC, expand, recover_document
from profiling.trace.times import read_time, read_times

__all__ = ["InvalidTrace", "ParsedTrace", "TimedEvents", "parse_trace"]

STEP_PREFIX = "ProfilerStep#"

EventKind = Literal["kernel", "memcpy", "memset", "runtime", "operator", "annotation", "profiler", "python", "copy"]

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
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "mtia_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "annotation",
    "gpu_user_annotation": "copy",
    "overhead": "profiler",
    "python_function": "python",
}
# Source: torch/autograd/profiler.py, class record_function, as the profiler names Python functions.
_ENTERS_LABEL = re.compile(r"torch/autograd/profiler\.py\(\d+\): __enter__$")
# Braces, of which an event has one or two. An empty event takes 3 bytes of the file and 90 of memory, so that the size
# of the file bounds nothing; the profiler writes some 80 bytes a brace, 3.4 million of them at that limit.
MOST_OBJECTS = 5_000_000
# Of text with two or four bytes a character, with a byte order mark or without; no JSON has a zero byte there.
_WIDE_STARTS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"{\0", b"[\0", b"\0{", b"\0[", b"\0\0\0{", b"\0\0\xfe\xff")
# A clock that starts at zero gives small numbers; beside times of more than a second (in ns) a zero is a missing time.
_MISSING_TIME_GAP_NS = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class TimedEvents:
    """Complete events with the times of each in ns, ordered by start with the longer first."""

    events: list[Event] = field(default_factory=list)
    starts_ns: list[int] = field(default_factory=list)
    durations_ns: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTrace:
    """What a file holds, before anything is linked. Times are the file's own, ``start_ns`` the first of them."""

    device: TimedEvents
    device_kinds: list[Literal["kernel", "memcpy", "memset"]]
    runtime: TimedEvents
    operators: TimedEvents
    annotations: TimedEvents
    profiler_work: TimedEvents
    label_copies: frozenset[str]
    python_calls: int
    python_labels: int  # calls that enter a record_function
    head: dict[str, Any]
    event_count: int
    start_ns: int


def parse_trace(data: bytes, log: ProblemLog) -> ParsedTrace:
    """The events in ``data``, plain JSON or gzip. Repairs are counted in ``log``.

    Raises:
        InvalidTrace: the bytes are not a trace, or expand beyond the limit.
    """
    document = _read_document(expand(data, log), log)
    found, count = _sort_out(document, log)
    device = [*found["kernel"], *found["memcpy"], *found["memset"]]
    timed = {kind: _time(found[kind], log) for kind in ("runtime", "operator", "annotation", "profiler")}
    timed["device"] = _time(device, log)
    return ParsedTrace(
        device=timed["device"],
        device_kinds=[_kind_of_item(event) for event in timed["device"].events],
        runtime=timed["runtime"],
        operators=timed["operator"],
        annotations=timed["annotation"],
        profiler_work=timed["profiler"],
        label_copies=frozenset(event.name for event in found["copy"] if event.name),
        python_calls=len(found["python"]),
        python_labels=sum(_ENTERS_LABEL.search(event.name or "") is not None for event in found["python"]),
        head=document.head,
        event_count=count,
        start_ns=_first_start([timed[kind].starts_ns for kind in ("device", "runtime", "operator", "annotation")]),
    )


def _read_document(text: bytes, log: ProblemLog) -> Document:
    start = text.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(_WIDE_STARTS):
        raise InvalidTrace("The file is UTF-16 or UTF-32 and a trace is UTF-8; save it as UTF-8 (without a shell's >).")
    if start.startswith(GZIP_MAGIC):
        raise InvalidTrace("The file is gzip inside gzip; decompress it once (gunzip) and give what comes out.")
    if start[:1] not in (b"{", b"["):
        shown = start[:20].decode("utf-8", "replace")
        what = f"starts with {shown!r}" if shown else "is empty"
        raise InvalidTrace(f"Not a profiler trace: the file {what}; give the .json or .json.gz of torch.profiler.")
    if (objects := start.count(b"{")) > MOST_OBJECTS:
        raise TooLarge(f"The trace has {objects:,} JSON objects and {MOST_OBJECTS:,} are allowed; record fewer steps.")
    try:
        return decode_document(start, log)
    except NoEvents:
        raise InvalidTrace('Not a profiler trace: the JSON has no list "traceEvents"; choose another file.') from None
    except UnusualText as unusual:
        if unusual.events is None:
            return recover_document(start, log)
        recovered = recover_document(unusual.events, log)
        return Document(head=unusual.head or {}, events=recovered.events, listed=recovered.listed)


def _sort_out(document: Document, log: ProblemLog) -> tuple[dict[EventKind, list[Event]], int]:
    """Complete events by kind, and how many events of any sort there were."""
    found: dict[EventKind, list[Event]] = {kind: [] for kind in _CATEGORIES.values()}
    by_category: dict[str | None, list[Event] | None] = {None: None}
    nameless = 0
    for event in document.events:
        if event.ph == "X":
            category = event.cat
            if category not in by_category:
                kind = _CATEGORIES.get((category or "").lower())
                by_category[category] = None if kind is None else found[kind]
            group = by_category[category]
            if group is not None:
                group.append(event)
        elif event.ph is None:
            nameless += 1
    log.add("not an event", 'an object without "ph"', nameless)
    count = len(document.events) - nameless
    if document.listed and not count:
        raise InvalidTrace("Not a profiler trace: no entry of the list is an event; choose another file.")
    _move_older_steps(found)
    return found, count


def _move_older_steps(found: dict[EventKind, list[Event]]) -> None:
    """Torch 1.8 to 1.11 wrote steps as operators."""
    operators = found["operator"]
    names = {event.name for event in operators}
    if any(name is not None and name.startswith(STEP_PREFIX) for name in names):
        steps = [event for event in operators if (event.name or "").startswith(STEP_PREFIX)]
        found["annotation"] += steps
        found["operator"] = [event for event in operators if not (event.name or "").startswith(STEP_PREFIX)]


def _kind_of_item(event: Event) -> Literal["kernel", "memcpy", "memset"]:
    kind = _CATEGORIES[(event.cat or "").lower()]
    assert kind in ("kernel", "memcpy", "memset")
    return kind


def _time(events: list[Event], log: ProblemLog) -> TimedEvents:
    """The events that have a usable time, in order. A duration below zero is read as none: the event did happen."""
    starts, all_started = read_times([event.ts for event in events])
    durations, all_lasted = read_times([event.dur for event in events])
    timed = TimedEvents(events=events, starts_ns=starts, durations_ns=durations)
    if not (all_started and all_lasted):
        timed = _leave_out_timeless(timed, log)
    if min(timed.durations_ns, default=0) < 0:
        negative = [number for number, duration in enumerate(timed.durations_ns) if duration < 0]
        event = timed.events[negative[0]]
        log.add("negative duration", f"{_name(event)}: dur={_shown(event.dur)}; read as 0", len(negative))
        timed.durations_ns = [max(duration, 0) for duration in timed.durations_ns]
    return _order(timed)


def _leave_out_timeless(timed: TimedEvents, log: ProblemLog) -> TimedEvents:
    kept = []
    for number, event in enumerate(timed.events):
        if read_time(bytes(event.ts)) is None or read_time(bytes(event.dur)) is None:
            log.add("event without a usable time", f"{_name(event)}: ts={_shown(event.ts)} dur={_shown(event.dur)}")
        else:
            kept.append(number)
    return _pick(timed, kept)


def _pick(timed: TimedEvents, numbers: list[int]) -> TimedEvents:
    return TimedEvents(
        events=[timed.events[number] for number in numbers],
        starts_ns=[timed.starts_ns[number] for number in numbers],
        durations_ns=[timed.durations_ns[number] for number in numbers],
    )


def _order(timed: TimedEvents) -> TimedEvents:
    starts, durations = timed.starts_ns, timed.durations_ns
    if all(map(lt, starts, islice(starts, 1, None))):
        return timed
    return _pick(timed, sorted(range(len(starts)), key=lambda number: (starts[number], -durations[number])))


def _name(event: Event) -> str:
    return f"{event.name!s:.80}"


def _shown(written: object) -> str:
    text = bytes(written) if written is not NOT_WRITTEN else b"None"  # type: ignore[call-overload]
    return ascii(text[:40].decode("utf-8", "replace")).strip("'") or "None"


def _first_start(groups: Iterable[list[int]]) -> int:
    groups = [starts for starts in groups if starts]
    first = min((starts[0] for starts in groups), default=0)
    if first == 0:
        later = min((start for starts in groups for start in starts if start > 0), default=0)
        if later > _MISSING_TIME_GAP_NS:
            return later
    return first
