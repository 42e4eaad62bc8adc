"""Files made to cost far more than their size: refused or read in bounded time and memory, and only once."""

import gzip
import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from profiling import recording
from profiling.cli import main
from profiling.report import analyze_file, analyze_trace
from profiling.trace import read_trace
from profiling.trace.document import LONGEST_HEAD, LONGEST_NAME
from profiling.trace.parse import MOST_OBJECTS
from profiling.trace.problems import InvalidTrace, TooLarge
from tests.unit.trace_builder import device_item, launch, operator, write
from ui.components.table import MAX_ROWS
from ui.components.timeline import build_timeline
from ui.components.timeline.lanes import MAX_SLICES
from ui.panels import kernels, operators
from ui.view import Origin, RunView


@pytest.mark.parametrize("shape", ["1e400", "[[1e400, 2]]", f"[[{'9' * 5000}]]"])
def test_a_shape_of_numbers_that_nothing_holds_is_left_out(shape: str) -> None:
    data = write([operator("aten::a", 1, 2, args={"Input Dims": "@"})]).replace(b'"@"', shape.encode())
    trace = read_trace(data)
    assert trace.operators[0].input_shapes is None or "[" not in shape
    assert [problem.kind for problem in trace.problems] in (["unexpected value"], [])


def test_a_second_document_is_named() -> None:
    whole = write([operator("aten::a", 1, 2)])
    assert read_trace(whole + b"\n\0\0").problems == ()
    bare = whole[whole.index(b"[") : -1]
    for data in (whole + whole, whole + b"\nlog line", bare + bare):
        assert [problem.kind for problem in read_trace(data).problems] == ["text after the end"]


def test_a_name_has_a_longest_length() -> None:
    trace = read_trace(write([operator("n" * (LONGEST_NAME + 1), 1, 2)]))
    assert len(trace.operators[0].name) == LONGEST_NAME
    assert [problem.kind for problem in trace.problems] == ["over-long name"]


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents":[' + b"{}," * (MOST_OBJECTS + 1) + b"{}]}",
        b'{"a":[' + b"0," * LONGEST_HEAD + b'0],"traceEvents":[]}',
        gzip.compress(b"") * 70_000,
    ],
    ids=["objects", "head", "members"],
)
def test_what_a_small_file_would_make_of_memory_or_time_is_refused(data: bytes) -> None:
    began = time.monotonic()
    with pytest.raises(TooLarge):
        read_trace(data)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 20_000_000,
        b'{"traceEvents":[' + b"1," * 2_000_000 + b"1]}",
        # No event begins as the profiler's do, so that nothing says where the next one is.
        b'{"traceEvents":[' + b'{"cat":"cpu_op","name":"a"b","ph":"X","ts":1,"dur":1},' * 20_000 + b"{}]}",
    ],
    ids=["brackets", "numbers", "quotes"],
)
def test_damage_that_repeats_costs_no_search_of_the_rest_each_time(data: bytes) -> None:
    began = time.monotonic()
    with suppress(InvalidTrace):
        read_trace(data)
    assert time.monotonic() - began < 10


def test_a_bomb_is_expanded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "parse_recording", None)
    monkeypatch.setattr("profiling.report.parse_recording", None)
    with pytest.raises(TooLarge, match="expands to more"):
        analyze_file(gzip.compress(bytes(300 * 2**20), 1))


def test_other_json_is_no_recording_by_its_size() -> None:
    with pytest.raises(ValueError, match="not a recording"):
        recording.parse_recording(b'{"format_version":1,"a":[' + b"[]," * 12 * 2**20 + b"[]]}")


def test_a_softmax_over_more_than_a_tensor_holds_has_no_size() -> None:
    sizes = [2**62, 2**62]
    for dims in ([sizes * 10], [[2] * 10_000], [[10**300] * 4]):
        report = analyze_trace(
            write(
                [
                    operator("aten::_softmax", 10, 20, args={"Input Dims": dims}),
                    launch(1, 15),
                    device_item(1, 30, 40, "softmax_kernel"),
                ]
            )
        ).report
        assert report.kernels


def test_the_timeline_draws_the_longest_gaps() -> None:
    calls = [launch(i, i * 10) for i in range(9_000)]
    items = [device_item(i, i * 10 + 5, 3 + i % 2) for i in range(9_000)]
    drawn = build_timeline(analyze_trace(write([*calls, *items])))
    assert drawn is not None
    gaps = drawn["steps"][0]["gaps"]
    assert len(gaps) == MAX_SLICES // 2
    assert min(gap["duration_ns"] for gap in gaps) == 7000
    assert gaps == sorted(gaps, key=lambda gap: gap["start_ns"])


def test_a_table_shows_so_many_rows_and_says_so() -> None:
    names = range(MAX_ROWS + 5)
    calls = [event for i in names for event in (operator(f"op_{i}", i * 10, 9), launch(i, i * 10 + 1))]
    items = [device_item(i, i * 10 + 5, 3, f"kernel_{i}") for i in names]
    view = RunView(analysis=analyze_trace(write([*calls, *items])), origin=Origin(kind="opened"))
    for panel in (kernels, operators):
        (html,) = panel.PANEL.render(view)
        assert html.count("<tr") == MAX_ROWS + 1
        assert "The first 1,000 of 1,005 rows" in html


def test_arguments_that_are_no_text_break_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a\udcff.json"
    path.write_bytes(write([operator("aten::a", 1, 2)]))
    main(["analyze", str(path), "--against", str(path), "--json", "-"])
    assert "a\ufffd.json" in json.loads(capsys.readouterr().out)["before_title"]
    assert main(["analyze", str(path), "--label", "\udcff"]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
