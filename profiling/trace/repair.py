"""Bytes of a trace file -> its JSON events, with safe repairs counted and everything else refused.

The profiler writes text that is not always JSON: strings with control characters or bad UTF-8, bare ``nan`` and
``inf``, a trailing comma, a file that ends in the middle. What can be read is read, one event at a time, and each
repair is named.
"""

import json
import re
import zlib
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import orjson

from profiling.trace.events import Problem

# Reading takes about nine bytes of memory a byte of text (measured on 28 MB): 2.3 GB at this limit, which a web process
# can still bear. Three steps of one attention call are under 1 MB. A gzip of zeros expands a thousandfold, so the
# limit is checked while decompressing.
MAX_EXPANDED_BYTES = 256 * 2**20
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 64 * 1024

# Repairs after which every time and count is still as the profiler wrote it.
HARMLESS_REPAIRS = frozenset(
    {"control characters", "bad UTF-8", "trailing comma", "not a number", "unreadable head", "missing end"}
)

_TIME = re.compile(rb'"(ts|dur)"\s*:\s*(-?\d+)(?:\.(\d*))?(?:[eE]([-+]?\d+))?')
_NOT_A_NUMBER = re.compile(r"(?<=[:\[,])(\s*)-?(?:nan|inf|infinity)(?=\s*[,\]}])", re.IGNORECASE)
# Half of a surrogate pair: no character, and not writable as UTF-8.
_HALF_PAIR = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
# A time with more digits is no time: 10**25 us are 300 billion years.
_LONGEST_TIME_DIGITS = 25
_EVENTS_KEY = re.compile(r'"traceEvents"\s*:\s*\[')
_EVENT_START = re.compile(r'\{\s*"(?:ph|name)"\s*:')
_SEPARATORS = re.compile(r"[\s,]*")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_STRICT = json.JSONDecoder()
_UNREADABLE = (ValueError, RecursionError)  # also a number of thousands of digits, and lists a thousand deep
_LENIENT = json.JSONDecoder(strict=False)  # lets control characters stand inside strings
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f]")
_WINDOW_LENGTH = 4096  # characters; an event of the profiler has a few hundred
_LONGEST_CUT_WORD = len("-Infinity")  # an error this close to a window's end may come of a word that the window cuts
# A few come of a log line between events; with this many the text is no trace, and each costs a search of its own.
MOST_UNREADABLE_EVENTS = 10_000


class InvalidTrace(ValueError):
    """The bytes are not a trace; the message is one line for the person who brought them."""


class ProblemLog:
    """Counts what was wrong by kind, with the first case of each as the example."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        if count:
            seen, first = self._found.get(kind, (0, example))
            self._found[kind] = (seen + count, first)

    def build(self) -> tuple[Problem, ...]:
        return tuple(Problem(kind=kind, count=count, example=text) for kind, (count, text) in self._found.items())


def expand(data: bytes, log: ProblemLog) -> bytes:
    """The file's text: as it is, or decompressed when it starts with gzip's magic bytes.

    Raises:
        InvalidTrace: damaged from its start, or larger than ``MAX_EXPANDED_BYTES``.
    """
    if not data.startswith(_GZIP_MAGIC):
        if len(data) > MAX_EXPANDED_BYTES:
            raise InvalidTrace(_too_large())
        return data
    parts: list[bytes] = []
    total = 0
    inflater = zlib.decompressobj(wbits=31)
    position = 0
    pending = b""
    while pending or position < len(data):
        if not pending:
            pending = data[position : position + _CHUNK_BYTES]
            position += _CHUNK_BYTES
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
            raise InvalidTrace(_too_large())
        pending = inflater.unconsumed_tail
        if inflater.eof:
            pending = inflater.unused_data
            if not pending and position >= len(data):
                return b"".join(parts)
            inflater = zlib.decompressobj(wbits=31)  # a gzip file may hold several members
    log.add("cut-off file", f"the gzip stream ends early; {total} bytes could be read")
    return b"".join(parts)


def _too_large() -> str:
    return (
        f"The trace expands to more than {MAX_EXPANDED_BYTES // 2**20} MiB; "
        "record fewer steps, or turn stacks, shapes and memory off."
    )


def read_document(text: bytes, log: ProblemLog) -> tuple[dict[str, Any], list[Any]]:
    """The trace's head and its events, every ``ts`` and ``dur`` rewritten from microseconds to integer nanoseconds.

    Raises:
        InvalidTrace: not JSON, or JSON without trace events.
    """
    start = text.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] not in (b"{", b"["):
        shown = start[:20].decode("utf-8", "replace")
        raise InvalidTrace(
            f"Not a profiler trace: the file starts with {shown!r}; give the .json or .json.gz of torch.profiler."
        )
    exact = _TIME.sub(_as_nanoseconds, start)
    try:
        document = orjson.loads(exact)
    except orjson.JSONDecodeError:
        return _recover(exact, log)
    if isinstance(document, dict):
        events = document.pop("traceEvents", None)
        if not isinstance(events, list):
            raise InvalidTrace('Not a profiler trace: the JSON has no list "traceEvents"; choose another file.')
        return document, events
    return {}, document


def _as_nanoseconds(match: re.Match[bytes]) -> bytes:
    # On the text, because a double holds 1.7e15 us only to the nearest 0.25 us.
    key, whole, fraction, exponent = match.groups()
    fraction = fraction or b""
    if len(whole) > _LONGEST_TIME_DIGITS:
        return b'"%b":null' % key
    if exponent is None and len(fraction) <= 3:
        return b'"%b":%d' % (key, int(whole + fraction.ljust(3, b"0")))
    if len(exponent or b"") > 3:
        return b'"%b":null' % key
    value = Decimal(f"{whole.decode()}.{fraction.decode() or 0}").scaleb(int(exponent or 0) + 3)
    return b'"%b":%d' % (key, int(value.to_integral_value(ROUND_HALF_EVEN)))


def _recover(data: bytes, log: ProblemLog) -> tuple[dict[str, Any], list[Any]]:
    """What can be read of text that is not JSON, event by event."""
    text = data.decode("utf-8", "replace")
    if (replaced := text.count("\ufffd")) and replaced != data.count(b"\xef\xbf\xbd"):
        spot = text.index("\ufffd")
        log.add("bad UTF-8", repr(text[max(0, spot - 30) : spot + 1]), replaced)
    text, count = _HALF_PAIR.subn(r"\\ufffd", text)
    log.add("bad UTF-8", "half of a surrogate pair", count)
    text, count = _NOT_A_NUMBER.subn(r"\1null", text)
    log.add("not a number", "nan or inf where JSON has no such value; read as not recorded", count)
    if text.startswith("["):
        events, _ = _recover_events(text, 1, log)
        return {}, events
    key = _EVENTS_KEY.search(text)
    if key is None:
        raise InvalidTrace('Not a profiler trace: broken JSON without a list "traceEvents"; choose another file.')
    head = _recover_object(text[: key.start()] + '"traceEvents":0}', "unreadable head", log)
    events, end = _recover_events(text, key.end(), log)
    if end is not None:
        head |= _recover_object("{" + text[end:].strip().lstrip(","), "missing end", log)
    head.pop("traceEvents", None)
    return head, events


def _recover_object(text: str, fault: str, log: ProblemLog) -> dict[str, Any]:
    try:
        value, _ = _LENIENT.raw_decode(_TRAILING_COMMA.sub(r"\1", text))
    except _UNREADABLE as error:
        log.add(fault, f"{error}; facts of the device or of versions may be missing")
        return {}
    return value if isinstance(value, dict) else {}


def _recover_events(text: str, position: int, log: ProblemLog) -> tuple[list[Any], int | None]:
    """Every readable event from ``position`` on, and where the list ended; None: the text ended first."""
    events: list[Any] = []
    unreadable = 0
    length = len(text.rstrip())
    while True:
        separators = _SEPARATORS.match(text, position)
        assert separators is not None
        position = separators.end()
        if position >= length:
            log.add("cut-off file", f"the list of events does not end; {len(events)} events could be read")
            return events, None
        if text[position] == "]":
            log.add("trailing comma", "after the last event", int("," in separators[0]))
            return events, position + 1
        start = position
        try:
            event, position = _decode_event(text, start, length)
        except _UNREADABLE as error:
            following = _EVENT_START.search(text, start + 1)
            if following is None and _ends_too_soon(error, length - start):
                log.add("cut-off file", f"ends inside an event; {len(events)} events could be read")
                return events, None
            event, position = _recover_event(text, start, following.start() if following else length, log)
            unreadable += event is None
            if unreadable > MOST_UNREADABLE_EVENTS:
                raise InvalidTrace(
                    f"More than {MOST_UNREADABLE_EVENTS} events are not readable JSON; export the trace again."
                ) from error
        else:
            _note_control_characters(text[start:position], log)
        events.append(event)


def _decode_event(text: str, start: int, length: int) -> tuple[Any, int]:
    """One event, and where it ends.

    A JSON error counts the lines before its place, which inside a long text costs far more than decoding an event.
    So each try sees a window only, a wider one while the event may go on behind it.
    """
    width = _WINDOW_LENGTH
    while True:
        piece = text[start : min(start + width, length)]
        try:
            event, end = _LENIENT.raw_decode(piece)
        except json.JSONDecodeError as error:
            if start + width >= length or not _ends_too_soon(error, len(piece) - _LONGEST_CUT_WORD):
                raise
            width *= 2
        else:
            return event, start + end


def _note_control_characters(piece: str, log: ProblemLog) -> None:
    """Counts an event with control characters inside a string; between values they are ordinary space."""
    if _CONTROL_CHARACTER.search(piece):
        try:
            _STRICT.raw_decode(piece)
        except ValueError:
            log.add("control characters", ascii(piece[:120]))


def _ends_too_soon(error: Exception, length: int) -> bool:
    return isinstance(error, json.JSONDecodeError) and (error.pos >= length or error.msg.startswith("Unterminated"))


def _recover_event(text: str, start: int, stop: int, log: ProblemLog) -> tuple[Any, int]:
    """One damaged event, repaired when that is safe, else None; and where to go on."""
    repaired, count = _TRAILING_COMMA.subn(r"\1", text[start:stop])
    try:
        event, end = _LENIENT.raw_decode(repaired)
    except _UNREADABLE as error:
        log.add("unreadable event", f"{error} in {text[start : min(stop, start + 120)]!a}")
        return None, stop
    log.add("trailing comma", ascii(text[start : min(stop, start + 120)]), count)
    return event, stop if repaired[end:].strip(" \t\r\n,") == "" else start + end + count
