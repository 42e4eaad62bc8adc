"""One event of a damaged trace: JSON that keeps every digit, and its values as the fields that an event has."""

import json
from typing import Any

import msgspec
from msgspec import Raw

from profiling.trace.document import (
    LARGEST_INTEGER,
    LONGEST_NAME,
    NOT_WRITTEN,
    SMALLEST_INTEGER,
    Event,
    EventArgs,
    Triple,
)
from profiling.trace.problems import ProblemLog

_LONGEST_INTEGER = len(str(SMALLEST_INTEGER))
_FLAT_DEPTH = 8  # of lists in an operator's shapes: inputs, tensors of a list input, sizes


class Written(str):
    """A number as the text has it, because a double would lose digits."""

    __slots__ = ()


def _read_integer(text: str) -> int | Written:
    return int(text) if len(text) <= _LONGEST_INTEGER else Written(text)


# ``strict=False`` lets control characters stand inside strings.
LENIENT = json.JSONDecoder(strict=False, parse_float=Written, parse_int=_read_integer, parse_constant=lambda _: None)


class EventReader:
    """JSON values to events. A value of a type that its field never has is left out, and named in ``log``."""

    def __init__(self, log: ProblemLog) -> None:
        self._log = log

    def read(self, values: dict[str, Any]) -> Event:
        """The event in ``values``."""
        args = values.get("args")
        if args is not None and type(args) is not dict:
            self._log.add("unexpected value", f"args is {_show(args)}, no object")
            args = None
        return Event(
            ph=self._text(values, "ph"),
            cat=self._text(values, "cat"),
            name=self._text(values, "name"),
            pid=self._identity(values, "pid"),
            tid=self._identity(values, "tid"),
            ts=_number(values.get("ts")),
            dur=_number(values.get("dur")),
            args=None if args is None else self._args(args),
        )

    def _args(self, values: dict[str, Any]) -> EventArgs:
        return EventArgs(
            device=self._integer(values, "device"),
            stream=self._integer(values, "stream"),
            correlation=self._integer(values, "correlation"),
            grid=self._triple(values, "grid"),
            block=self._triple(values, "block"),
            registers_per_thread=self._integer(values, "registers per thread"),
            shared_memory_bytes=self._integer(values, "shared memory"),
            occupancy_percent=self._share(values, "est. achieved occupancy %"),
            bytes=self._integer(values, "bytes"),
            input_dims=_raw_list(values.get("Input Dims")),
            older_input_dims=_raw_list(values.get("Input dims")),
        )

    def _text(self, values: dict[str, Any], key: str) -> str | None:
        value = values.get(key)
        if type(value) is str and len(value) > LONGEST_NAME:
            self._log.add("over-long name", f"{key} has {len(value)} characters; cut after {LONGEST_NAME}")
            return value[:LONGEST_NAME]
        if value is None or type(value) is str:
            return value
        self._log.add("unexpected value", f"{key} is {_show(value)}, no text")
        return str(value) if key == "name" else None

    def _identity(self, values: dict[str, Any], key: str) -> int | str | None:
        value = values.get(key)
        return value if type(value) is str else self._integer(values, key)

    def _integer(self, values: dict[str, Any], key: str) -> int | None:
        value = values.get(key)
        if value is None or (type(value) is int and SMALLEST_INTEGER <= value <= LARGEST_INTEGER):
            return value
        is_integer = type(value) is int or (type(value) is Written and value.lstrip("-").isdecimal())
        kind = "over-long integer" if is_integer else "unexpected value"
        self._log.add(kind, f"{key} is {_show(value)}; read as not recorded")
        return None

    def _triple(self, values: dict[str, Any], key: str) -> Triple | None:
        value = values.get(key)
        if type(value) is list and len(value) == 3:
            x, y, z = (self._integer({key: part}, key) for part in value)
            return None if x is None or y is None or z is None else (x, y, z)
        if value is not None:
            self._log.add("unexpected value", f"{key} is {_show(value)}, no three numbers")
        return None

    def _share(self, values: dict[str, Any], key: str) -> float | None:
        value = values.get(key)
        if value is None:
            return None
        if type(value) in (int, Written):
            return float(value)
        self._log.add("unexpected value", f"{key} is {_show(value)}, no number")
        return None


def _number(value: object) -> Raw:
    return Raw(str(value).encode()) if type(value) in (int, Written) else NOT_WRITTEN


def _raw_list(value: object) -> Raw:
    # A number too long for an integer is a string here, and no shape either way.
    if type(value) is not list or not _is_flat(value, _FLAT_DEPTH):
        return NOT_WRITTEN
    return Raw(msgspec.json.encode(value))


def _is_flat(value: object, depth: int) -> bool:
    return type(value) is not list or (depth > 0 and all(_is_flat(part, depth - 1) for part in value))


def _show(value: object) -> str:
    return ascii(value)[:60] if type(value) in (str, int, float, bool, Written) else type(value).__name__
