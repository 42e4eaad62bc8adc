"""Panels, strip and findings as pure functions: every sample renders, and no text of a trace becomes HTML."""

import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from profiling.headline import build_headline
from profiling.recording import Failure, Recording
from profiling.report import Analysis, analyze_recording, analyze_trace, build_report
from tests.conftest import TRACES, SampleRecording, build_sample
from ui.components.findings import render_findings
from ui.components.notice import render_notices
from ui.components.origin import render_origin
from ui.components.verdict_strip import build_tiles, render_strip
from ui.guess import score_guess
from ui.markup import Markup, element, text
from ui.panels import PANELS, correctness, kernels, latency, memory, operators, summary
from ui.view import Origin, RunView

SAMPLES = ("naive", "math", "efficient", "flash", "cudnn", "cpu_flash", "cpu_naive")
NASTY = "<img src=x onerror=alert(1)>\"'&</td><script>alert(2)</script>"


def view_of(recording: Recording, *, guess: float | None = None) -> RunView:
    return RunView(analysis=analyze_recording(recording), origin=Origin(kind="live"), guess=guess)


class TagReader(HTMLParser):
    """Start tags with their attributes, and the text between tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read_html(markup: str) -> TagReader:
    reader = TagReader()
    reader.feed(markup)
    return reader


def words_of(markup: str) -> str:
    return " ".join(read_html(markup).words)


@given(st.text(), st.text())
def test_text_and_attributes_come_back_unchanged(inside: str, attribute: str) -> None:
    reader = read_html(element("p", inside, title=attribute))
    assert [tag for tag, _ in reader.tags] == ["p"]
    # HTML has no NUL, and a parser joins line ends; neither can make a tag.
    clean = inside.replace("\x00", "").replace("\r", "")
    assert "".join(reader.words).replace("\x00", "").replace("\r", "") == clean


def test_markup_is_not_escaped_twice() -> None:
    assert element("p", element("b", "a < b")) == "<p><b>a &lt; b</b></p>"
    assert text(Markup("<b>")) == "<b>"


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.slug)
def test_every_panel_renders_every_sample(panel, name: str) -> None:
    values = panel.render(view_of(build_sample(name)))
    assert values
    for value in values:
        if isinstance(value, Markup):
            for words in read_html(value).words:
                # "None" may begin an answer's sentence; a value it must never be.
                assert not re.search(r"^(None|nan)$|[=(→] ?None\b|\bnan\b", words.strip()), words


def with_nasty_names(analysis: Analysis) -> Analysis:
    """The analysis with every name of its trace replaced by one that tries to be HTML."""
    assert analysis.trace is not None
    report = analysis.report
    return replace(
        analysis,
        trace=replace(
            analysis.trace,
            device_items=tuple(structs.replace(item, name=NASTY) for item in analysis.trace.device_items),
            operators=tuple(structs.replace(operator, name=NASTY) for operator in analysis.trace.operators),
        ),
        report=replace(
            report,
            kernels=tuple(
                replace(kernel, name=NASTY, short_name=NASTY, description=NASTY, launched_by=NASTY)
                for kernel in report.kernels
            ),
            operators=tuple(replace(operator, name=NASTY) for operator in report.operators),
            verdicts=tuple(
                replace(verdict, explanation=NASTY, title=NASTY, advice=NASTY) for verdict in report.verdicts
            ),
            answers=tuple(replace(answer, answer=NASTY, evidence=(NASTY,)) for answer in report.answers),
            decisions=tuple(replace(decision, reason=NASTY, raw_message=NASTY) for decision in report.decisions),
            failures=(Failure(stage="profile", kind="error", message=NASTY, hint=NASTY),),
        ),
    )


@pytest.mark.parametrize("name", ["naive", "cpu_flash"])
def test_names_of_a_trace_never_become_html(name: str) -> None:
    analysis = with_nasty_names(analyze_recording(build_sample(name)))
    view = RunView(analysis=analysis, origin=Origin(kind="opened", title=NASTY), guess=3)
    drawn = [render_strip(view), render_findings(view), render_notices(view), render_origin(view)]
    for panel in PANELS:
        drawn += [value for value in panel.render(view) if isinstance(value, Markup)]
    for markup in drawn:
        for tag, attributes in read_html(markup).tags:
            assert tag not in {"img", "script"}
            assert not [key for key in attributes if key.startswith("on")]


def test_strip_of_a_gpu_run_has_every_figure() -> None:
    tiles = {tile.label: tile for tile in build_tiles(view_of(build_sample("naive"), guess=6))}
    assert set(tiles) == {
        "ran",
        "device time",
        "submission time",
        "kernels a step",
        "peak memory",
        "worst error",
        "trace",
    }
    assert tiles["ran"].value == "naive → naive"
    assert tiles["kernels a step"].value == "5"
    assert "+ 1 memcpy" in tiles["kernels a step"].details
    assert "guess: 6 ✗ ran 5" in tiles["kernels a step"].details
    assert "CUDA graph replay" in tiles["device time"].details[0]
    assert tiles["submission time"].details == ("device-bound",)
    assert "✓ within budget" in tiles["worst error"].details


def test_a_name_in_the_strip_breaks_behind_its_underscores() -> None:
    recording = build_sample("naive")
    assert recording.workload is not None
    named = replace(recording, workload=replace(recording.workload, backend="paged_gather"))
    assert "paged_<wbr>gather → naive" in render_strip(view_of(named))


def test_strip_says_host_bound_in_words() -> None:
    recording = build_sample("cudnn")
    latency = recording.latency
    assert latency.submission is not None
    slow = replace(latency.submission, samples_ns=tuple(10 * sample for sample in latency.submission.samples_ns))
    tiles = build_tiles(view_of(replace(recording, latency=replace(latency, submission=slow))))
    assert any("▲ host-bound" in tile.details for tile in tiles)


def test_cpu_run_says_so_instead_of_numbers() -> None:
    view = view_of(build_sample("cpu_flash"))
    labels = {tile.label: tile for tile in build_tiles(view)}
    assert "wall time" in labels
    assert "device time" not in labels
    assert labels["kernels a step"].details == ("no device activity was recorded; this ran on the CPU",)
    assert "No device activity was recorded; this ran on the CPU." in words_of(kernels.render(view))
    assert "aten::" in words_of(kernels.render(view))
    assert "aten::" in words_of(operators.render(view))


def test_refused_run_shows_the_reason_and_no_number(sample_recording: SampleRecording) -> None:
    whole = sample_recording("flash")
    refusal = Failure(stage="decisions", kind="refused", message="No available kernel", hint="Set dtype to bfloat16.")
    decisions = tuple(
        replace(decision, verdict="rejected", reason="takes float16, this is float32", raw_message="PyTorch's words")
        if decision.backend == "sdpa_flash"
        else decision
        for decision in whole.decisions
    )
    view = view_of(
        Recording(workload=whole.workload, environment=whole.environment, decisions=decisions, failures=(refusal,))
    )
    said = words_of(render_notices(view))
    for part in (
        "sdpa_flash did not run",
        "takes float16, this is float32",
        "PyTorch's words",
        "Set dtype to bfloat16.",
    ):
        assert part in said
    assert render_strip(view) == ""
    assert render_findings(view) == ""


def test_partial_run_keeps_what_it_has(sample_recording: SampleRecording) -> None:
    failure = Failure(
        stage="correctness", kind="out_of_memory", message="CUDA out of memory", hint="Use a smaller shape."
    )
    view = view_of(replace(sample_recording("naive"), correctness=(), failures=(failure,)))
    assert "ran out of memory" in words_of(render_notices(view))
    assert "No output was compared" in words_of(correctness.render(view))
    assert any(tile.label == "device time" for tile in build_tiles(view))


def test_brought_trace_claims_nothing_it_cannot_know() -> None:
    analysis = analyze_trace((TRACES / "math.json.gz").read_bytes())
    view = RunView(analysis=analysis, origin=Origin(kind="opened", title="math.json.gz"))
    assert {tile.label for tile in build_tiles(view)} == {"observed", "device time", "kernels a step", "trace"}
    assert "opened from math.json.gz" in words_of(render_origin(view))
    assert "A trace alone" in words_of(memory.render(view))
    assert "A trace alone" in words_of(correctness.render(view))


def test_trace_without_steps_keeps_its_device_items_and_says_why_none_is_counted_a_step() -> None:
    trace = json.loads(gzip.decompress((TRACES / "math.json.gz").read_bytes()))
    trace["traceEvents"] = [
        event for event in trace["traceEvents"] if not str(event.get("name")).startswith(("ProfilerStep", "attn_fwd"))
    ]
    view = RunView(analysis=analyze_trace(json.dumps(trace).encode()), origin=Origin(kind="opened", title="a.json"))
    tiles = {tile.label: tile for tile in build_tiles(view)}
    for label in ("device time", "kernels a step"):
        assert tiles[label].value == "not recorded"
        assert tiles[label].details == (
            "no ProfilerStep span marks a step in this trace; 60 device items in all of it",
        )
    headline = {fact.label: fact for fact in build_headline(view.analysis.report)}
    assert "60 device items" in headline["device items a step"].method


@pytest.mark.parametrize("kind", ["recorded", "live", "opened"])
def test_origin_names_device_date_and_versions(kind: Literal["recorded", "live", "opened"]) -> None:
    view = RunView(
        analysis=analyze_recording(build_sample("cudnn")), origin=Origin(kind=kind, title="cudnn.recording.json.gz")
    )
    said = words_of(render_origin(view))
    for part in (kind, "NVIDIA H200, 2026-11-29", "torch 2.11.0+cu130", "CUDA 13.0", "cuDNN 9.19"):
        assert part in said


def test_opened_trace_is_labelled_with_the_device_that_it_names() -> None:
    analysis = analyze_trace((TRACES / "math.json.gz").read_bytes())
    said = words_of(render_origin(RunView(analysis=analysis, origin=Origin(kind="opened", title="math.json.gz"))))
    assert "opened from math.json.gz, recorded on NVIDIA H200" in said


def test_kernel_table_sorts_by_raw_values_and_selects_items() -> None:
    view = view_of(build_sample("naive"))
    rows = [
        attributes
        for tag, attributes in read_html(kernels.render(view)).tags
        if tag == "tr" and "data-items" in attributes
    ]
    assert len(rows) == len(view.analysis.report.kernels)
    items = {int(item) for row in rows for item in (row["data-items"] or "").split()}
    assert view.analysis.trace is not None
    assert items == {item.index for item in view.analysis.trace.device_items}
    cells = [attributes for tag, attributes in read_html(kernels.render(view)).tags if tag == "td"]
    assert len(cells) == len(rows) * len(kernels.COLUMNS)


@pytest.mark.parametrize(("guess", "mark"), [(5, "✓ right"), (6, "✗ ran 5"), (0, "✗ ran 5")])
def test_guess_is_scored_and_explained(guess: int, mark: str) -> None:
    view = view_of(build_sample("naive"), guess=guess)
    score = score_guess(view)
    assert score is not None
    assert mark in score.short
    assert len(score.kernels) == 5
    shown = words_of(summary.render(view))
    assert all(kernel.description in shown for kernel in score.kernels)


def test_no_guess_no_score() -> None:
    assert score_guess(view_of(build_sample("naive"))) is None
    assert score_guess(view_of(build_sample("cpu_flash"), guess=1)) is None


def test_latency_draws_every_sample_of_every_clock_and_no_other() -> None:
    recording = build_sample("cudnn")
    figure = latency.build_figure(recording.latency)
    assert figure is not None
    drawn = {trace.name: tuple(round(1_000 * y) for y in trace.y) for trace in figure.data}
    clocks = {"device time": "device", "submission time": "submission", "wall time": "wall"}
    assert drawn == {name: getattr(recording.latency, field).samples_ns for name, field in clocks.items()}
    assert figure.layout.yaxis.title.text == "µs a call"


def test_latency_on_a_cpu_has_the_wall_clock_alone() -> None:
    view = view_of(replace(build_sample("cpu_flash"), gpu_seconds=1.0))
    figure = latency.build_figure(view.analysis.recording.latency)
    assert figure is not None
    assert [trace.name for trace in figure.data] == ["wall time"]
    table = read_html(latency.render(view)[0])
    assert table.words.count("not recorded") == 2 * (len(latency.COLUMNS) - 1)


def test_latency_without_a_clock_has_no_chart() -> None:
    view = view_of(replace(build_sample("naive"), latency=Recording().latency))
    update = latency.render(view)[1]
    assert (update["value"], update["visible"]) == (None, False)


def test_device_time_under_no_operator_is_told_so_that_the_column_adds_up() -> None:
    view = view_of(build_sample("naive"))
    assert "under no operator" not in words_of(str(operators.render(view)))
    trace = view.analysis.trace
    assert trace is not None
    orphans = tuple(structs.replace(item, operator=None) for item in trace.device_items)
    report = build_report(view.analysis.recording, replace(trace, device_items=orphans))
    assert report.unattributed_device_time_ns == 3 * (view.analysis.report.device_time_per_step_ns or 0)
    lone = replace(view, analysis=replace(view.analysis, report=report))
    assert "of device time lies under no operator" in words_of(str(operators.render(lone)))
