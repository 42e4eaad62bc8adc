"""A trace from elsewhere: what it lacks, the banner over a suspect one, and the limits of an upload."""

import gc
import gzip
import time
from dataclasses import replace
from pathlib import Path

import pytest

from profiling.answers import CPU_WORK, KERNEL
from profiling.cli import main
from profiling.export.report_markdown import write_report_markdown
from profiling.lacking import find_lacks
from profiling.recording import write_recording
from profiling.report import Analysis, analyze_file, analyze_recording, analyze_trace
from profiling.taint import describe_taint
from profiling.time_limit import OutOfTime, run_within
from tests.conftest import TRACES, build_sample
from tests.unit.test_ui_panels import NASTY, read_html, words_of
from tests.unit.trace_builder import annotation, device_item, launch, operator, two_steps, write
from ui import opened_file
from ui.components.trace_note import NEEDS, TAINTED_PANELS, render_banner, render_panel_note
from ui.gallery import GalleryEntry
from ui.kept_runs import KeptRuns
from ui.opened_file import UnopenedFile, open_file
from ui.panels import PANELS, compare_traces, kernels, operators
from ui.view import Origin, RunView


def view_of(analysis: Analysis, title: str = "mine.json") -> RunView:
    return RunView(analysis=analysis, origin=Origin(kind="opened", title=title))


def lossy() -> Analysis:
    """Two steps whose last kernel the profiler lost."""
    return analyze_trace(
        write([event for event in two_steps() if event["name"] != "gemm_kernel" or event["ts"] < 1100])
    )


# What the file lacks


def test_every_lack_says_how_to_have_it() -> None:
    bare = analyze_trace(write([operator("aten::mm", 0, 10)]))
    said = {lack.topic: lack.sentence for lack in find_lacks(bare)}
    assert said["shapes"] == "No shapes recorded: record with record_shapes=True."
    assert "schedule" in said["steps"]
    assert "ProfilerActivity.CUDA" in said["device"]
    for sentence in said.values():
        assert "record" in sentence.partition(":")[2] or "recording.json.gz" in sentence


def test_what_is_there_is_not_said_to_lack() -> None:
    shapes = {"args": {"Input Dims": [[2, 3], [3, 4]]}}
    whole = analyze_trace(
        write([*two_steps(), operator("aten::mm", 1013, 5, **shapes)], deviceProperties=[{"id": 0, "name": "GPU"}])
    )
    assert {lack.topic for lack in find_lacks(whole)} == {"clocks", "memory", "values", "call", "machine"}
    assert find_lacks(analyze_recording(build_sample("naive"))) == ()


def test_a_label_that_the_file_lacks_is_named_beside_the_ones_it_has() -> None:
    events = [annotation("ProfilerStep#1", 0, 100), annotation("block", 5, 80), operator("aten::mm", 10, 5)]
    for label, told in (("attn_fwd", True), ("nosuch", True), ("block", False)):
        said = {lack.topic: lack.sentence for lack in find_lacks(analyze_trace(write(events), label=label))}
        assert ("label" in said) == told
        if told:
            assert said["label"] == (
                f"No label {label!r} recorded, so nothing marks each call. "
                "This file's labels: 'block'. Give the one around each call as the label."
            )
    assert "label 'attn_fwd'" in words_of(render_panel_note(view_of(analyze_trace(write(events))), "timeline"))


def test_a_trace_without_device_items_does_not_prove_that_it_ran_on_the_cpu() -> None:
    # A GPU's run under activities=[ProfilerActivity.CPU]: neither launches nor device items.
    analysis = analyze_trace(write([annotation("ProfilerStep#1", 0, 100), operator("aten::mm", 10, 5)]))
    report = analysis.report
    answers = {answer.question: answer.answer for answer in report.answers}
    verdict = next(verdict for verdict in report.verdicts if verdict.rule == "device_activity")
    assert answers[KERNEL] == (
        "Not known: the trace holds no kernel; this ran on the CPU, or the GPU's activity was not recorded."
    )
    assert answers[CPU_WORK].startswith("Not known")
    assert "or the GPU's activity was not recorded" in verdict.explanation
    assert "ProfilerActivity.CUDA" in verdict.advice
    assert "or the GPU's activity was not recorded" in words_of(kernels.render(view_of(analysis)))


def test_a_trace_of_copies_alone_is_not_called_one_of_the_cpu() -> None:
    events = [
        annotation("ProfilerStep#1", 0, 100),
        launch(1, 10),
        device_item(1, 20, 5, name="Memcpy HtoD", cat="gpu_memcpy"),
    ]
    answers = {answer.question: answer.answer for answer in analyze_trace(write(events)).report.answers}
    assert answers[KERNEL] == "None: the trace holds no kernel, only memory copies and sets."


def test_every_panel_shows_a_trace_or_says_what_is_missing() -> None:
    view = view_of(analyze_trace((TRACES / "naive.json.gz").read_bytes()))
    filled = {"summary", "kernels", "operators", "timeline", "downloads", "compare_traces"}
    for panel in PANELS:
        note = render_panel_note(view, panel.slug)
        assert bool(note) == (panel.slug not in filled or panel.slug == "operators"), panel.slug
    assert set(NEEDS) | {"downloads", "compare_traces"} == {panel.slug for panel in PANELS}


def test_operators_without_device_items_have_no_columns_of_the_device() -> None:
    bare = words_of(operators.render(view_of(analyze_trace(write([operator("aten::mm", 0, 10)])))))
    assert "self device time" not in bare
    assert "Device times are not recorded: the trace holds no device item." in bare
    assert "in the strip above" not in bare
    whole = words_of(operators.render(view_of(analyze_trace((TRACES / "naive.json.gz").read_bytes()))))
    assert "self device time" in whole
    assert "Device times are not recorded" not in whole


def test_command_lists_what_the_file_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    main(["analyze", str(TRACES / "flash.json.gz")])
    out = capsys.readouterr().out
    assert "NOT IN THIS FILE" in out
    assert "No shapes recorded: record with record_shapes=True." in out


def test_recorded_shapes_stand_beside_their_operators() -> None:
    events = [
        annotation("ProfilerStep#1", 0, 100),
        *(operator("aten::mm", 10 * i, 5, args={"Input Dims": [[i, 3], [], [[3, 4], [5]]]}) for i in range(1, 6)),
        operator("aten::empty", 80, 5),
    ]
    shown = words_of(operators.render(view_of(analyze_trace(write(events)))))
    assert "[1, 3], [[3, 4], [5]]" in shown
    assert "and 2 more" in shown
    assert "input shapes" in shown
    assert "input shapes" not in words_of(operators.render(view_of(analyze_trace(write([events[0], events[-1]])))))


def test_label_is_the_traces_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [event | {"name": "my_call"} if event["name"] == "attn_fwd" else event for event in two_steps()]
    path = tmp_path / "labelled.json"
    path.write_bytes(write(events))
    for label, spans in ((None, 0), ("my_call", 2)):
        trace = analyze_file(path.read_bytes(), label).trace
        assert trace is not None
        assert sum(step.label_start_ns is not None for step in trace.steps) == spans
    assert main(["analyze", str(path), "--label", "my_call"]) == 0
    recording = write_recording(replace(build_sample("naive"), label="their_own"))
    assert analyze_file(recording).recording.label == "their_own"
    assert analyze_file(recording, "another").recording.label == "another"


# The banner


def test_suspect_trace_has_a_banner_above_every_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    analysis = lossy()
    taint = describe_taint(analysis.report)
    assert taint is not None
    assert taint.title == "The trace is suspect"
    view = view_of(analysis)
    assert "launch without device item, 1×" in words_of(render_banner(view))
    for panel in PANELS:
        note = words_of(render_panel_note(view, panel.slug))
        assert ("The trace is suspect" in note) == (panel.slug in TAINTED_PANELS)
    path = tmp_path / "lossy.json"
    assert analysis.recording.trace_gz is not None
    path.write_bytes(analysis.recording.trace_gz)
    assert main(["analyze", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.index("▲ THE TRACE IS SUSPECT") < out.index("backend") < out.index("KERNEL")
    markdown = write_report_markdown(analysis).decode()
    assert markdown.index("▲ The trace is suspect") < markdown.index("## Summary")


def test_unusable_trace_says_so_and_a_sound_one_says_nothing() -> None:
    taint = describe_taint(analyze_trace(write([])).report)
    assert taint is not None
    assert taint.title == "The trace is unusable"
    for name in ("naive", "cpu_flash"):
        sound = analyze_recording(build_sample(name))
        assert describe_taint(sound.report) is None
        assert render_banner(view_of(sound)) == ""
        assert "suspect" not in write_report_markdown(sound).decode()


def test_names_in_banner_and_comparison_never_become_html() -> None:
    events = [launch(1, 10, name=NASTY), launch(2, 12), device_item(2, 20, 40, NASTY), operator(NASTY, 0, 90)]
    nasty = view_of(analyze_trace(write(events)), title=NASTY)
    other = view_of(analyze_trace(write([launch(2, 12), device_item(2, 20, 50, NASTY + "2")])), title=NASTY)
    drawn = [render_banner(nasty), compare_traces.render(replace(nasty, against=other))]
    drawn += [render_panel_note(nasty, panel.slug) for panel in PANELS]
    for markup in drawn:
        for tag, attributes in read_html(markup).tags:
            assert tag not in {"img", "script"}
            assert not [key for key in attributes if key.startswith("on")]
    assert NASTY in words_of(drawn[1])


# The panel of the comparison


def test_panel_asks_for_a_choice_and_then_shows_every_row() -> None:
    view = view_of(analyze_recording(build_sample("naive")))
    assert "Choose a recorded run" in words_of(compare_traces.render(view))
    shown = read_html(compare_traces.render(replace(view, against=view_of(analyze_recording(build_sample("math"))))))
    words = " ".join(shown.words)
    for part in ("2.48× faster", "backend: sdpa_math before, naive after", "appeared", "vanished", "+256\u2009MiB"):
        assert part in words
    items = [attributes["data-items"] for tag, attributes in shown.tags if tag == "tr" and "data-items" in attributes]
    assert view.analysis.trace is not None
    assert {int(i) for row in items for i in (row or "").split()} == {i.index for i in view.analysis.trace.device_items}


def test_result_of_two_bare_traces_is_said_once() -> None:
    naive, math = (view_of(analyze_trace((TRACES / f"{name}.json.gz").read_bytes())) for name in ("naive", "math"))
    words = words_of(compare_traces.render(replace(naive, against=math)))
    assert words.count("Device time of one step, as profiled") == 1
    assert words.count("2.47× faster") == 1
    assert "The differences below add up to \N{MINUS SIGN}1.56\u2009ms." in words


# Limits of an upload


def write_file(folder: Path, data: bytes) -> str:
    path = folder / "trace.json"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("name", ["", "gone.json"])
def test_a_file_that_is_gone_says_so_without_the_servers_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnopenedFile, match="upload it again") as problem:
        open_file(str(tmp_path / name))
    assert str(tmp_path) not in str(problem.value)


def test_file_opens_as_trace_or_recording(tmp_path: Path) -> None:
    assert open_file(str(TRACES / "flash.json.gz")).report.kernels
    recording = build_sample("cudnn")
    assert open_file(write_file(tmp_path, write_recording(recording))).recording == recording


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "Not a profiler trace"),
        (b'{"beach": true}', "Not a profiler trace"),
        (b"\x1f\x8b\x08 broken", "not readable gzip"),
        (gzip.compress(b"[" + bytes(300 * 2**20), 1), "expands to more than 256 MiB"),
    ],
    ids=["empty", "other json", "damaged gzip", "gzip bomb"],
)
def test_file_that_is_no_trace_gets_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(UnopenedFile, match=words) as problem:
        open_file(write_file(tmp_path, data))
    assert "\n" not in str(problem.value)


def test_file_over_the_limit_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_file, "MAX_FILE_BYTES", 10)
    with pytest.raises(UnopenedFile, match="200 MB are allowed"):
        open_file(write_file(tmp_path, b"[" + b" " * 20 + b"]"))


def test_file_that_takes_too_long_is_ended_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_file, "READ_LIMIT_S", 0.05)
    events = [event for i in range(30_000) for event in (launch(i, 10 * i, 1), device_item(i, 10 * i + 5, 3))]
    path = write_file(tmp_path, write(events))
    with pytest.raises(UnopenedFile, match=r"was not read within 0\.05 s; record fewer steps"):
        open_file(path)
    assert gc.isenabled()  # the reader pauses the collector


def test_work_that_is_ended_leaves_the_collector_on() -> None:
    def paused() -> None:
        gc.disable()
        while True:
            pass

    with pytest.raises(OutOfTime):
        run_within(0.05, paused)
    assert gc.isenabled()


def test_endless_work_is_ended_and_quick_work_is_not() -> None:
    cleaned = []

    def endless() -> None:
        try:
            while True:
                pass
        finally:
            cleaned.append(True)

    started = time.monotonic()
    with pytest.raises(OutOfTime, match=r"longer than 0\.1 s"):
        run_within(0.1, endless)
    assert time.monotonic() - started < 5
    assert cleaned == [True]
    assert run_within(60, lambda: 7) == 7
    with pytest.raises(KeyError):
        run_within(60, lambda: {}["missing"])


def test_an_interruption_never_arrives_after_its_work() -> None:
    def work() -> int:
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
        return 1

    outcomes = set()
    for _ in range(300):
        try:
            outcomes.add(run_within(0.002, work))
        except OutOfTime:
            outcomes.add(0)
        sum(range(100))  # where a late one would arrive
    assert outcomes <= {0, 1}


# Runs that the page may be asked about again


def test_runs_are_kept_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.kept_runs.MOST_RUNS", 2)
    recording = build_sample("flash")
    kept = KeptRuns([GalleryEntry(slug="first", title="first of the gallery", recording=recording)])
    views = [view_of(analyze_recording(build_sample(name)), name) for name in ("naive", "math", "cudnn")]
    keys = [kept.keep(view) for view in views]
    assert kept.find(keys[0]) is None
    for key, view in zip(keys[1:], views[1:], strict=True):
        found = kept.find(key)
        assert found is not None
        assert (found.analysis.report, found.title) == (view.analysis.report, view.title)
    first = kept.find("first")
    assert first is not None
    assert first.title == "first of the gallery"
    assert kept.find("") is None


def test_large_runs_push_older_ones_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.kept_runs.MOST_BYTES", 100_000)
    kept = KeptRuns([])
    view = view_of(analyze_recording(replace(build_sample("flash"), trace_gz=bytes(90_000))))
    keys = [kept.keep(view) for _ in range(3)]
    assert [kept.find(key) is not None for key in keys] == [False, False, True]
