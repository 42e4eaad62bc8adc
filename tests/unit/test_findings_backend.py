"""Rules on what ran: requested against observed, and the silent math path."""

from dataclasses import replace

import pytest

from attention.backends import Decision
from attention.workload import MaskSpec, Workload
from profiling.recording import CapturedWarning, Recording
from profiling.report import analyze_recording, analyze_trace
from profiling.report_schema import RuleVerdict
from tests.conftest import TRACES, SampleRecording


def verdict_of(recording: Recording, rule: str) -> RuleVerdict:
    return next(verdict for verdict in analyze_recording(recording).report.verdicts if verdict.rule == rule)


def ask_for(recording: Recording, backend: str) -> Recording:
    assert recording.workload is not None
    return replace(recording, workload=replace(recording.workload, backend=backend))


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn", "cpu_flash", "cpu_naive"])
def test_backend_match_is_clear_when_the_choice_was_honoured(sample_recording: SampleRecording, name: str) -> None:
    verdict = verdict_of(sample_recording(name), "backend_match")
    assert verdict.status == "clear", verdict


def test_pinned_backend_that_did_not_run_is_an_error(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(ask_for(sample_recording("math"), "sdpa_flash"), "backend_match")
    assert (verdict.status, verdict.severity) == ("fired", "error")
    assert "sdpa_flash was asked for" in verdict.explanation
    assert "math (proven)" in verdict.explanation
    assert any("aten::_scaled_dot_product_attention_math" in evidence.text for evidence in verdict.evidence)


def test_selector_that_chose_another_than_predicted_is_a_warning(sample_recording: SampleRecording) -> None:
    # On this device the selector is predicted to choose cuDNN; the trace shows flash.
    verdict = verdict_of(ask_for(sample_recording("flash"), "sdpa_auto"), "backend_match")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "sdpa_cudnn" in verdict.explanation


def test_selector_as_predicted_is_clear(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(ask_for(sample_recording("cudnn"), "sdpa_auto"), "backend_match")
    assert verdict.status == "clear"
    assert "predicted to choose sdpa_cudnn" in verdict.explanation


def test_naive_variants_match_either_without_a_mask_only(sample_recording: SampleRecording) -> None:
    recording = ask_for(sample_recording("naive"), "naive_inplace")
    assert isinstance(recording.workload, Workload)
    assert verdict_of(recording, "backend_match").status == "fired"
    unmasked = replace(recording, workload=replace(recording.workload, mask=MaskSpec(name="none")))
    assert verdict_of(unmasked, "backend_match").status == "clear"


def test_backend_match_needs_a_request_and_a_trace(sample_recording: SampleRecording) -> None:
    recording = sample_recording("flash")
    assert verdict_of(replace(recording, trace_gz=None), "backend_match").status == "not_evaluated"
    assert verdict_of(replace(recording, workload=None), "backend_match").status == "not_evaluated"


def test_silent_math_fires_with_the_refusals_and_what_unlocks(sample_recording: SampleRecording) -> None:
    recording = ask_for(sample_recording("math"), "sdpa_auto")
    refused = Decision(
        backend="sdpa_flash",
        verdict="rejected",
        reason="needs float16 or bfloat16, this is float32",
        unlocked_by=("dtype → bfloat16",),
        basis="probe",
    )
    chosen = Decision(backend="sdpa_auto", verdict="accepted", reason="selected", selects="sdpa_math")
    verdict = verdict_of(replace(recording, decisions=(chosen, refused)), "silent_math")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "20 kernels a step" in verdict.explanation
    # The math path raises bfloat16 to float32: twice the bytes of a score matrix in the workload's dtype.
    assert "a score matrix of 512\u2009MiB in float32" in verdict.explanation
    assert "no warning from PyTorch" in verdict.explanation
    said = CapturedWarning(stage="timing", category="UserWarning", message="SDPA uses its math path")
    warned = verdict_of(replace(recording, decisions=(chosen, refused), warnings=(said,)), "silent_math")
    assert "no warning" not in warned.explanation
    assert any("needs float16 or bfloat16" in evidence.text for evidence in verdict.evidence)
    assert "dtype → bfloat16" in verdict.advice


def test_silent_math_fires_on_a_brought_trace() -> None:
    report = analyze_trace((TRACES / "math.json.gz").read_bytes()).report
    verdict = next(verdict for verdict in report.verdicts if verdict.rule == "silent_math")
    assert verdict.status == "fired"
    assert "does not say whether it was asked for" in verdict.explanation
    assert "warning" not in verdict.explanation  # a trace does not tell what was printed


def test_math_by_name_and_other_backends_are_clear(sample_recording: SampleRecording) -> None:
    assert "asked for by name" in verdict_of(sample_recording("math"), "silent_math").explanation
    assert verdict_of(sample_recording("math"), "silent_math").status == "clear"
    assert verdict_of(sample_recording("cudnn"), "silent_math").status == "clear"


def test_silent_math_without_trace_is_not_evaluated(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(replace(sample_recording("math"), trace_gz=None), "silent_math")
    assert verdict.status == "not_evaluated"
