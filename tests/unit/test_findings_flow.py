"""Rules on how the time goes: host-bound, gaps, synchronisations, work on the host, tiny kernels, noise, start-up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiling.findings.host_bound import PROFILER_SLOWDOWN
from profiling.recording import Recording, Samples, parse_recording
from profiling.report import analyze_recording, analyze_trace
from profiling.report_schema import RuleVerdict
from tests.conftest import TRACES, SampleRecording
from tests.unit import trace_builder as tb

Event = dict[str, Any]

RECORDINGS = sorted((Path(__file__).resolve().parents[2] / "recordings").glob("*.recording.json.gz"))
FLOW_RULES = ["host_bound", "idle_gaps", "sync_in_step", "cpu_work", "tiny_kernels", "noise", "start_up_in_window"]


def verdict_in(events: list[Event] | bytes, rule: str) -> RuleVerdict:
    data = events if isinstance(events, bytes) else tb.write(events, deviceProperties=[tb.H200])
    return next(verdict for verdict in analyze_trace(data).report.verdicts if verdict.rule == rule)


def verdict_of(recording: Recording, rule: str) -> RuleVerdict:
    return next(verdict for verdict in analyze_recording(recording).report.verdicts if verdict.rule == rule)


def bare(name: str) -> bytes:
    return (TRACES / f"{name}.json.gz").read_bytes()


def steps(count: int, length: float, *inside: tuple[float, float, float], kernel: str = "kernel_a") -> list[Event]:
    """``count`` steps; in each, (launch, start, duration) of kernels in µs after the step's start."""
    events = []
    for number in range(count):
        begin = number * length
        events.append(tb.annotation(f"ProfilerStep#{number + 1}", begin, length - 1))
        for position, (launched, start, duration) in enumerate(inside):
            correlation = number * len(inside) + position + 1
            events.append(tb.launch(correlation, begin + launched, 2))
            events.append(tb.device_item(correlation, begin + start, duration, kernel))
    return events


def call(name: str, ts: float, dur: float) -> Event:
    return tb.launch(900, ts, dur, name=name)


@pytest.mark.parametrize("rule", FLOW_RULES)
def test_without_trace_and_clocks_nothing_is_evaluated(rule: str) -> None:
    verdict = verdict_of(Recording(), rule)
    assert verdict.status == "not_evaluated"
    assert verdict.explanation


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".recording.json.gz"))
def test_recorded_healthy_runs_flow(path: Path) -> None:
    report = analyze_recording(parse_recording(path.read_bytes())).report
    loud = {verdict.rule for verdict in report.verdicts if verdict.severity in ("warning", "error")}
    device, submission = report.latency.device, report.latency.submission
    assert device is not None
    assert submission is not None
    host_bound = submission.median_ns - device.median_ns > (submission.iqr_ns + device.iqr_ns) / 2
    assert loud & set(FLOW_RULES) == ({"host_bound"} if host_bound else set())


# Host-bound from the trace alone.


@pytest.mark.parametrize("name", ["naive", "math", "efficient"])
def test_a_trace_decides_that_the_device_is_slower(name: str) -> None:
    verdict = verdict_in(bare(name), "host_bound")
    assert verdict.status == "clear"
    assert "Device-bound" in verdict.explanation


@pytest.mark.parametrize("name", ["flash", "cudnn", "flex"])
def test_a_trace_leaves_open_what_the_profiler_may_explain(name: str) -> None:
    verdict = verdict_in(bare(name), "host_bound")
    assert verdict.status == "not_evaluated"
    assert f"{PROFILER_SLOWDOWN:.2f}×" in verdict.explanation


def test_a_trace_fires_beyond_what_the_profiler_explains() -> None:
    verdict = verdict_in(steps(3, 1000, (100, 110, 10), (800, 810, 10)), "host_bound")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "802\u2009µs a step to submit" in verdict.explanation
    assert len(verdict.evidence[0].items) == 2


def test_time_in_which_the_host_waits_is_not_submission() -> None:
    events = steps(3, 1000, (100, 110, 300), (800, 810, 10))
    waits = [call("cudaStreamSynchronize", number * 1000 + 150, 600) for number in range(3)]
    assert verdict_in(events, "host_bound").status == "not_evaluated"
    assert verdict_in(events + waits, "host_bound").status == "clear"


# Gaps and their causes.


def test_gap_before_a_late_launch_is_the_hosts() -> None:
    verdict = verdict_in(steps(1, 1000, (10, 20, 100), (500, 510, 100)), "idle_gaps")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert "Host wait 390\u2009µs" in verdict.explanation
    assert verdict.evidence[0].items == (1,)


def test_gap_before_a_queued_item_is_the_devices() -> None:
    verdict = verdict_in(steps(1, 1000, (10, 20, 100), (30, 510, 100)), "idle_gaps")
    assert verdict.severity == "warning"
    assert "Kernel wait 390\u2009µs" in verdict.explanation


def test_gap_after_a_wait_of_the_host_is_a_syncs() -> None:
    events = steps(1, 1000, (10, 20, 400), (440, 480, 400))
    verdict = verdict_in([*events, call("cudaStreamSynchronize", 50, 380)], "idle_gaps")
    assert verdict.status == "clear"  # 7 % of the span
    assert "Sync 60.0\u2009µs" in verdict.explanation
    longer = [*steps(1, 1000, (10, 20, 400), (600, 620, 300)), call("cudaStreamSynchronize", 50, 500)]
    assert verdict_in(longer, "idle_gaps").severity == "warning"
    assert ".item()" in verdict_in(longer, "idle_gaps").advice


def test_gap_before_an_item_without_launch_has_no_known_cause() -> None:
    events = [
        tb.launch(1, 5),
        tb.device_item(1, 10, 100),
        tb.device_item(77, 400, 100),
        tb.operator("aten::bmm", 0, 20),
    ]
    assert "Unknown 290\u2009µs" in verdict_in(events, "idle_gaps").explanation


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "flex"])
def test_gaps_of_healthy_traces_are_clear(name: str) -> None:
    assert verdict_in(bare(name), "idle_gaps").status == "clear"


def test_gaps_need_device_items() -> None:
    assert verdict_in(bare("cpu_naive"), "idle_gaps").status == "not_evaluated"


# Synchronisations.


@pytest.mark.parametrize(
    "name", ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy", "hipEventSynchronize"]
)
def test_wait_between_launches_fires(name: str) -> None:
    inside = [tb.operator("aten::item", 95, 60), call(name, 100, 50)]
    verdict = verdict_in([*steps(2, 1000, (10, 20, 30), (300, 310, 30)), *inside], "sync_in_step")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "0.500 waits of the host a step" in verdict.explanation
    assert "aten::item" in verdict.evidence[0].text
    assert len(verdict.evidence[0].operators) == 1


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn", "flex"])
def test_wait_at_the_steps_edge_is_clear(name: str) -> None:
    verdict = verdict_in(bare(name), "sync_in_step")
    assert verdict.status == "clear"
    assert "3 at the steps' edges" in verdict.explanation


def test_wait_in_the_label_fires_also_after_the_last_launch() -> None:
    events = [*steps(1, 1000, (10, 20, 30)), tb.annotation("attn_fwd", 5, 400), call("cudaDeviceSynchronize", 100, 50)]
    verdict = verdict_in(events, "sync_in_step")
    assert verdict.status == "fired"
    assert "between its launches or in its label: 50.0\u2009µs a step" in verdict.explanation


def test_asynchronous_copy_is_no_wait() -> None:
    events = [*steps(1, 1000, (10, 20, 30), (300, 310, 30)), call("cudaMemcpyAsync", 100, 5)]
    assert verdict_in(events, "sync_in_step").status == "clear"


def test_without_steps_only_an_operators_wait_counts() -> None:
    events = [tb.launch(1, 5), tb.device_item(1, 10, 20), call("cudaDeviceSynchronize", 50, 10)]
    assert verdict_in(events, "sync_in_step").status == "clear"
    assert verdict_in([*events, tb.operator("aten::item", 45, 30)], "sync_in_step").status == "fired"


def test_synchronisations_need_runtime_calls() -> None:
    verdict = verdict_in(bare("cpu_naive"), "sync_in_step")
    assert verdict.status == "not_evaluated"
    assert "ProfilerActivity.CUDA" in verdict.explanation


# Work moved to the CPU.


def test_large_copy_to_the_host_fires() -> None:
    events = steps(1, 1000, (10, 20, 30), kernel="kernel_a")
    events += [
        tb.launch(50, 100, name="cudaMemcpyAsync"),
        tb.device_item(50, 120, 60, "Memcpy DtoH (Device -> Pageable)", cat="gpu_memcpy", bytes=2**21),
    ]
    verdict = verdict_in(events, "cpu_work")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "1 a step to the host; 2\u2009MiB" in verdict.explanation
    assert verdict.evidence[0].items == (1,)


def test_scalar_read_by_the_host_is_information() -> None:
    events = steps(1, 10_000, (10, 20, 5000))
    events += [
        tb.launch(50, 6000, name="cudaMemcpyAsync"),
        tb.device_item(50, 6100, 2, "Memcpy DtoH (Device -> Pinned)", cat="gpu_memcpy", bytes=4),
    ]
    assert verdict_in(events, "cpu_work").severity == "info"


def test_operator_that_computes_on_the_host_fires() -> None:
    events = steps(1, 10_000, (10, 20, 5000))
    long = tb.operator("aten::sort", 100, 3000)
    assert verdict_in([*events, long], "cpu_work").severity == "warning"
    # With a runtime call inside it launched or waited, and that is another rule's question.
    assert verdict_in([*events, long, call("cudaStreamSynchronize", 200, 2000)], "cpu_work").status == "clear"


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn", "flex"])
def test_healthy_traces_stay_on_the_device(name: str) -> None:
    assert verdict_in(bare(name), "cpu_work").status == "clear"


def test_work_on_a_cpu_alone_did_not_move_there() -> None:
    assert verdict_in(bare("cpu_naive"), "cpu_work").status == "not_evaluated"


# Tiny kernels.


def test_step_of_tiny_kernels_is_a_warning() -> None:
    verdict = verdict_in(steps(1, 1000, *((10 + 8 * k, 20 + 8 * k, 2) for k in range(20))), "tiny_kernels")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "20 kernels a step" in verdict.explanation
    assert len(verdict.evidence[0].items) == 20


def test_mask_of_the_math_path_is_information_and_two_in_a_row_nothing() -> None:
    math = verdict_in(bare("math"), "tiny_kernels")
    assert math.severity == "info"
    assert "5 kernels a step" in math.explanation
    assert verdict_in(steps(4, 1000, (10, 20, 2), (15, 25, 2)), "tiny_kernels").status == "clear"


def test_tiny_kernels_of_two_steps_are_no_row() -> None:
    assert verdict_in(steps(2, 30, (1, 5, 2), (8, 12, 2)), "tiny_kernels").status == "clear"


@pytest.mark.parametrize("name", ["naive", "efficient", "flash", "cudnn", "flex"])
def test_healthy_traces_hold_no_row_of_tiny_kernels(name: str) -> None:
    assert verdict_in(bare(name), "tiny_kernels").status == "clear"


# Noise.


@pytest.mark.parametrize(
    ("samples", "status", "severity"),
    [
        ((100, 100, 101, 101, 102), "clear", None),
        ((90, 95, 100, 110, 120), "fired", "info"),
        ((60, 80, 100, 130, 200), "fired", "warning"),
    ],
)
def test_noise_by_the_device_clock(
    sample_recording: SampleRecording, samples: tuple[int, ...], status: str, severity: str | None
) -> None:
    recording = sample_recording("flash")
    device = Samples(samples_ns=tuple(1000 * sample for sample in samples), method="graph replay (test data)")
    verdict = verdict_of(replace(recording, latency=replace(recording.latency, device=device)), "noise")
    assert (verdict.status, verdict.severity) == (status, severity)


def test_noise_of_a_cpu_is_information(sample_recording: SampleRecording) -> None:
    recording = sample_recording("cpu_flash")
    wall = Samples(samples_ns=(60_000, 80_000, 100_000, 130_000, 200_000), method="host clock (test data)")
    verdict = verdict_of(replace(recording, latency=replace(recording.latency, wall=wall)), "noise")
    assert (verdict.status, verdict.severity) == ("fired", "info")


def test_noise_of_a_bare_trace_is_that_between_its_steps() -> None:
    assert verdict_in(bare("flash"), "noise").status == "clear"
    events = steps(3, 1000, (10, 20, 100))
    events[-1]["dur"] = 140
    fired = verdict_in(events, "noise")
    assert (fired.status, fired.severity) == ("fired", "warning")
    assert "40.0\u2009%" in fired.explanation
    assert fired.evidence[0].items == (2,)


def test_noise_needs_repetitions_of_one_step() -> None:
    assert "schedule(active=3)" in verdict_in(steps(2, 1000, (10, 20, 100)), "noise").explanation
    assert "ProfilerActivity.CUDA" in verdict_in(bare("cpu_naive"), "noise").explanation
    unlike = [*steps(3, 1000, (10, 20, 100)), tb.launch(99, 50), tb.device_item(99, 300, 5)]
    assert "not repetitions" in verdict_in(unlike, "noise").explanation


# A first call's work inside the window.


@pytest.mark.parametrize("name", ["cuModuleLoadData", "cuLibraryLoadData", "cudaMalloc", "hipModuleLoad"])
def test_code_or_memory_taken_inside_the_steps_fires(name: str) -> None:
    verdict = verdict_in([*steps(3, 1000, (10, 20, 100)), call(name, 300, 200)], "start_up_in_window")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert name in verdict.evidence[0].text


def test_compiling_inside_the_steps_fires() -> None:
    compiling = tb.operator("_compile.compile_inner (dynamo_timed)", 100, 800)
    verdict = verdict_in([*steps(3, 1000, (10, 20, 100)), compiling], "start_up_in_window")
    assert "torch.compile works inside the window" in verdict.explanation
    assert verdict.evidence[0].operators == (0,)


def test_first_step_far_slower_than_the_others_fires() -> None:
    events = steps(3, 10_000, (10, 20, 100))
    labels = [tb.annotation("attn_fwd", 1, 5000), tb.annotation("attn_fwd", 10_001, 50)]
    verdict = verdict_in([*events, *labels, tb.annotation("attn_fwd", 20_001, 50)], "start_up_in_window")
    assert verdict.severity == "info"
    assert "100× slower" in verdict.explanation.replace(".00", "")


@pytest.mark.parametrize("name", ["naive", "math", "efficient", "flash", "cudnn", "flex", "cpu_flash", "cpu_naive"])
def test_warm_traces_hold_no_start_up(name: str) -> None:
    assert verdict_in(bare(name), "start_up_in_window").status == "clear"


def test_start_up_before_the_steps_is_clear() -> None:
    events = [*steps(3, 1000, (10, 20, 100)), call("cudaMalloc", 9000, 100)]
    assert verdict_in(events, "start_up_in_window").status == "clear"


# Memory- or compute-bound.


def test_bound_by_counted_work(sample_recording: SampleRecording) -> None:
    fused, naive = (verdict_of(sample_recording(name), "work_bound") for name in ("flash", "naive"))
    assert (fused.status, fused.severity) == ("fired", "info")
    assert "compute-bound (256\u2009FLOP/byte)" in fused.explanation
    assert "177\u2009TFLOP/s and" in fused.explanation
    assert "not counted" not in fused.explanation
    assert "not counted" in naive.explanation


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".recording.json.gz"))
def test_what_writes_the_score_matrix_is_far_from_the_ceiling_and_fused_kernels_are_not(path: Path) -> None:
    report = analyze_recording(parse_recording(path.read_bytes())).report
    verdicts = {verdict.rule: verdict for verdict in report.verdicts}
    composed = verdicts["score_matrix"].status == "fired"
    assert ("not counted" in verdicts["work_bound"].explanation) == composed


def test_bound_needs_shapes_a_device_clock_and_known_peaks(sample_recording: SampleRecording) -> None:
    assert "record_shapes=True" in verdict_in(bare("flash"), "work_bound").explanation
    assert verdict_of(sample_recording("cpu_flash"), "work_bound").status == "not_evaluated"
    recording = sample_recording("flash")
    assert recording.environment is not None
    unknown = replace(recording, environment=replace(recording.environment, device_name="another GPU"))
    assert "published peaks" in verdict_of(unknown, "work_bound").explanation
