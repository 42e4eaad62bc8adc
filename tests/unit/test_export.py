"""Downloads: their bytes, their reasons for being absent, and text from a trace that tries to be more than text."""

import ast
import csv
import gzip
import importlib
import io
import json
import pkgutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profiling.export
from attention.backends import BACKENDS
from attention.masks import MASKS, mask_of
from attention.workload import Direction, MaskForm, MaskSpec, Scalar, Workload
from profiling.export import EXPORTERS
from profiling.export.exporter import Exporter
from profiling.export.kernels_csv import COLUMNS
from profiling.export.replay_script import REPLAYED_BACKENDS, REPLAYED_MASKS, mask_passed_as, write_mask_source
from profiling.recording import Failure, Recording, parse_recording
from profiling.report import Analysis, analyze_recording
from profiling.report_schema import KernelSummary, parse_report

SampleRecording = Callable[[str], Recording]
BY_SLUG = {exporter.slug: exporter for exporter in EXPORTERS}
H200_SAMPLES = ("naive", "math", "efficient", "flash", "cudnn")


@pytest.fixture
def flash(sample_recording: SampleRecording) -> Analysis:
    return analyze_recording(sample_recording("flash"))


def written(analysis: Analysis, slug: str) -> bytes:
    data = BY_SLUG[slug].write(analysis)
    assert data is not None
    return data


def test_every_exporter_of_the_folder_is_offered_and_unique() -> None:
    modules = [
        importlib.import_module(f"profiling.export.{m.name}") for m in pkgutil.iter_modules(profiling.export.__path__)
    ]
    defined = {module.EXPORTER.slug for module in modules if hasattr(module, "EXPORTER")}
    assert defined | {"bundle"} == set(BY_SLUG)
    for attribute in ("slug", "file_name", "title"):
        values = [getattr(exporter, attribute) for exporter in EXPORTERS]
        assert len(set(values)) == len(values)
        assert all(values)


@pytest.mark.parametrize("name", [*H200_SAMPLES, "cpu_flash", "cpu_naive"])
def test_a_file_is_absent_exactly_when_a_reason_is_given(sample_recording: SampleRecording, name: str) -> None:
    analysis = analyze_recording(sample_recording(name))
    for exporter in EXPORTERS:
        reason = exporter.lacks(analysis)
        assert (exporter.write(analysis) is None) == (reason is not None)
        if reason is not None:
            assert reason.endswith(".")


def test_an_empty_recording_gives_what_it_can_and_reasons_for_the_rest() -> None:
    analysis = analyze_recording(Recording())
    absent = {exporter.slug for exporter in EXPORTERS if exporter.lacks(analysis) is not None}
    assert absent == {"chrome_trace", "kernels_csv", "replay_script"}
    for exporter in EXPORTERS:
        assert (exporter.slug in absent) == (exporter.write(analysis) is None)


def test_the_trace_is_the_profilers_own_bytes(sample_recording: SampleRecording, flash: Analysis) -> None:
    assert written(flash, "chrome_trace") == sample_recording("flash").trace_gz


def test_a_trace_brought_uncompressed_is_what_its_name_says(flash: Analysis) -> None:
    assert flash.recording.trace_gz is not None
    plain = gzip.decompress(flash.recording.trace_gz)
    brought = replace(flash, recording=replace(flash.recording, trace_gz=plain))
    assert gzip.decompress(written(brought, "chrome_trace")) == plain


def test_report_and_recording_read_back_equal(flash: Analysis) -> None:
    assert parse_report(written(flash, "report_json")) == flash.report
    reopened = parse_recording(written(flash, "recording"))
    assert reopened == flash.recording
    assert analyze_recording(reopened).report == flash.report


# kernels.csv


def rows_of(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("name", H200_SAMPLES)
def test_kernel_rows_hold_the_reports_numbers(sample_recording: SampleRecording, name: str) -> None:
    analysis = analyze_recording(sample_recording(name))
    rows = rows_of(written(analysis, "kernels_csv"))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == len(analysis.report.kernels)
    for row, kernel in zip(rows, analysis.report.kernels, strict=True):
        assert row["name"] == kernel.name
        assert int(row["device_time_ns"]) == kernel.device_time_ns
        assert float(row["mean_ns"]) == kernel.mean_ns
        assert float(row["share_of_device_time"]) == kernel.share_of_device_time
        assert row["registers_per_thread"] == (
            "" if kernel.registers_per_thread is None else str(kernel.registers_per_thread)
        )
        assert row["grid"] == ("" if kernel.grid is None else "x".join(map(str, kernel.grid)))


def with_kernel_name(analysis: Analysis, name: str) -> Analysis:
    kernel: KernelSummary = replace(
        analysis.report.kernels[0], name=name, short_name=name, launched_by=name, description=name
    )
    return replace(analysis, report=replace(analysis.report, kernels=(kernel,)))


HOSTILE = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.sampled_from(
    [
        '=HYPERLINK("http://example.invalid")',
        "+1",
        "-1+2",
        "@SUM(A1)",
        "\t=1",
        "  =1",
        "a|b|c",
        "``` \n# heading",
        "`tick`",
        "<script>alert(1)</script>",
        "'''\nimport os\nr'''",
        '"""',
        "\\",
        "@@RECORDED@@",
        "\x1b[31mred",
    ]
)


@given(name=HOSTILE)
def test_no_cell_is_a_formula_and_text_survives(build_analysis: Analysis, name: str) -> None:
    (row,) = rows_of(written(with_kernel_name(build_analysis, name), "kernels_csv"))
    for column in ("name", "short_name", "launched_by", "description"):
        cell = row[column]
        assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
        assert cell in (name, f"'{name}")


@pytest.fixture(scope="module")
def build_analysis() -> Analysis:
    # Module scope, so that hypothesis does not analyse the trace for every example.
    from tests.conftest import build_sample

    return analyze_recording(build_sample("flash"))


# bundle


def test_the_bundle_holds_every_other_file_and_is_the_same_every_time(flash: Analysis) -> None:
    data = written(flash, "bundle")
    assert data == written(flash, "bundle")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        contents = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    others = [exporter for exporter in EXPORTERS if exporter.slug != "bundle"]
    assert contents == {f"attnscope/{exporter.file_name}": exporter.write(flash) for exporter in others}


def test_the_bundle_of_a_cpu_run_leaves_the_kernel_table_out(cpu_recording: Recording) -> None:
    with zipfile.ZipFile(io.BytesIO(written(analyze_recording(cpu_recording), "bundle"))) as archive:
        names = set(archive.namelist())
    assert "attnscope/kernels.csv" not in names
    assert {"attnscope/replay.py", "attnscope/recording.json.gz", "attnscope/report.md"} <= names


# replay.py, as text; tests/torch_cpu runs it


def recorded_literal(script: str) -> dict[str, object]:
    tree = ast.parse(script)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RECORDED":
            assert isinstance(node.value, ast.Call)
            value: dict[str, object] = json.loads(ast.literal_eval(node.value.args[0]))
            return value
    raise AssertionError("the script holds no RECORDED")


def test_a_run_with_gradients_has_no_replay_and_says_why(sample_recording: SampleRecording) -> None:
    recording = sample_recording("flash")
    assert recording.workload is not None
    workload = replace(recording.workload, direction=Direction.FORWARD_BACKWARD)
    analysis = analyze_recording(replace(recording, workload=workload))
    assert (
        BY_SLUG["replay_script"].lacks(analysis) == "replay.py runs the forward call alone, and this run has gradients."
    )
    assert BY_SLUG["replay_script"].write(analysis) is None


def test_the_replay_imports_torch_and_the_standard_library_alone(flash: Analysis) -> None:
    tree = ast.parse(written(flash, "replay_script").decode())
    imported = {alias.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    imported |= {str(n.module).split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert imported - {"torch", "__future__"} <= sys.stdlib_module_names
    assert "torch" in imported


def test_the_replay_holds_no_placeholder_and_the_stored_numbers(flash: Analysis) -> None:
    script = written(flash, "replay_script").decode()
    assert "@@" not in script
    recorded = recorded_literal(script)
    (delta,) = flash.report.correctness
    assert recorded["inputs_fingerprint"] == flash.report.inputs_fingerprint
    assert isinstance(recorded["output"], dict)
    assert recorded["output"]["error_budget"] == delta.error_budget
    assert recorded["output"]["max_abs_error"] == delta.max_abs_error
    assert recorded["output"]["reference_samples"] == [[list(s.index), s.value] for s in delta.reference_samples]


@given(text=HOSTILE)
def test_recorded_text_stays_data_in_the_replay(build_analysis: Analysis, text: str) -> None:
    report = build_analysis.report
    assert report.environment is not None
    report = replace(
        report,
        environment=replace(report.environment, device_name=text, torch=text),
        correctness=tuple(replace(delta, budget_basis=text) for delta in report.correctness),
    )
    plain = ast.parse(written(build_analysis, "replay_script").decode())
    script = written(replace(build_analysis, report=report), "replay_script").decode()
    recorded = recorded_literal(script)
    assert isinstance(recorded["machine"], dict)
    assert recorded["machine"]["device_name"] == text
    assert isinstance(recorded["output"], dict)
    assert recorded["output"]["budget_basis"] == text
    assert len(ast.parse(script).body) == len(plain.body)


def test_replay_names_only_what_the_catalogues_hold() -> None:
    # Not the reverse: a backend or mask that is not replayed yet gives its reason.
    assert set(REPLAYED_BACKENDS) <= {backend.slug for backend in BACKENDS}
    assert set(REPLAYED_MASKS) <= {mask.slug for mask in MASKS}


def test_an_unknown_backend_or_mask_is_no_replay_but_a_reason(flash: Analysis) -> None:
    assert flash.report.workload is not None
    for change in ({"backend": "other"}, {"mask": MaskSpec(name="other")}):
        report = replace(flash.report, workload=replace(flash.report.workload, **change))
        reason = BY_SLUG["replay_script"].lacks(replace(flash, report=report))
        assert reason is not None
        assert "other" in reason


def test_a_refused_run_can_be_replayed_without_numbers(flash: Analysis) -> None:
    refusal = Failure(
        stage="first_call", kind="refused", message="sdpa_flash did not run.", hint="Change one variable."
    )
    report = replace(flash.report, correctness=(), failures=(refusal,))
    recorded = recorded_literal(written(replace(flash, report=report), "replay_script").decode())
    assert recorded["refused"] == refusal.message
    assert recorded["output"] is None


@pytest.mark.parametrize(
    ("backend", "name", "form", "passed_as"),
    [
        ("naive", "none", MaskForm.AUTO, "none"),
        ("naive", "causal", MaskForm.AUTO, "bool"),
        ("naive_inplace", "causal", MaskForm.ADDITIVE, "additive"),
        ("sdpa_flash", "causal", MaskForm.AUTO, "is_causal"),
        ("sdpa_flash", "causal", MaskForm.BOOL, "bool"),
        ("sdpa_math", "none", MaskForm.AUTO, "none"),
    ],
)
def test_how_the_mask_is_passed(backend: str, name: str, form: MaskForm, passed_as: str) -> None:
    assert mask_passed_as(Workload(backend=backend, mask=MaskSpec(name=name, form=form))) == passed_as


MASK_PARAMETERS: dict[str, dict[str, Scalar]] = {
    "sliding_window": {"window": 3, "alignment": "lower_right"},
    "prefix_lm": {"prefix_length": 2},
    "document": {"lengths": "3,6"},
    "padding": {"lengths": "9,4", "side": "left"},
    "random": {"density": 0.4, "seed": 9},
    "dead_rows": {"count": 2},
}


@pytest.mark.parametrize("name", REPLAYED_MASKS)
def test_the_replays_mask_is_the_apps(name: str) -> None:
    spec = MaskSpec(name=name, parameters=MASK_PARAMETERS.get(name, {}))
    workload = Workload(mask=spec, batch_size=2, num_heads=6, kv_heads=6, seq_len_q=9, seq_len_kv=9)
    namespace: dict[str, Any] = {}
    exec("from __future__ import annotations\n" + write_mask_source(workload), namespace)
    stand_in = SimpleNamespace(
        mask=SimpleNamespace(parameters=spec.parameters), batch_size=2, num_heads=6, seq_len_q=9, seq_len_kv=9
    )
    mask = mask_of(workload)
    for app, script in (
        (mask.build_mod(workload), namespace["build_mask_mod"]),
        (mask.build_bias(workload), namespace["build_mask_bias"]),
    ):
        assert (app is None) == (script is None)
        if app is not None:
            pairs = list(product(range(2), range(6), range(9), range(9)))
            assert [app(*pair) for pair in pairs] == [script(stand_in)(*pair) for pair in pairs]


def test_an_exporter_that_needs_nothing_always_writes() -> None:
    exporter = Exporter(slug="s", title="t", file_name="f", media_type="text/plain", encode=lambda analysis: b"data")
    analysis = analyze_recording(Recording())
    assert exporter.lacks(analysis) is None
    assert exporter.write(analysis) == b"data"
