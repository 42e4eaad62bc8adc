"""Bytes -> Trace: exact times, the formats that are read, and what is refused."""

import gzip
import json
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.trace import read_trace, repair
from profiling.trace.problems import InvalidTrace
from tests.unit.trace_builder import device_item, launch, operator, two_steps, write


def document(ts: str, dur: str = "1") -> bytes:
    text = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": %s, "dur": %s}]}'
    return (text % (ts, dur)).encode()


@given(st.integers(0, 10**19 // 2), st.integers(0, 10**18))
def test_times_are_exact_to_the_nanosecond(start_ns: int, duration_ns: int) -> None:
    def written(value: int) -> str:
        return f"{value // 1000}.{value % 1000:03d}"

    trace = read_trace(document(written(start_ns), written(duration_ns)))
    assert trace.start_ns == start_ns
    assert trace.operators[0].duration_ns == duration_ns


@given(st.decimals(0, 10**12, places=6, allow_nan=False), st.sampled_from(["{}", "{:E}", "{:.6e}"]))
def test_every_notation_is_rounded_to_whole_nanoseconds(value: Decimal, notation: str) -> None:
    text = notation.format(value)
    expected = (Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN)
    assert read_trace(document(text)).start_ns == expected


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("1700000000000123.457", 1700000000000123457),
        ("12", 12_000),
        ("0.5", 500),
        ("1.25", 1250),
        ("1.2345", 1234),
        ("1.7e3", 1_700_000),
        ("12E-1", 1200),
    ],
)
def test_written_times(written: str, nanoseconds: int) -> None:
    assert read_trace(document(written)).start_ns == nanoseconds


def test_plain_gzip_several_members_and_a_bare_list_read_alike() -> None:
    events = two_steps()
    plain = write(events)
    expected = read_trace(plain)
    middle = len(plain) // 2
    assert expected.event_count == len(events)
    for data in (
        gzip.compress(plain),
        gzip.compress(plain[:middle]) + gzip.compress(plain[middle:]),
        json.dumps(events).encode(),
        json.dumps({"traceEvents": events}, indent=2).encode(),
        b"\xef\xbb\xbf" + plain,
    ):
        assert read_trace(data) == expected


@given(st.permutations(two_steps()))
def test_order_of_events_does_not_matter(events: list[dict[str, object]]) -> None:
    assert read_trace(write(events)) == read_trace(write(two_steps()))


@given(st.integers(0, 10**9))
def test_shifting_times_moves_only_the_start(shift: int) -> None:
    moved = read_trace(write([{**event, "ts": event["ts"] + shift} for event in two_steps()]))
    still = read_trace(write(two_steps()))
    assert moved.start_ns == still.start_ns + shift * 1000
    assert (moved.device_items, moved.operators, moved.launches) == (
        still.device_items,
        still.operators,
        still.launches,
    )


def test_older_category_names_and_hip_are_read() -> None:
    trace = read_trace(
        write(
            [
                operator("aten::mm", 0, 9, cat="Operator"),
                operator("ProfilerStep#1", 0, 10, cat="Operator"),
                launch(1, 1, name="hipLaunchKernel", cat="Runtime"),
                device_item(1, 5, 1, cat="Kernel"),
                device_item(2, 6, 1, cat="Memcpy"),
                device_item(3, 7, 1, cat="gpu_memset"),
                {"ph": "s", "cat": "async_cpu_to_gpu", "name": "a", "id": 1, "ts": 1, "pid": 0, "tid": 0},
                device_item(4, 5, 3, name="attn_fwd", cat="gpu_user_annotation"),
            ]
        )
    )
    assert [item.kind for item in trace.device_items] == ["kernel", "memcpy", "memset"]
    assert [op.name for op in trace.operators] == ["aten::mm"]
    assert [annotation.name for annotation in trace.annotations] == ["ProfilerStep#1"]
    assert trace.launches[0].name == "hipLaunchKernel"


def test_a_field_that_is_missing_is_none() -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "pid": "gpu", "tid": "stream"}
    (item,) = read_trace(write([event])).device_items
    facts = (item.device, item.stream, item.correlation, item.grid, item.registers_per_thread, item.occupancy_reported)
    assert facts == (None,) * 6


def test_threads_of_several_processes_stay_apart() -> None:
    trace = read_trace(write([operator("a", 0, 5), operator("b", 1, 5, pid=11)]))
    assert [op.thread for op in trace.operators] == ["10/10", "11/10"]


def test_an_event_without_usable_time_is_left_out_and_counted() -> None:
    bad = [operator("a", 1, 10**30), {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 3}]
    trace = read_trace(write([operator("c", 1, 2), *bad]))
    assert [op.name for op in trace.operators] == ["c"]
    assert [(problem.kind, problem.count) for problem in trace.problems] == [("event without a usable time", 2)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty;"),
        (b"PK\x03\x04", "starts with"),
        (b"<html>", "starts with '<html>'"),
        (b'{"a": 1}', 'no list "traceEvents"'),
        (b'{"traceEvents": 3}', 'no list "traceEvents"'),
        (b'{"a": ', 'without a list "traceEvents"'),
        (b"[1, 2, 3]", "no entry of the list is an event"),
        (b"\x1f\x8bnonsense", "not readable gzip"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(data: bytes, said: str) -> None:
    with pytest.raises(InvalidTrace) as refusal:
        read_trace(data)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_gzip_bomb_is_refused_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "MAX_EXPANDED_BYTES", 2**20)
    bomb = gzip.compress(b"[" + b" " * 50 * 2**20)
    assert len(bomb) < 2**17
    with pytest.raises(InvalidTrace, match="more than 1 MiB"):
        read_trace(bomb)
    with pytest.raises(InvalidTrace, match="more than 1 MiB"):
        read_trace(b"[" + b" " * 2**20)
