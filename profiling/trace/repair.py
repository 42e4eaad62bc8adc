"""What can be read of a damaged trace file: decompressed, then event by event, with every repair named.

The profiler writes text that is not always JSON: strings with control characters, bare quotes or bad UTF-8, bare
``nan`` and ``inf``, a trailing comma, a file that ends in the middle. A repair is made where only one reading is
possible; what has none is left out and counted.
"""

import json
import re
import zlib
from bisect import bisect_left
from itertools import pairwise
from typing import Any

from profiling.trace.document import LONGEST_HEAD, Document, Event
from profiling.trace.lenient import LENIENT, EventReader
from profiling.trace.problems import HARMLESS_REPAIRS, REPEATED_LIST, InvalidTrace, ProblemLog, TooLarge
from profiling.trace.quotes import find_bare_quotes

__all__ = ["HARMLESS_REPAIRS", "MAX_EXPANDED_BYTES", "InvalidTrace", "ProblemLog", "expand", "recover_document"]

# Reading takes about four bytes of memory a byte of text, and up to seven where the text is damaged and has signs
# beyond Latin (measured on 42 MB): 1.8 GB at this limit, which a web process can still bear. Three steps of one
# attention call are under 1 MB. A gzip of zeros expands a thousandfold, so the limit is checked while decompressing.
MAX_EXPANDED_BYTES = 256 * 2**20
# Of one gzip file: each costs some microseconds, and may be empty. Blocked gzip has one for 64 KiB of text.
_MOST_MEMBERS = 65_536
GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 64 * 1024

_NOT_A_NUMBER = re.compile(r"(?<=[:\[,])(\s*)-?(?:nan|inf|infinity)(?=\s*[,\]}])", re.IGNORECASE)
# Half of a surrogate pair: no character, and not writable as UTF-8.
_HALF_PAIR = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_EVENTS_KEY = re.compile(r'"traceEvents"\s*:\s*\[')
_EVENT_START = re.compile(r'\{\s*"(?:ph|name)"\s*:')
_SEPARATORS = re.compile(r"[\s,]*")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_STRICT = json.JSONDecoder()
_UNREADABLE = (ValueError, RecursionError)  # also lists a thousand deep
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f]")
_LONGEST_REPAIR = 16 * 1024  # characters of a damaged event that are looked at
_WINDOW_LENGTH = 4096  # characters; an event of the profiler has a few hundred
_LONGEST_CUT_WORD = len("-Infinity")  # an error this close to a window's end may come of a word that the window cuts
# A few come of a log line between events; with this many the text is no trace, and each costs a search of its own.
MOST_UNREADABLE_EVENTS = 10_000
# Characters decoded in vain, beyond the text itself and wider windows: each of thousands of events that begin inside
# one another would be decoded down to where Python's recursion ends. At some 10 MB/s this is less than half a second.
_MOST_VAIN_CHARACTERS = 4 * 2**20
_MOST_VAIN_READINGS = 2


def expand(data: bytes, log: ProblemLog) -> bytes:
    """The file's text: as it is, or decompressed when it starts with gzip's magic bytes.

    Raises:
        InvalidTrace: damaged from its start.
        TooLarge: larger than ``MAX_EXPANDED_BYTES``.
    """
    if not data.startswith(GZIP_MAGIC):
        if len(data) > MAX_EXPANDED_BYTES:
            raise TooLarge(_too_large())
        return data
    parts: list[bytes] = []
    total = 0
    members = 1
    inflater = zlib.decompressobj(wbits=31)
    position = 0
    pending = b""
    ended = False
    while pending or position < len(data):
        if not pending:
            pending = data[position : position + _CHUNK_BYTES]
            position += _CHUNK_BYTES
        if ended:
            # Another member may follow; zeros only fill up a block.
            pending = pending.lstrip(b"\0")
            if not pending:
                continue
            ended = False
            inflater = zlib.decompressobj(wbits=31)
            members += 1
            if members > _MOST_MEMBERS:
                raise TooLarge(f"The file has more than {_MOST_MEMBERS} gzip members; export the trace again.")
        try:
            part = inflater.decompress(pending, MAX_EXPANDED_BYTES - total + 1)
        except zlib.error as error:
            if not total:
                raise InvalidTrace(f"The file is not readable gzip ({error}); export the trace again.") from error
            log.add("damaged gzip", f"{error}; {total} bytes could be read")
            return b"".join(parts)
        parts.append(part)
        total += len(part)
        if total > MAX_EXPANDED_BYTES:
            raise TooLarge(_too_large())
        pending = inflater.unconsumed_tail
        if inflater.eof:
            pending = inflater.unused_data
            ended = True
    if not ended:
        log.add("cut-off file", f"the gzip stream ends early; {total} bytes could be read")
    return b"".join(parts)


def _too_large() -> str:
    return (
        f"The trace expands to more than {MAX_EXPANDED_BYTES // 2**20} MiB; "
        "record fewer steps, or turn stacks, shapes and memory off."
    )


def recover_document(data: bytes, log: ProblemLog) -> Document:
    """What can be read of the text of a trace, from its first brace or bracket on.

    Raises:
        InvalidTrace: without a list of events, or with too many that cannot be read.
    """
    text = data.decode("utf-8", "replace")
    if (replaced := text.count("\ufffd")) and replaced != data.count(b"\xef\xbf\xbd"):
        spot = text.index("\ufffd")
        log.add("bad UTF-8", repr(text[max(0, spot - 30) : spot + 1]), replaced)
    text, count = _HALF_PAIR.subn(r"\\ufffd", text)
    log.add("bad UTF-8", "half of a surrogate pair", count)
    text, count = _NOT_A_NUMBER.subn(r"\1null", text)
    log.add("not a number", "nan or inf where JSON has no such value; read as not recorded", count)
    if text.startswith("["):
        recovery = _Recovery(text, log)
        end = recovery.read_events(1)
        if end is not None:
            _note_rest(text, end, log)
        return Document(head={}, events=recovery.events, listed=recovery.listed)
    key = _EVENTS_KEY.search(text)
    if key is None:
        raise InvalidTrace('Not a profiler trace: broken JSON without a list "traceEvents"; choose another file.')
    head = _recover_object(text[: key.start()] + '"traceEvents":0}', "unreadable head", log)
    recovery = _Recovery(text, log)
    end = recovery.read_events(key.end())
    if end is not None:
        fault = REPEATED_LIST if _EVENTS_KEY.search(text, end) else "missing end"
        rest = _recover_object("{" + text[end:].strip().lstrip(","), fault, log)
        log.add(REPEATED_LIST, "a second list of events; the first one was read", int("traceEvents" in rest))
        head |= rest
    head.pop("traceEvents", None)
    return Document(head=head, events=recovery.events, listed=recovery.listed)


def _recover_object(text: str, fault: str, log: ProblemLog) -> dict[str, Any]:
    try:
        if len(text) > LONGEST_HEAD:
            raise ValueError(f"{len(text)} characters, more than {LONGEST_HEAD}")
        text = _TRAILING_COMMA.sub(r"\1", text)
        value, end = LENIENT.raw_decode(text)
    except _UNREADABLE as error:
        log.add(fault, f"{error}; facts of the device or of versions may be missing")
        return {}
    _note_rest(text, end, log)
    return value if isinstance(value, dict) else {}


def _note_rest(text: str, end: int, log: ProblemLog) -> None:
    """Counts what follows the trace, as a second one does: events may be left out. Zeros only fill up a block."""
    rest = text[end : end + LONGEST_HEAD].strip("\0 \t\r\n")
    log.add("text after the end", ascii(rest[:120]), int(bool(rest)))


class _Recovery:
    """One pass over a damaged list of events."""

    def __init__(self, text: str, log: ProblemLog) -> None:
        self.events: list[Event] = []
        self.listed = 0
        self._text = text
        self._length = len(text.rstrip())
        self._log = log
        self._reader = EventReader(log)
        self._unreadable = 0
        self._strange = 0
        self._vain = 0
        self._next = -1  # where the first event behind the last damaged one begins

    def read_events(self, position: int) -> int | None:
        """Reads every readable event from ``position`` on; where the list ended, None when the text ended first."""
        while True:
            separators = _SEPARATORS.match(self._text, position)
            assert separators is not None
            position = separators.end()
            if position >= self._length:
                self._log.add("cut-off file", f"the list of events does not end; {len(self.events)} events were read")
                return None
            if self._text[position] == "]":
                self._log.add("trailing comma", "after the last event", int("," in separators[0]))
                return position + 1
            start = position
            try:
                value, position = self._decode(start)
            except _UNREADABLE as error:
                following = self._find_next(start + 1)
                if following is None and _ends_too_soon(error, self._length - start):
                    self._log.add("cut-off file", f"ends inside an event; {len(self.events)} events were read")
                    return None
                position = self._read_damaged(start, self._length if following is None else following, error)
            else:
                self._note_control_characters(start, position)
                self._add(value)

    def _find_next(self, position: int) -> int | None:
        """Where the next event begins, from ``position`` on. Positions only grow, so that no text is searched twice."""
        if self._next < position:
            found = _EVENT_START.search(self._text, position)
            self._next = len(self._text) if found is None else found.start()
        return self._next if self._next < len(self._text) else None

    def _add(self, value: object) -> None:
        self.listed += 1
        if isinstance(value, dict):
            self.events.append(self._reader.read(value))
            return
        self._log.add("not an event", ascii(value)[:120])
        self._strange += 1
        if self._strange > MOST_UNREADABLE_EVENTS:
            raise InvalidTrace(f"More than {MOST_UNREADABLE_EVENTS} entries of the list are no events; choose another.")

    def _read_damaged(self, start: int, stop: int, error: Exception) -> int:
        """Adds the entry between ``start`` and ``stop`` if it can be repaired, else counts it; where to go on."""
        recovered = self._repair(start, stop)
        if recovered is not None:
            value, position = recovered
            self._add(value)
            return position
        self._log.add("unreadable event", f"{error} in {self._text[start : start + 120]!a}")
        self.listed += 1
        self._unreadable += 1
        if self._unreadable > MOST_UNREADABLE_EVENTS:
            raise InvalidTrace(
                f"More than {MOST_UNREADABLE_EVENTS} events are not readable JSON; export the trace again."
            ) from error
        if self._vain > _MOST_VAIN_CHARACTERS + _MOST_VAIN_READINGS * self._length:
            raise InvalidTrace(
                f"{self._unreadable} events are not readable JSON and begin inside one another; export the trace again."
            ) from error
        return stop

    def _decode(self, start: int) -> tuple[Any, int]:
        """One entry of the list, and where it ends.

        A JSON error counts the lines before its place, which inside a long text costs far more than decoding an event.
        So each try sees a window only, a wider one while the event may go on behind it.
        """
        width = _WINDOW_LENGTH
        while True:
            piece = self._text[start : min(start + width, self._length)]
            try:
                value, end = LENIENT.raw_decode(piece)
            except json.JSONDecodeError as error:
                self._vain += error.pos
                if start + width >= self._length or not _ends_too_soon(error, len(piece) - _LONGEST_CUT_WORD):
                    raise
                width *= 2
            except RecursionError:
                self._vain += len(piece)
                raise
            else:
                return value, start + end

    def _note_control_characters(self, start: int, end: int) -> None:
        """Counts an event with control characters inside a string; between values they are ordinary space."""
        piece = self._text[start:end]
        if _CONTROL_CHARACTER.search(piece):
            try:
                _STRICT.raw_decode(piece)
            except ValueError:
                self._log.add("control characters", ascii(piece[:120]))

    def _repair(self, start: int, stop: int) -> tuple[Any, int] | None:
        """The damaged entry between ``start`` and ``stop`` and where it ends, when there is one way to read it."""
        piece = self._text[start : min(stop, start + _LONGEST_REPAIR)]
        commas = [match.start() for match in _TRAILING_COMMA.finditer(piece)]
        for kind, places, repair in (
            ("trailing comma", commas, ""),
            ("unescaped quote", find_bare_quotes(piece), '\\"'),
        ):
            if not places:
                continue
            parts = [piece[before + 1 : place] for before, place in pairwise([-1, *places])]
            try:
                value, end = LENIENT.raw_decode(repair.join([*parts, piece[places[-1] + 1 :]]))
            except _UNREADABLE:
                continue
            # Each repair before the value's end moved that end by as much as it made the text longer.
            longer = len(repair) - 1
            count = bisect_left([place + longer * number for number, place in enumerate(places)], end)
            self._log.add(kind, ascii(piece[:120]), count)
            return value, start + end - longer * count
        return None


def _ends_too_soon(error: Exception, length: int) -> bool:
    return isinstance(error, json.JSONDecodeError) and (error.pos >= length or error.msg.startswith("Unterminated"))
