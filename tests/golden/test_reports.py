"""The report of each real H200 trace of the tutorial's case: what ran, how often, and which rules speak."""

from dataclasses import replace

import pytest

from profiling.recording import Samples
from profiling.report import analyze_recording, analyze_trace
from profiling.report_schema import Report, parse_report, write_report
from tests.conftest import TRACES, SampleRecording, spread_samples

# trace: requested, observed, (kernels, memcpy, memset) a step, µs of device items a step
EXPECTED = {
    "naive": ("naive", "naive", (5, 1, 1), 1064),
    "math": ("sdpa_math", "math", (20, 0, 0), 2626),
    "efficient": ("sdpa_efficient", "efficient", (1, 0, 0), 177.7),
    "flash": ("sdpa_flash", "flash", (1, 0, 0), 97.2),
    "cudnn": ("sdpa_cudnn", "cudnn", (1, 0, 1), 58.0),
}
# What a run shows beside its tables: notes, and where something is to be done, warnings.
FIRED = {
    "naive": {
        "hidden_copy": "warning",
        "score_matrix": "warning",
        "work_bound": "info",
        "first_call": "info",
        "low_occupancy": "info",
        "occupancy_artefact": "info",
    },
    "math": {
        "mask_rebuilt": "warning",
        "float32_upcast": "warning",
        "safe_softmax": "warning",
        "score_matrix": "warning",
        "tiny_kernels": "info",
        "work_bound": "info",
        "first_call": "info",
        "low_occupancy": "info",
    },
    "efficient": {"fused_kernels": "info", "work_bound": "info", "first_call": "info", "low_occupancy": "info"},
    "flash": {"fused_kernels": "info", "work_bound": "info", "first_call": "info", "low_occupancy": "info"},
    "cudnn": {
        "fused_kernels": "info",
        "idle_gaps": "info",
        "work_bound": "info",
        "first_call": "info",
        "low_occupancy": "info",
        "occupancy_artefact": "info",
    },
    "cpu_flash": {"device_activity": "info"},
}
FIRED_ON_BARE_TRACES = {
    "naive": {
        "hidden_copy": "warning",
        "score_matrix": "warning",
        "low_occupancy": "info",
        "occupancy_artefact": "info",
    },
    "math": {
        "silent_math": "info",
        "mask_rebuilt": "warning",
        "float32_upcast": "warning",
        "safe_softmax": "warning",
        "score_matrix": "warning",
        "tiny_kernels": "info",
        "low_occupancy": "info",
    },
    "efficient": {"fused_kernels": "info", "low_occupancy": "info"},
    "flash": {"fused_kernels": "info", "low_occupancy": "info"},
    "cudnn": {"fused_kernels": "info", "idle_gaps": "info", "low_occupancy": "info", "occupancy_artefact": "info"},
    "flex": {"fused_kernels": "info", "low_occupancy": "info", "occupancy_artefact": "info"},
    "cpu_naive": {"device_activity": "info", "hidden_copy": "warning"},
}
# The six traces of one workload: what is to be done about each, and whether an occupancy of 0 % is explained.
ABOVE_INFO = {
    "naive": {"hidden_copy", "score_matrix"},
    "math": {"mask_rebuilt", "float32_upcast", "safe_softmax", "score_matrix"},
    "efficient": set(),
    "flash": set(),
    "cudnn": set(),
    "flex": set(),
}
ARTEFACTS = {"naive", "cudnn", "flex"}


def fired(report: Report) -> dict[str, str | None]:
    return {verdict.rule: verdict.severity for verdict in report.verdicts if verdict.status == "fired"}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_ran_and_how_often(sample_recording: SampleRecording, name: str) -> None:
    requested, observed, counts, device_us = EXPECTED[name]
    report = analyze_recording(sample_recording(name)).report
    assert report.requested_backend == report.predicted_backend == requested
    assert report.observed_backend is not None
    assert (report.observed_backend.family, report.observed_backend.confidence) == (observed, "proven")
    items = report.device_items_per_step
    assert items is not None
    assert (items.kernels, items.memcpy, items.memset) == counts
    assert report.steps_recorded == 3
    assert report.device_time_per_step_ns == pytest.approx(device_us * 1000, rel=2e-3)
    assert report.trace_health is not None
    assert report.trace_health.status == "ok"


@pytest.mark.parametrize("name", FIRED)
def test_which_rules_fire(sample_recording: SampleRecording, name: str) -> None:
    assert fired(analyze_recording(sample_recording(name)).report) == FIRED[name]


@pytest.mark.parametrize("name", FIRED_ON_BARE_TRACES)
def test_which_rules_fire_on_the_bare_trace(name: str) -> None:
    assert fired(analyze_trace((TRACES / f"{name}.json.gz").read_bytes()).report) == FIRED_ON_BARE_TRACES[name]


@pytest.mark.parametrize("name", ABOVE_INFO)
def test_a_bare_trace_fires_exactly_what_is_to_be_done(name: str) -> None:
    found = fired(analyze_trace((TRACES / f"{name}.json.gz").read_bytes()).report)
    assert {rule for rule, severity in found.items() if severity != "info"} == ABOVE_INFO[name]
    assert ("occupancy_artefact" in found) == (name in ARTEFACTS)


@pytest.mark.parametrize("submission_ns", [44_000, 122_000])
def test_cudnn_is_host_bound_only_when_submission_is_slower(
    sample_recording: SampleRecording, submission_ns: int
) -> None:
    recording = sample_recording("cudnn")
    submission = Samples(samples_ns=spread_samples(submission_ns), method="host clock until return (test data)")
    report = analyze_recording(replace(recording, latency=replace(recording.latency, submission=submission))).report
    above_info = {rule for rule, severity in fired(report).items() if severity != "info"}
    assert above_info == ({"host_bound"} if submission_ns > 57_500 else set())


@pytest.mark.parametrize("name", EXPECTED)
def test_selector_is_observed_whatever_it_chose(sample_recording: SampleRecording, name: str) -> None:
    recording = sample_recording(name)
    assert recording.workload is not None
    report = analyze_recording(replace(recording, workload=replace(recording.workload, backend="sdpa_auto"))).report
    assert report.predicted_backend == "sdpa_cudnn"
    assert report.observed_backend is not None
    assert report.observed_backend.family == EXPECTED[name][1]
    assert fired(report).get("silent_math") == ("warning" if name == "math" else None)


@pytest.mark.parametrize("name", EXPECTED)
def test_report_round_trips(sample_recording: SampleRecording, name: str) -> None:
    report = analyze_recording(sample_recording(name)).report
    data = write_report(report)
    assert parse_report(data) == report
    assert write_report(parse_report(data)) == data
