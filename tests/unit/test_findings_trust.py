"""Rules on whether the numbers can be trusted: trace health, device activity, error budget."""

from dataclasses import replace

import pytest

from profiling.recording import Recording
from profiling.report import analyze_recording, analyze_trace
from profiling.report_schema import RuleVerdict
from profiling.trace.events import Problem, TraceHealth
from tests.conftest import SampleRecording
from tests.unit import trace_builder as tb


def verdict_of(recording: Recording, rule: str) -> RuleVerdict:
    return next(verdict for verdict in analyze_recording(recording).report.verdicts if verdict.rule == rule)


def judge_health(recording: Recording, health: TraceHealth) -> RuleVerdict:
    from profiling.findings.trace_health import RULE

    analysis = analyze_recording(recording)
    return RULE.evaluate(replace(analysis.report, trace_health=health), analysis.trace)


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn", "cpu_flash"])
def test_trace_health_is_clear_on_whole_traces(sample_recording: SampleRecording, name: str) -> None:
    verdict = verdict_of(sample_recording(name), "trace_health")
    assert verdict.status == "clear", verdict
    assert verdict.severity is None


def test_trace_health_fires_on_missing_steps(sample_recording: SampleRecording) -> None:
    recording = sample_recording("flash")
    assert recording.schedule is not None
    verdict = verdict_of(replace(recording, schedule=replace(recording.schedule, active=5)), "trace_health")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "missing steps, 2×" in verdict.evidence[0].text


def test_trace_health_fires_on_lost_kernels(sample_recording: SampleRecording) -> None:
    lost = Problem(kind="launch without device item", count=2, example="cudaLaunchKernel, correlation 9")
    health = TraceHealth(status="suspect", problems=(lost,), launches=3, linked_kernels=1)
    verdict = judge_health(sample_recording("flash"), health)
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "3 launches, 1 device item" in verdict.explanation
    assert "correlation 9" in verdict.evidence[0].text


def test_unusable_trace_is_an_error(sample_recording: SampleRecording) -> None:
    health = TraceHealth(status="unusable", problems=(), launches=3, linked_kernels=0)
    assert judge_health(sample_recording("flash"), health).severity == "error"


def test_kernels_that_start_early_are_not_to_be_recorded_again() -> None:
    early = [tb.launch(5, 1160), tb.device_item(5, 1200, 100)]
    overlap, lost = (
        next(v for v in analyze_trace(tb.write([*tb.two_steps(), *more])).report.verdicts if v.rule == "trace_health")
        for more in (early, [*early, tb.launch(9, 1066)])
    )
    assert (overlap.status, overlap.severity) == ("fired", "warning")
    assert "hold something twice" in overlap.explanation
    assert "busy time" in overlap.advice
    assert "Record again" in lost.advice


def test_a_trace_of_a_cycle_that_never_ran_says_how_the_schedule_works() -> None:
    verdict = next(v for v in analyze_trace(tb.write([])).report.verdicts if v.rule == "trace_health")
    assert (verdict.status, verdict.severity) == ("fired", "error")
    assert "repeat=1" in verdict.advice


def test_trace_health_without_trace_is_not_evaluated(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(replace(sample_recording("flash"), trace_gz=None), "trace_health")
    assert verdict.status == "not_evaluated"
    assert "No trace" in verdict.explanation


def test_device_activity_informs_on_a_cpu(cpu_recording: Recording) -> None:
    verdict = verdict_of(cpu_recording, "device_activity")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert "ran on the CPU" in verdict.explanation
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in verdict.evidence[0].text
    assert verdict.evidence[0].operators


def test_device_activity_is_clear_on_a_gpu(sample_recording: SampleRecording) -> None:
    assert verdict_of(sample_recording("cudnn"), "device_activity").status == "clear"


def test_device_activity_is_an_error_when_a_gpu_was_used(
    sample_recording: SampleRecording, cpu_recording: Recording
) -> None:
    verdict = verdict_of(replace(sample_recording("flash"), trace_gz=cpu_recording.trace_gz), "device_activity")
    assert (verdict.status, verdict.severity) == ("fired", "error")
    assert "did not see the GPU" in verdict.explanation


def test_device_activity_without_trace_is_not_evaluated(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(replace(sample_recording("flash"), trace_gz=None), "device_activity")
    assert verdict.status == "not_evaluated"


def test_error_budget_is_clear_with_its_basis(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(sample_recording("flash"), "error_budget")
    assert verdict.status == "clear"
    assert "9.90e-3" in verdict.explanation
    assert "independent run" in verdict.explanation


def test_error_budget_fires_outside_the_budget(sample_recording: SampleRecording) -> None:
    recording = sample_recording("flash")
    delta = replace(recording.correctness[0], max_abs_error=0.05, error_budget=0.02, within_budget=False)
    verdict = verdict_of(replace(recording, correctness=(delta,)), "error_budget")
    assert (verdict.status, verdict.severity) == ("fired", "error")
    assert "2.50×" in verdict.explanation
    assert "output[0, 1, 1023, 2]" in verdict.evidence[0].text


def test_error_budget_fires_on_values_that_are_not_finite(sample_recording: SampleRecording) -> None:
    recording = sample_recording("cudnn")
    delta = replace(
        recording.correctness[0],
        max_abs_error=None,
        within_budget=False,
        nan_count=64,
        worst_index=None,
        worst_value=None,
        worst_reference=None,
    )
    verdict = verdict_of(replace(recording, correctness=(delta,)), "error_budget")
    assert verdict.severity == "error"
    assert "64 NaN" in verdict.explanation
    assert "no finite element" in verdict.evidence[0].text


def test_nan_in_rows_that_attend_to_nothing_is_a_warning(sample_recording: SampleRecording) -> None:
    recording = sample_recording("math")
    delta = replace(recording.correctness[0], nan_count=64, dead_rows=1)
    verdict = verdict_of(replace(recording, correctness=(delta,)), "error_budget")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "1 rows may attend to nothing" in verdict.explanation


def test_error_budget_without_deltas_or_budget_is_not_evaluated(sample_recording: SampleRecording) -> None:
    recording = sample_recording("flash")
    assert verdict_of(replace(recording, correctness=()), "error_budget").status == "not_evaluated"
    unjudged = replace(recording.correctness[0], error_budget=None, within_budget=None)
    assert verdict_of(replace(recording, correctness=(unjudged,)), "error_budget").status == "not_evaluated"
