"""Broken traces: what is repaired, that it is counted, and that the rest of the trace is as before."""

import gzip
import json
import time
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiling.statistics import build_activity, build_kernel_summaries, build_operator_summaries
from profiling.trace import parse, read_trace
from profiling.trace.document import UnusualText
from profiling.trace.events import Problem, Trace
from profiling.trace.health import build_health
from profiling.trace.problems import InvalidTrace
from tests.conftest import TRACES
from tests.unit.trace_builder import operator, two_steps, write

WHOLE = write([*two_steps(), operator("last_op", 1300, 2)], cuda_runtime_version=13000)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (WHOLE.replace(b"last_op", b"last\x01\x02op"), {"control characters": 1}),
        (WHOLE.replace(b"last_op", b"last\xff\xfeop"), {"bad UTF-8": 2}),
        (WHOLE.replace(b"]}", b",]}"), {"trailing comma": 1}),
        (WHOLE.replace(b'"args": {}}]', b'"args": {},}]'), {"trailing comma": 1}),
        (WHOLE.replace(b'"args": {}}]', b'"args": {"bandwidth": inf, "share": -nan}}]'), {"not a number": 2}),
        (WHOLE.replace(b'"args": {}}]', b'"args": {"id": 99999999999999999999999}}]'), {}),
        (WHOLE.replace(b'"args": {}}]', b'"args": {"bytes": 99999999999999999999999}}]'), {"over-long integer": 1}),
        (WHOLE.replace(b"last_op", b'last "op" of <"all"'), {"unescaped quote": 4}),
        (WHOLE.replace(b'"args": {}}]', b'"args": [7]}]'), {"unexpected value": 1}),
    ],
)
def test_safe_repairs_change_no_time_and_no_count(data: bytes, expected: dict[str, int]) -> None:
    assert data != WHOLE
    trace, whole = read_trace(data), read_trace(WHOLE)
    assert {problem.kind: problem.count for problem in trace.problems} == expected
    assert trace.device_items == whole.device_items
    assert len(trace.operators) == len(whole.operators)
    assert trace.metadata == whole.metadata
    assert build_health(trace, 2).status == "ok"


def test_an_unreadable_event_is_skipped_and_taints_the_trace() -> None:
    data = WHOLE.replace(b'"kernel", "name": "gemm_kernel"', b'"kernel", "name" "gemm_kernel"', 1)
    trace = read_trace(data)
    assert [problem.kind for problem in trace.problems] == ["unreadable event"]
    assert "gemm" in trace.problems[0].example
    assert len(trace.device_items) == 3
    health = build_health(trace, 2)
    assert health.status == "suspect"
    assert "launch without device item" in {problem.kind for problem in health.problems}


@pytest.mark.parametrize(
    ("cut", "kind", "operators"),
    [(1, "missing end", 7), (2, "cut-off file", 7), (3, "cut-off file", 6), (60, "cut-off file", 6)],
)
def test_a_cut_off_file_keeps_its_whole_events(cut: int, kind: str, operators: int) -> None:
    trace = read_trace(WHOLE[:-cut])
    assert [problem.kind for problem in trace.problems] == [kind]
    assert (len(trace.device_items), len(trace.operators)) == (4, operators)
    assert trace.metadata["cuda_runtime_version"] == 13000


def test_keys_after_the_events_are_read_from_a_broken_trace() -> None:
    data = WHOLE.replace(b"last_op", b"last\x01op").replace(b"]}", b'], "traceName": "t.json"}')
    assert read_trace(data).metadata == {"cuda_runtime_version": 13000, "traceName": "t.json"}


def test_a_cut_off_gzip_keeps_what_was_in_it() -> None:
    # Random-looking names, so that the compressed stream is long enough to cut.
    events = [operator(f"op_{hash(str(index))}", index, 1) for index in range(2000)]
    packed = gzip.compress(write(events))
    trace = read_trace(packed[: len(packed) // 2])
    assert {problem.kind for problem in trace.problems} == {"cut-off file"}
    assert 500 < len(trace.operators) < 1500


@pytest.mark.parametrize("zeros", [1, 512, 100_000])
def test_zeros_behind_a_gzip_only_fill_up_a_block(zeros: int) -> None:
    packed = gzip.compress(WHOLE)
    trace = read_trace(packed + bytes(zeros))
    assert (trace.problems, trace.operators) == ((), read_trace(WHOLE).operators)
    half = len(WHOLE) // 2
    parts = (gzip.compress(WHOLE[:half]), gzip.compress(WHOLE[half:]))
    assert read_trace(bytes(zeros).join(parts)).operators == trace.operators
    for rest in (b"log line", packed[:30]):
        assert read_trace(packed + bytes(zeros) + rest).problems != ()


@pytest.mark.parametrize("tolerantly", [False, True])
def test_a_second_list_of_events_is_counted_and_not_a_word_inside_an_event(*, tolerantly: bool) -> None:
    read = read_tolerantly if tolerantly else read_trace
    one = write([operator("first", 1, 2)])
    trace = read(one[:-1] + b"," + one.replace(b"first", b"other")[1:])
    name = "first" if tolerantly else "other"
    told = "a second list of events; the first" if tolerantly else "2 lists of events in the file; the last"
    problem = Problem(kind="repeated traceEvents", count=1, example=f"{told} one was read")
    assert (trace.problems, [op.name for op in trace.operators]) == ((problem,), [name])
    inside = operator("aten::a", 1, 2, args={"traceEvents": [], "key": "traceEvents"})
    assert read(write([inside, operator("aten::b", 1, 2)])).problems == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_wide_text_is_named(encoding: str) -> None:
    with pytest.raises(InvalidTrace, match="save it as UTF-8"):
        read_trace(WHOLE.decode().encode(encoding))


def test_gzip_inside_gzip_is_named() -> None:
    with pytest.raises(InvalidTrace, match="gzip inside gzip"):
        read_trace(gzip.compress(gzip.compress(WHOLE)))


@settings(max_examples=200)
@given(st.integers(0, len(WHOLE)))
def test_wherever_it_is_cut_it_is_read_or_refused(length: int) -> None:
    try:
        trace = read_trace(WHOLE[:length])
    except InvalidTrace:
        assert b'"traceEvents": [' not in WHOLE[:length]
        return
    assert len(trace.operators) <= len(read_trace(WHOLE).operators)
    assert trace.problems or length == len(WHOLE)


@settings(max_examples=200)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_one_changed_byte_never_raises_anything_else(position: int, byte: int) -> None:
    changed = WHOLE[:position] + bytes([byte]) + WHOLE[position + 1 :]
    with suppress(InvalidTrace):
        assert read_trace(changed).event_count <= len(two_steps()) + 1


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ('{"ph": "X", "name": ' + "[" * 100_000, "unreadable event"),
        (
            '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": ' + "1" * 6000 + ', "dur": 1}',
            "event without a usable time",
        ),
        ('{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1e99999999999, "dur": 1}', "event without a usable time"),
        ('{"ph": "X", "name": "a", "pid": ' + "1" * 6000 + "x}", "unreadable event"),
        ('{"ph": "X", "cat": "cpu_op", "name": "\\ud83d", "ts": 1, "dur": 1}', "bad UTF-8"),
    ],
)
def test_hostile_values_cost_one_event(event: str, kind: str) -> None:
    trace = read_trace(WHOLE.replace(b"]}", b"," + event.encode() + b', {"ph": "M", "name": "end"}]}'))
    assert kind in {problem.kind for problem in trace.problems}
    assert len(trace.device_items) == 4
    for read in trace.operators:
        read.name.encode()  # what is shown must be writable


def test_an_event_longer_than_a_window_is_repaired_whole() -> None:
    for length in range(4050, 4110):  # whatever the first window cuts: a string, a word, a number
        data = WHOLE.replace(b"last_op", b"last\x01" + b"x" * length).replace(
            b'"args": {}}]', b'"args": {"a": true, "b": -1.5e-07, "c": "\\u00e9", "d": null}}]'
        )
        trace = read_trace(data)
        assert {problem.kind: problem.count for problem in trace.problems} == {"control characters": 1}
        assert len(trace.operators[-1].name) == length + 5


@pytest.mark.parametrize(
    "event", [b'{"ph":"X","name":"a\x01","cat":"cpu_op","ts":1,"dur":1},', b'{"ph":"X",,"name":1},']
)
def test_much_damage_costs_time_in_proportion(event: bytes) -> None:
    began = time.monotonic()
    head = b'{"note": "' + b"x" * 20_000_000 + b'", "traceEvents": ['
    read_trace(head + event * 9_999 + b'{"ph": "M", "name": "end"}]}')
    assert time.monotonic() - began < 10  # an error that reads all the text before its place makes it a minute


def test_events_that_begin_inside_one_another_cost_no_more_than_their_text() -> None:
    # Each goes on to where recursion ends, and the next begins inside it.
    event = b'{"ph": "X", "cat": [' + b"9, " * 3000
    began = time.process_time()
    with pytest.raises(InvalidTrace, match="begin inside one another"):
        read_trace(b'{"traceEvents": [' + event * 200)
    assert time.process_time() - began < 5


def test_a_text_of_damage_alone_is_refused() -> None:
    with pytest.raises(InvalidTrace, match="events are not readable"):
        read_trace(b'{"traceEvents": [' + b'{"name":' * 20_000)


def test_a_whole_surrogate_pair_is_a_character_also_in_a_broken_trace() -> None:
    data = WHOLE.replace(b"last_op", b"\\ud83d\\ude00\x01")
    assert read_trace(data).operators[-1].name == "\U0001f600\x01"


def read_tolerantly(data: bytes) -> Trace:
    """Event by event, as if the file were damaged."""
    with mock.patch.object(parse, "decode_document", side_effect=UnusualText("as if it were damaged")):
        return read_trace(data)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
times = st.decimals(0, 10**12, places=3, allow_nan=False).map(float) | st.integers(0, 10**15)
integers = st.none() | st.integers(-(2**63), 2**63 - 1)
triples = st.none() | st.tuples(*[st.integers(0, 2**31)] * 3)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "device": integers,
        "stream": integers,
        "correlation": integers,
        "grid": triples,
        "block": triples,
        "registers per thread": integers,
        "shared memory": integers,
        "est. achieved occupancy %": st.none() | st.integers(0, 100) | st.floats(0, 100),
        "bytes": integers,
        "Input Dims": st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3),
        "unread": st.none() | texts | st.integers() | st.lists(st.floats(allow_nan=False, allow_infinity=False)),
    },
)
clean_events = st.fixed_dictionaries(
    {
        "ph": st.sampled_from(["X", "X", "X", "M", "s"]),
        "cat": st.sampled_from(["cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "user_annotation", "overhead"]),
        "name": st.sampled_from(["ProfilerStep#1", "attn_fwd", "cudaLaunchKernel"]) | texts,
        "ts": times,
        "dur": times,
    },
    optional={"pid": st.integers(0, 2) | texts, "tid": st.integers(0, 2) | texts, "args": arguments},
)


@given(st.lists(clean_events, max_size=12), st.dictionaries(texts, texts | integers, max_size=2), st.booleans())
def test_a_sound_trace_reads_alike_at_once_and_event_by_event(
    events: list[dict[str, object]], head: dict[str, object], ascii_only: bool
) -> None:
    document = {**head, "traceEvents": events}
    data = json.dumps(document, ensure_ascii=ascii_only).encode()
    assert read_tolerantly(data) == read_trace(data)
    assert read_trace(data).problems == ()


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.json.gz")), ids=lambda path: str(path.name))
def test_a_recorded_trace_reads_alike_at_once_and_event_by_event(path: Path) -> None:
    assert read_tolerantly(path.read_bytes()) == read_trace(path.read_bytes())


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(two_steps()),
    st.sampled_from(["ph", "cat", "name", "ts", "dur", "pid", "tid", "args"]),
    anything,
    st.dictionaries(
        st.sampled_from(["device", "stream", "correlation", "grid", "block", "registers per thread", "bytes"]), anything
    ),
)
def test_any_value_in_any_field_is_read_or_left_out(
    event: dict[str, object], key: str, value: object, args: dict[str, object]
) -> None:
    events = [*two_steps(), {**event, "args": args}, {**event, key: value}]
    trace = read_trace(write(events))
    build_health(trace, 2)
    build_kernel_summaries(trace)
    build_operator_summaries(trace)
    build_activity(trace)
