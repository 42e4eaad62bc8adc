"""Rules on what a run cost: hidden copy, score matrix, host-bound, first call, occupancy artefact."""

from dataclasses import replace

import pytest

from attention.workload import Workload
from profiling.findings import RULES, evaluate_rules
from profiling.findings.occupancy_artefact import RULE as OCCUPANCY
from profiling.recording import Recording, Samples
from profiling.report import analyze_recording, analyze_trace
from profiling.report_schema import RuleVerdict
from tests.conftest import TRACES, SampleRecording, spread_samples


def verdict_of(recording: Recording, rule: str) -> RuleVerdict:
    return next(verdict for verdict in analyze_recording(recording).report.verdicts if verdict.rule == rule)


def with_submission(recording: Recording, samples_ns: tuple[int, ...]) -> Recording:
    submission = Samples(samples_ns=samples_ns, method="host clock")
    return replace(recording, latency=replace(recording.latency, submission=submission))


def test_hidden_copy_fires_on_the_clone_under_masked_fill(sample_recording: SampleRecording) -> None:
    analysis = analyze_recording(sample_recording("naive"))
    verdict = next(verdict for verdict in analysis.report.verdicts if verdict.rule == "hidden_copy")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "1 copy of a whole input under aten::masked_fill a step, 256\u2009MiB" in verdict.explanation
    assert "126\u2009µs" in verdict.explanation
    assert analysis.trace is not None
    [evidence] = verdict.evidence
    assert [analysis.trace.device_items[index].kind for index in evidence.items] == ["memcpy"] * 3
    assert {analysis.trace.operators[index].name for index in evidence.operators} == {"aten::copy_"}
    assert "masked_fill_" in verdict.advice


def test_hidden_copy_fires_on_a_cpu(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(sample_recording("cpu_naive"), "hidden_copy")
    assert verdict.status == "fired"
    assert "1 copy of a whole input under aten::masked_fill a step" in verdict.explanation
    assert all(evidence.operators for evidence in verdict.evidence)


@pytest.mark.parametrize("name", ["math", "efficient", "flash", "cudnn", "cpu_flash"])
def test_hidden_copy_is_clear_without_one(sample_recording: SampleRecording, name: str) -> None:
    assert verdict_of(sample_recording(name), "hidden_copy").status == "clear"


def test_hidden_copy_without_operators_is_not_evaluated(sample_recording: SampleRecording) -> None:
    from profiling.findings.hidden_copy import RULE

    analysis = analyze_recording(sample_recording("naive"))
    assert analysis.trace is not None
    assert RULE.evaluate(analysis.report, replace(analysis.trace, operators=())).status == "not_evaluated"
    assert RULE.evaluate(analysis.report, None).status == "not_evaluated"


@pytest.mark.parametrize(
    ("name", "copy", "ratio"),
    [("naive", "256\u2009MiB a copy in bfloat16", "4.00×"), ("math", "512\u2009MiB a copy in float32", "8.00×")],
)
def test_score_matrix_fires_on_composed_backends(
    sample_recording: SampleRecording, name: str, copy: str, ratio: str
) -> None:
    verdict = verdict_of(sample_recording(name), "score_matrix")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "[8, 16, 1024, 1024]" in verdict.explanation
    assert copy in verdict.explanation
    assert ratio in verdict.explanation


def test_score_matrix_smaller_than_the_inputs_is_information(sample_recording: SampleRecording) -> None:
    recording = sample_recording("cpu_naive")
    assert isinstance(recording.workload, Workload)
    short = replace(recording.workload, seq_len_q=64, seq_len_kv=64)
    verdict = verdict_of(replace(recording, workload=short), "score_matrix")
    assert (verdict.status, verdict.severity) == ("fired", "info")


@pytest.mark.parametrize("name", ["efficient", "flash", "cudnn", "cpu_flash"])
def test_score_matrix_is_clear_on_fused_backends(sample_recording: SampleRecording, name: str) -> None:
    assert verdict_of(sample_recording(name), "score_matrix").status == "clear"


def test_score_matrix_is_judged_by_memory_where_the_trace_is_missing(sample_recording: SampleRecording) -> None:
    assert verdict_of(replace(sample_recording("math"), trace_gz=None), "score_matrix").status == "fired"
    assert verdict_of(replace(sample_recording("flash"), trace_gz=None), "score_matrix").status == "clear"


def test_score_matrix_without_shape_or_memory_is_not_evaluated(sample_recording: SampleRecording) -> None:
    recording = replace(sample_recording("math"), trace_gz=None, memory=None)
    assert verdict_of(recording, "score_matrix").status == "not_evaluated"
    brought = analyze_trace((TRACES / "cpu_naive.json.gz").read_bytes()).report
    verdict = next(verdict for verdict in brought.verdicts if verdict.rule == "score_matrix")
    assert verdict.status == "not_evaluated"
    assert "record_shapes=True" in verdict.explanation


def test_host_bound_fires_when_submission_is_slower(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(with_submission(sample_recording("cudnn"), spread_samples(122_000)), "host_bound")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "122\u2009µs" in verdict.explanation
    assert "57.5\u2009µs" in verdict.explanation
    assert "2.12× slower" in verdict.explanation
    assert any("graph replay" in evidence.text for evidence in verdict.evidence)


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn"])
def test_host_bound_is_clear_when_the_device_is_slower(sample_recording: SampleRecording, name: str) -> None:
    assert verdict_of(sample_recording(name), "host_bound").status == "clear"


def test_host_bound_is_clear_inside_the_noise(sample_recording: SampleRecording) -> None:
    # Median 60 µs, quartiles 50 and 70 µs, against 57.5 µs on the device: 2.5 µs apart, 10 µs of noise.
    noisy = (40_000, 50_000, 60_000, 70_000, 80_000)
    assert verdict_of(with_submission(sample_recording("cudnn"), noisy), "host_bound").status == "clear"


def test_host_bound_reads_the_trace_where_no_graph_could_be_replayed(sample_recording: SampleRecording) -> None:
    recording = with_submission(sample_recording("cudnn"), spread_samples(122_000))
    verdict = verdict_of(replace(recording, latency=replace(recording.latency, device=None)), "host_bound")
    assert verdict.status == "fired"
    assert "58.0\u2009µs" in verdict.explanation
    assert any("profiled step" in evidence.text for evidence in verdict.evidence)


def test_host_bound_without_clocks_is_not_evaluated(
    sample_recording: SampleRecording, cpu_recording: Recording
) -> None:
    recording = sample_recording("cudnn")
    unsubmitted = replace(recording.latency, submission=None)
    assert verdict_of(replace(recording, latency=unsubmitted), "host_bound").status == "not_evaluated"
    clockless = replace(recording, latency=replace(recording.latency, device=None), trace_gz=None)
    assert verdict_of(clockless, "host_bound").status == "not_evaluated"
    assert "ran on the CPU" in verdict_of(cpu_recording, "host_bound").explanation


def test_first_call_informs_of_a_start_up_cost(sample_recording: SampleRecording) -> None:
    verdict = verdict_of(sample_recording("cudnn"), "first_call")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert "682\u2009ms" in verdict.explanation


def test_first_call_is_clear_when_it_is_like_the_others(cpu_recording: Recording) -> None:
    verdict = verdict_of(cpu_recording, "first_call")
    assert verdict.status == "clear"
    assert "1.90\u2009ms" in verdict.explanation
    assert "A process that ran such a call before has paid it" in verdict.explanation


def test_first_call_without_clocks_is_not_evaluated(sample_recording: SampleRecording) -> None:
    recording = sample_recording("cudnn")
    untimed = replace(recording.latency, first_call_ns=None)
    assert verdict_of(replace(recording, latency=untimed), "first_call").status == "not_evaluated"
    alone = replace(recording.latency, wall=None, device=None, submission=None)
    assert verdict_of(replace(recording, latency=alone), "first_call").status == "not_evaluated"


@pytest.mark.parametrize(("name", "share"), [("cudnn", "18.8"), ("naive", "18.8")])
def test_occupancy_artefact_informs_above_the_default_limit(
    sample_recording: SampleRecording, name: str, share: str
) -> None:
    verdict = verdict_of(sample_recording(name), "occupancy_artefact")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert f"{share}\u2009%" in verdict.explanation
    assert verdict.evidence[0].items


@pytest.mark.parametrize("name", ["math", "efficient", "flash"])
def test_occupancy_artefact_is_clear_at_or_below_the_limit(sample_recording: SampleRecording, name: str) -> None:
    verdict = verdict_of(sample_recording(name), "occupancy_artefact")
    assert verdict.status == "clear"
    assert "0 take more than 48 KiB" in verdict.explanation


def test_occupancy_artefact_needs_occupancy_and_the_device_limits(
    sample_recording: SampleRecording, cpu_recording: Recording
) -> None:
    assert verdict_of(cpu_recording, "occupancy_artefact").status == "not_evaluated"
    report = analyze_recording(sample_recording("cudnn")).report
    blind = tuple(replace(kernel, occupancy_recomputed=None) for kernel in report.kernels)
    assert OCCUPANCY.evaluate(replace(report, kernels=blind), None).status == "not_evaluated"


@pytest.mark.parametrize("name", ["efficient", "flash", "cudnn", "cpu_flash"])
def test_healthy_fused_runs_fire_nothing_above_information(sample_recording: SampleRecording, name: str) -> None:
    report = analyze_recording(sample_recording(name)).report
    loud = [verdict for verdict in report.verdicts if verdict.severity in ("warning", "error")]
    assert not loud


def test_every_rule_answers_on_an_empty_recording_and_says_why_not() -> None:
    report = analyze_recording(Recording()).report
    assert [verdict.rule for verdict in report.verdicts] == [rule.slug for rule in RULES]
    assert {verdict.status for verdict in report.verdicts} == {"not_evaluated"}
    assert all(verdict.explanation.endswith(".") and verdict.source for verdict in report.verdicts)


def test_fired_findings_carry_numbers_evidence_and_advice(sample_recording: SampleRecording) -> None:
    for name in ("naive", "math", "cudnn", "cpu_naive"):
        for verdict in analyze_recording(sample_recording(name)).report.verdicts:
            if verdict.status == "fired":
                assert any(character.isdigit() for character in verdict.explanation), verdict
                assert verdict.evidence, verdict
                assert verdict.advice, verdict
            else:
                assert verdict.severity is None


def test_verdicts_are_a_pure_function_of_report_and_trace(sample_recording: SampleRecording) -> None:
    analysis = analyze_recording(sample_recording("naive"))
    assert evaluate_rules(analysis.report, analysis.trace) == analysis.report.verdicts
