import gzip
import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.backends import Decision
from attention.workload import Workload
from profiling.recording import Failure, Latency, Recording, Samples, parse_recording, write_recording
from profiling.report import analyze_file, analyze_recording, analyze_trace, build_cost, build_report, predict_backend
from profiling.report_schema import parse_report, write_report
from profiling.trace.repair import InvalidTrace
from tests.conftest import TRACES, SampleRecording

ALL = ["naive", "math", "efficient", "flash", "cudnn", "cpu_flash", "cpu_naive"]


@pytest.mark.parametrize("name", ALL)
def test_report_survives_json_and_pickle(sample_recording: SampleRecording, name: str) -> None:
    report = analyze_recording(sample_recording(name)).report
    assert parse_report(write_report(report)) == report
    assert pickle.loads(pickle.dumps(report)) == report


@pytest.mark.parametrize("name", ["naive", "cpu_flash"])
def test_an_old_recording_gives_the_same_report(sample_recording: SampleRecording, name: str) -> None:
    recording = sample_recording(name)
    reopened = parse_recording(write_recording(recording))
    assert analyze_recording(reopened).report == analyze_recording(recording).report


def test_json_that_is_no_recording_is_refused_and_not_read_as_an_empty_one() -> None:
    for text in (b'{"beach": true}', b"[]", b"3"):
        with pytest.raises(ValueError, match="not a recording"):
            parse_recording(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 99}, "format_version=99 .* not known; this app reads 1"),
        ({"format_version": "x"}, "format_version='x' .* not known"),
        ({"workload": {"mask": {"name": "casual"}}}, "mask='casual' is not known; did you mean causal"),
        ({"workload": {"batch_size": "float32"}}, "workload.batch_size is wrong"),
        ({"workload": {"kv_heads": 3}}, "kv_heads=3 does not divide num_heads=16; choose 1, 2, 4, 8 or 16; record"),
        ({"latency": {"device": {"samples_ns": [], "method": "events"}}}, "latency.device has no samples"),
        ({"latency": {"wall": {"samples_ns": [-1], "method": "clock"}}}, "latency.wall has no samples or negative"),
        ({"gpu_seconds": float("nan")}, "gpu_seconds is wrong: .* finite number"),
        ({"trace_gz": "!!!"}, "trace_gz is wrong"),
        ({"verdicts": []}, "report.json"),
    ],
)
def test_a_recording_with_a_wrong_value_is_refused_by_what_is_wrong(changes: dict[str, object], message: str) -> None:
    data = json.dumps({"format_version": 1, **changes}).encode()
    with pytest.raises(InvalidTrace, match=message) as refused:
        analyze_file(data)
    assert "\n" not in str(refused.value)


def test_a_cut_off_recording_is_refused_as_one(sample_recording: SampleRecording) -> None:
    data = write_recording(sample_recording("naive"))
    with pytest.raises(InvalidTrace, match="recording is cut off"):
        analyze_file(data[: len(data) // 2])


def test_empty_recording_has_a_report_without_invented_numbers() -> None:
    report = analyze_recording(Recording()).report
    assert report.trace_health is None
    assert report.device_items_per_step is None
    assert report.observed_backend is None
    assert report.cost is None
    assert report.latency.device is None
    assert parse_report(write_report(report)) == report


@pytest.mark.parametrize("trace", [b"", b"not a trace", gzip.compress(b"[1, 2"), gzip.compress(b'{"a": 1}')])
def test_bad_trace_becomes_a_failure_and_the_rest_stands(sample_recording: SampleRecording, trace: bytes) -> None:
    recording = sample_recording("flash")
    analysis = analyze_recording(replace(recording, trace_gz=trace))
    assert analysis.trace is None
    failure = analysis.report.failures[-1]
    assert (failure.stage, failure.kind) == ("profile", "error")
    assert failure.hint
    assert analysis.report.latency.device is not None
    assert analysis.report.correctness == recording.correctness
    with pytest.raises(InvalidTrace):
        analyze_trace(trace)


def test_brought_trace_knows_no_workload() -> None:
    analysis = analyze_trace((TRACES / "cudnn.json.gz").read_bytes())
    report = analysis.report
    assert report.workload is None
    assert report.requested_backend is None
    assert report.cost is None
    assert report.observed_backend is not None
    assert report.observed_backend.family == "cudnn"
    assert analysis.trace is not None


def test_plain_json_is_read_like_gzip() -> None:
    packed = (TRACES / "flash.json.gz").read_bytes()
    assert analyze_trace(gzip.decompress(packed)).report == analyze_trace(packed).report


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_any_part_of_a_trace_gives_a_report_that_says_what_it_lacks(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["naive", "cudnn", "flex", "cpu_flash"]))
    document = json.loads(gzip.decompress((TRACES / f"{name}.json.gz").read_bytes()))
    lost = data.draw(st.sets(st.sampled_from(sorted({event.get("cat", "") for event in document["traceEvents"]}))))
    keep = data.draw(st.randoms(use_true_random=False))
    document["traceEvents"] = [
        event for event in document["traceEvents"] if event.get("cat", "") not in lost and keep.random() < 0.8
    ]
    report = analyze_recording(Recording(trace_gz=json.dumps(document).encode())).report
    assert parse_report(write_report(report)) == report
    assert len(report.answers) == 6
    assert report.observed_backend is not None or report.failures


@pytest.mark.parametrize(("name", "predicted"), [("flash", "sdpa_flash"), ("naive", "naive"), ("cudnn", "sdpa_cudnn")])
def test_an_accepted_choice_is_its_own_prediction(sample_recording: SampleRecording, name: str, predicted: str) -> None:
    assert predict_backend(sample_recording(name)) == predicted


def test_selector_is_predicted_by_its_pick(sample_recording: SampleRecording) -> None:
    recording = sample_recording("cudnn")
    auto = replace(recording, workload=replace(recording.workload or Workload(), backend="sdpa_auto"))
    assert predict_backend(auto) == "sdpa_cudnn"
    decisions = tuple(
        replace(decision, selects="sdpa_flash") if decision.backend == "sdpa_auto" else decision
        for decision in auto.decisions
    )
    assert predict_backend(replace(auto, decisions=decisions)) == "sdpa_flash"


def test_nothing_is_predicted_for_a_refusal_or_without_decisions() -> None:
    workload = Workload(backend="sdpa_flash")
    refused = Decision(backend="sdpa_flash", verdict="rejected", reason="needs float16 or bfloat16, this is float32")
    assert predict_backend(Recording(workload=workload, decisions=(refused,))) is None
    assert predict_backend(Recording(workload=workload)) is None
    assert predict_backend(Recording()) is None


def test_refused_run_reports_the_refusal_and_no_number(sample_recording: SampleRecording) -> None:
    full = sample_recording("flash")
    failure = Failure(stage="first_call", kind="refused", message="sdpa_flash did not run.", hint="Change the dtype.")
    recording = Recording(workload=full.workload, environment=full.environment, failures=(failure,))
    report = analyze_recording(recording).report
    assert report.failures == (failure,)
    assert report.latency.device is None
    assert report.roofline is None
    assert not report.kernels


def test_cost_of_the_tutorials_case() -> None:
    cost = build_cost(Workload())
    # 1024 × 1025 / 2 allowed pairs a head, 128 heads in all, 2 products of 64, 2 FLOPs a multiply-add.
    assert cost.flops == 524_800 * 128 * 64 * 4
    assert cost.bytes_min == 64 * 2**20
    assert cost.score_matrix_bytes == 256 * 2**20
    assert cost.arithmetic_intensity == cost.flops / cost.bytes_min
    assert cost.assumptions


def test_roofline_only_where_a_device_clock_ran(sample_recording: SampleRecording, cpu_recording: Recording) -> None:
    roofline = analyze_recording(sample_recording("cudnn")).report.roofline
    assert roofline is not None
    assert roofline.bound == "compute"
    assert roofline.share_of_ceiling == pytest.approx(0.302, abs=0.001)
    assert analyze_recording(cpu_recording).report.roofline is None


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30))
def test_latency_summary_is_ordered_and_inside_its_samples(samples: list[int]) -> None:
    latency = Latency(device=Samples(samples_ns=tuple(samples), method="graph replay", l2="warm"))
    device = build_report(Recording(latency=latency), None).latency.device
    assert device is not None
    assert min(samples) <= device.p10_ns <= device.median_ns <= device.p90_ns <= max(samples)
    assert (device.count, device.method, device.l2) == (len(samples), "graph replay", "warm")
