from dataclasses import replace

import pytest

from profiling.answers import CPU_WORK, KERNEL, OPERATOR, REGION, WARM
from profiling.recording import Failure, Recording, Samples
from profiling.report import analyze_recording, analyze_trace, build_report
from profiling.report_schema import Answer
from tests.conftest import TRACES, SampleRecording, spread_samples
from tests.unit.trace_builder import annotation, device_item, launch, read

QUESTIONS = 6


def answers_of(recording: Recording) -> dict[str, Answer]:
    return {answer.question: answer for answer in analyze_recording(recording).report.answers}


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn", "cpu_flash", "cpu_naive"])
def test_every_run_answers_six_questions_with_evidence(sample_recording: SampleRecording, name: str) -> None:
    answers = answers_of(sample_recording(name))
    assert len(answers) == QUESTIONS
    for answer in answers.values():
        assert answer.question.endswith("?")
        assert answer.answer.endswith(".")
        assert answer.evidence, answer


def test_region_names_label_steps_and_device_time(sample_recording: SampleRecording) -> None:
    answer = answers_of(sample_recording("naive"))[REGION]
    assert "3 recorded steps" in answer.answer
    assert "attn_fwd" in answer.answer
    assert "1.06\u2009ms" in answer.answer
    assert any("ProfilerStep#3 to ProfilerStep#5" in text for text in answer.evidence)
    assert any("warm-up 2" in text for text in answer.evidence)


def test_warm_up_compares_first_call_and_steps(sample_recording: SampleRecording) -> None:
    answer = answers_of(sample_recording("cudnn"))[WARM]
    assert answer.answer.startswith("Yes")
    assert "682\u2009ms" in answer.answer
    assert any("slower than a later one" in text for text in answer.evidence)


def test_warm_up_of_a_brought_trace_is_not_claimed() -> None:
    report = analyze_trace((TRACES / "flash.json.gz").read_bytes()).report
    answer = next(answer for answer in report.answers if answer.question == WARM)
    assert answer.answer.startswith("The trace does not say")
    assert "steps differ by" in answer.answer
    assert "labelled attn_fwd" in report.answers[0].answer


def test_dominant_kernel_comes_with_its_share(sample_recording: SampleRecording) -> None:
    answer = answers_of(sample_recording("naive"))[KERNEL].answer
    # masked_fill takes 359 of 1064 µs.
    assert "masked_fill" in answer
    assert "33." in answer


def test_dominant_operator_on_device_and_cpu(sample_recording: SampleRecording) -> None:
    answer = answers_of(sample_recording("flash"))[OPERATOR].answer
    assert answer.startswith("aten::scaled_dot_product_attention takes the most total device time")
    on_cpu = answers_of(sample_recording("cpu_flash"))[OPERATOR].answer
    assert on_cpu.startswith("aten::scaled_dot_product_attention takes the most total CPU time")


def test_copies_are_counted_apart(sample_recording: SampleRecording) -> None:
    answers = analyze_recording(sample_recording("naive")).report.answers
    assert answers[4].answer.startswith("1 memcpy and 1 memset a step")
    assert any("256\u2009MiB" in text for text in answers[4].evidence)
    alone = analyze_recording(sample_recording("flash")).report.answers[4].answer
    assert alone.startswith("No memcpy and no memset a step. There is no gap")
    cast = analyze_recording(sample_recording("math")).report.answers[4].answer
    assert "Kernels that cast or copy take 10." in cast


def test_cpu_work_says_which_bound_it_is(sample_recording: SampleRecording) -> None:
    recording = sample_recording("cudnn")
    assert "submission hides behind device work" in answers_of(recording)[CPU_WORK].answer
    slow = Samples(samples_ns=spread_samples(122_000), method="host clock")
    answer = answers_of(replace(recording, latency=replace(recording.latency, submission=slow)))[CPU_WORK].answer
    assert "host-bound" in answer
    assert "122\u2009µs" in answer
    assert recording.latency.device is not None
    same = replace(recording.latency, submission=replace(slow, samples_ns=recording.latency.device.samples_ns))
    assert "even within the noise" in answers_of(replace(recording, latency=same))[CPU_WORK].answer


def test_on_a_cpu_all_work_is_the_cpus(cpu_recording: Recording) -> None:
    answers = answers_of(cpu_recording)
    assert answers[CPU_WORK].answer.startswith("All of it")
    assert "ran on the CPU" in answers[KERNEL].answer


def test_refused_run_says_that_nothing_was_measured(sample_recording: SampleRecording) -> None:
    refused = Failure(stage="first_call", kind="refused", message="sdpa_flash did not run.", hint="Change the dtype.")
    full = sample_recording("flash")
    recording = Recording(
        workload=full.workload, environment=full.environment, decisions=full.decisions, failures=(refused,)
    )
    answers = answers_of(recording)
    assert len(answers) == QUESTIONS
    assert {answer.answer for answer in answers.values()} == {"Nothing was measured: sdpa_flash refused this workload."}
    assert answers[REGION].evidence == ("first_call: sdpa_flash did not run.",)


def test_run_without_trace_names_the_stage_that_failed(sample_recording: SampleRecording) -> None:
    failure = Failure(stage="profile", kind="out_of_memory", message="out of memory", hint="Lower batch_size.")
    recording = replace(sample_recording("flash"), trace_gz=None, failures=(failure,))
    answers = answers_of(recording)
    assert "the stage profile did not finish (out_of_memory)" in answers[KERNEL].answer
    assert answers[WARM].answer.startswith("Yes")
    assert "44\u2009µs" in answers[CPU_WORK].answer or "44.0\u2009µs" in answers[CPU_WORK].answer


def test_copies_between_host_and_device_are_those_of_the_steps() -> None:
    def report_of(**copy: object) -> str:
        trace = read(
            annotation("ProfilerStep#1", 0, 100),
            launch(1, 10, name="cudaMemcpyAsync"),
            device_item(1, 20, 5, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", **copy),
            launch(2, 200, name="cudaMemcpyAsync"),
            device_item(2, 210, 5, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", bytes=512),
        )
        answers = build_report(Recording(), trace).answers
        return next(answer.answer for answer in answers if answer.question == CPU_WORK)

    assert "1 copy between host and device (size in all: 1\u2009KiB)" in report_of(bytes=1024)
    assert "1 copy between host and device (size in all: not recorded)" in report_of()
