"""Damage for traces, from a seed: the same seed gives the same bytes."""

import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any

Damage = Callable[[bytes, Random], bytes]

_HUGE = (
    "9" * 30,
    "1e400",
    "-1e308",
    "1" + "0" * 5000,
    "9223372036854775808",
    "-9223372036854775809",
    "1e-400",
    "0.1e18",
)
_VALUES = (
    *("null", "true", "-1", "0", "1.5", '""', '"text"', "[]", "[1, 2, 3]", "{}", '{"a": [{}]}'),
    *("9223372036854775808", '"\\ud800"', '"\\u0000"', '"ProfilerStep#9"', '"X"', '"kernel"', '"cpu_op"'),
)
_FIELDS = ("ph", "cat", "name", "ts", "dur", "pid", "tid", "args")
_SYNTAX = b'{}[]",:\\\n\x00\xff\xed0-.eE '


def mutate(data: bytes, seed: int) -> bytes:
    """``data``, the JSON of a trace, with one to four kinds of damage, now and then compressed and damaged again."""
    random = Random(seed)
    for damage in random.choices(DAMAGES, k=random.randint(1, 4)):
        data = damage(data, random)
    if random.random() < 0.1:
        data = gzip.compress(data, 1)
        data = random.choice((flip_bytes, cut, lambda data, random: data))(data, random)
    return data


def flip_bytes(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def write_syntax(data: bytes, random: Random) -> bytes:
    """Signs that mean something to JSON, put in or over others."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 2, 8))):
        place = random.randrange(len(changed) + 1)
        changed[place : place + random.randrange(2)] = bytes([random.choice(_SYNTAX)])
    return bytes(changed)


def cut(data: bytes, random: Random) -> bytes:
    start, end = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
    return random.choice((data[:end], data[start:], data[:start] + data[end:]))


def repeat_a_piece(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((1, 10, 300)))
    return data[:end] + data[start:end] * random.choice((1, 2, 500)) + data[end:]


def swap_types(data: bytes, random: Random) -> bytes:
    """Values of other types in fields of events and of their args."""
    document = _load(data)
    events = _events(document)
    for event in random.choices(events, k=random.choice((1, 3, 20))) if events else []:
        fields = event.get("args") if random.random() < 0.4 else None
        target = fields if isinstance(fields, dict) and fields else event
        target[random.choice(list(target) or list(_FIELDS))] = json.loads(random.choice(_VALUES))
    return data if document is None else json.dumps(document).encode()


def write_huge_numbers(data: bytes, random: Random) -> bytes:
    document = _load(data)
    events = _events(document)
    if not events:
        return data
    for event in random.choices(events, k=random.choice((1, 3, 20))):
        args = event.get("args")
        target = args if isinstance(args, dict) and args and random.random() < 0.5 else event
        target[random.choice([*target, "ts", "dur"])] = "HUGE"
    parts = json.dumps(document).encode().split(b'"HUGE"')
    return b"".join(part + random.choice(_HUGE).encode() for part in parts[:-1]) + parts[-1]


def nest_deeply(data: bytes, random: Random) -> bytes:
    """Lists or objects by the thousand inside each other, closed or not, in place of a value."""
    depth = random.choice((10, 500, 5000, 20_000))
    opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    inner = opening * depth + b"0" + closing * random.choice((0, depth, depth - 1))
    place = data.find(b":", random.randrange(len(data) + 1)) + 1
    if not place:
        return inner
    return data[:place] + inner + b"," + data[place:]


def repeat_keys(data: bytes, random: Random) -> bytes:
    key = random.choice((b'"traceEvents": [', b'"ts": 0, ', b'"ph": "X", ', b'"args": {}, ', b'"cat": "kernel", '))
    place = data.find(b"{", random.randrange(len(data) + 1)) + 1
    return data[:place] + key + data[place:]


def shift_times(data: bytes, random: Random) -> bytes:
    """Times that cross, touch, vanish or run backwards."""
    document = _load(data)
    for event in _events(document):
        if random.random() < 0.3:
            event[random.choice(("ts", "dur"))] = random.choice((0, -5, 0.0005, 1e15, random.random() * 1e13))
    return data if document is None else json.dumps(document).encode()


def _load(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _events(document: Any) -> list[dict[str, Any]]:
    events = document.get("traceEvents") if isinstance(document, dict) else document
    return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []


DAMAGES: tuple[Damage, ...] = (
    flip_bytes,
    write_syntax,
    cut,
    repeat_a_piece,
    swap_types,
    write_huge_numbers,
    nest_deeply,
    repeat_keys,
    shift_times,
)
