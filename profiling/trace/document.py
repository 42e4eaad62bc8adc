"""The JSON of a trace, decoded to the few fields that are read.

An intact file is decoded at once, by msgspec, to typed records: fields that nobody reads never become objects, which
makes it faster than decoding all of the JSON. Anything unusual, down to one value of another type, is left to
``repair``, which reads event by event and gives the same records.
"""

import codecs
import re
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct, field

from profiling.trace.problems import REPEATED_LIST, ProblemLog, TooLarge

NOT_WRITTEN = Raw(b"")

# What other readers of a trace can hold, too: a longer number is damage.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1
Integer = Annotated[int, Meta(ge=SMALLEST_INTEGER, le=LARGEST_INTEGER)]
# Characters. Templates of kernels take some thousands; a page shows a name a dozen times.
LONGEST_NAME = 32_768
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
# On either side of the events; eight devices and a process group take 10,000 characters.
LONGEST_HEAD = 4 * 2**20
Triple = tuple[Integer, Integer, Integer]


class EventArgs(Struct, gc=False):
    """An event's ``args``: launch facts of device items, the correlation of launches, an operator's input shapes."""

    device: Integer | None = None
    stream: Integer | None = None
    correlation: Integer | None = None
    grid: Triple | None = None
    block: Triple | None = None
    registers_per_thread: Integer | None = field(default=None, name="registers per thread")
    shared_memory_bytes: Integer | None = field(default=None, name="shared memory")
    occupancy_percent: float | None = field(default=None, name="est. achieved occupancy %")
    bytes: Integer | None = None
    input_dims: Raw = field(default=NOT_WRITTEN, name="Input Dims")
    older_input_dims: Raw = field(default=NOT_WRITTEN, name="Input dims")  # up to torch 1.13


class Event(Struct, gc=False):
    """One entry of ``traceEvents``; times as they are written."""

    ph: str | None = None
    cat: Name | None = None
    name: Name | None = None
    pid: Integer | str | None = None
    tid: Integer | str | None = None
    ts: Raw = NOT_WRITTEN
    dur: Raw = NOT_WRITTEN
    args: EventArgs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A trace's head and its events. ``listed``: entries of the list, readable or not."""

    head: dict[str, Any]
    events: list[Event]
    listed: int


class UnusualText(ValueError):
    """The text is no JSON, or holds a value that this reader does not expect. ``events``: of the list alone."""

    def __init__(self, message: str, *, head: dict[str, Any] | None = None, events: bytes | None = None) -> None:
        super().__init__(message)
        self.head = head
        self.events = events


class NoEvents(ValueError):
    """JSON without a list of trace events."""


_DECODE_HEAD = msgspec.json.Decoder(dict[str, Raw]).decode
_DECODE_EVENTS = msgspec.json.Decoder(list[Event]).decode
_UTF8_CHUNK_BYTES = 2**20
# Inside a string the quotes would be escaped, so that this is a key, of the document or of something in it.
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:')


def decode_document(text: bytes, log: ProblemLog) -> Document:
    """The head and the events of ``text``, which starts with a brace or a bracket. A list that is lost is counted.

    Raises:
        UnusualText: not JSON through and through, or with a value of an unexpected type.
        NoEvents: JSON without trace events.
        TooLarge: with more than ``LONGEST_HEAD`` besides them.
    """
    # msgspec checks all that it passes over but this.
    if not (text.isascii() or _is_utf8(text)):
        raise UnusualText("not UTF-8")
    head: dict[str, Any] = {}
    written: bytes | Raw = text
    if text.startswith(b"{"):
        try:
            values = _DECODE_HEAD(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnusualText(str(error)) from error
        written = values.pop("traceEvents", NOT_WRITTEN)
        if bytes(memoryview(written)[:1]) != b"[":
            raise NoEvents
        if len(text) - len(memoryview(written)) > LONGEST_HEAD:
            raise TooLarge(f"The trace has more than {LONGEST_HEAD // 2**20} MiB besides its events; export it again.")
        try:
            head = {key: msgspec.json.decode(value) for key, value in values.items()}
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnusualText(str(error)) from error
        lists = _count_keys(text)
        if lists > 1:
            lists -= sum(_count_keys(value) for value in (written, *values.values()))
        log.add(REPEATED_LIST, f"{lists} lists of events in the file; the last one was read", max(lists - 1, 0))
    try:
        events = _DECODE_EVENTS(written)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnusualText(str(error), head=head, events=bytes(written)) from error
    return Document(head=head, events=events, listed=len(events))


def _count_keys(text: bytes | Raw) -> int:
    return len(_EVENTS_KEY.findall(memoryview(text)))


def _is_utf8(text: bytes) -> bool:
    # By pieces, because the characters of a whole file take up to four times its size.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), _UTF8_CHUNK_BYTES):
            decoder.decode(text[start : start + _UTF8_CHUNK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
