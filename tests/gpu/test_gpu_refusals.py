"""Refusals on the GPU are results: the table, PyTorch's raw words, no number; and the next run works."""

import pytest

from attention.backends import BACKENDS
from attention.validation import default_fields, parse_workload
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording

SMALL = {"batch_size": 2, "num_heads": 4, "kv_heads": 4, "seq_len_q": 256, "seq_len_kv": 256}


def run(**fields) -> Recording:
    workload = parse_workload(default_fields("cuda") | SMALL | fields)
    (recording,) = (item for item in record(RunRequest(workloads=(workload,))) if isinstance(item, Recording))
    return recording


def verdicts(recording):
    return {decision.backend: decision.verdict for decision in recording.decisions}


@pytest.mark.parametrize(
    ("backend", "fields", "word"),
    [
        ("sdpa_flash", {"dtype": "float32"}, "float32"),
        ("sdpa_flash", {"head_dim": 264}, "264"),
        ("sdpa_flash", {"mask_form": "bool"}, "mask"),
        ("sdpa_flash", {"seq_len_q": 128, "mask_alignment": "upper_left"}, "128"),
        ("sdpa_efficient", {"kv_heads": 2}, "2"),
        ("sdpa_efficient", {"head_dim": 63, "mask": "none"}, "63"),
        ("sdpa_efficient", {"dtype": "float64"}, "float64"),
        ("sdpa_cudnn", {"dtype": "float32"}, "float32"),
        ("sdpa_cudnn", {"head_dim": 264}, "264"),
    ],
)
def test_pinned_backend_refuses(backend, fields, word):
    recording = run(backend=backend, **fields)
    (failure,) = recording.failures
    assert failure.kind == "refused"
    assert word in failure.message
    decision = next(decision for decision in recording.decisions if decision.backend == backend)
    assert decision.verdict == "rejected"
    assert "No available kernel" in decision.raw_message
    assert any("not used because" in warning.message for warning in recording.warnings)
    # No number of any kind.
    assert recording.trace_gz is None
    assert recording.latency.device is recording.latency.wall is recording.latency.first_call_ns is None
    assert recording.correctness == ()
    report = analyze_recording(recording).report
    assert report.kernels == ()
    assert report.observed_backend is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"dtype": "float32"},
        {"dtype": "float64"},
        {"head_dim": 80},
        {"head_dim": 256},
        {"head_dim": 264},
        {"head_dim": 63, "mask": "none"},
        {"mask_form": "bool"},
        {"mask_form": "additive"},
        {"kv_heads": 2},
        {"seq_len_kv": 1, "mask": "none"},
        {"seq_len_q": 1, "mask_alignment": "lower_right"},
        {"seq_len_q": 128, "mask_alignment": "upper_left"},
    ],
    ids=str,
)
def test_rules_agree_with_the_probe(fields):
    from attention.backends import BACKENDS
    from profiling.environment import build_device_facts, capture_environment

    facts = build_device_facts(capture_environment("cuda"))
    recording = run(backend="naive", **fields)
    workload = parse_workload(default_fields("cuda") | SMALL | fields)
    predicted = {backend.slug: backend.check(workload, facts).verdict for backend in BACKENDS}
    assert verdicts(recording) == predicted
    selected = next(decision for decision in recording.decisions if decision.backend == "sdpa_auto").selects
    assert selected == next(b for b in BACKENDS if b.slug == "sdpa_auto").check(workload, facts).selects


def test_auto_that_lands_on_math_raises_the_silent_math_warning():
    report = analyze_recording(run(backend="sdpa_auto", dtype="float64")).report
    assert report.observed_backend.family == "math"
    verdict = next(verdict for verdict in report.verdicts if verdict.rule == "silent_math")
    assert verdict.status == "fired"
    assert verdict.severity == "warning"


def test_every_accepted_small_case_is_right():
    for fields in ({}, {"dtype": "float32"}, {"kv_heads": 2}, {"seq_len_q": 1, "mask_alignment": "lower_right"}):
        probed = {backend.slug for backend in BACKENDS if backend.is_probed}
        taken = verdicts(run(backend="naive", **fields))
        accepted = [slug for slug, verdict in taken.items() if verdict == "accepted" and slug in probed]
        for backend in accepted:
            delta = run(backend=backend, **fields).correctness[0]
            assert delta.within_budget, (backend, fields, delta)


def test_dead_rows_are_left_out_and_counted():
    recording = run(backend="sdpa_math", seq_len_kv=128, mask_alignment="lower_right")
    delta = recording.correctness[0]
    assert delta.dead_rows == 128 * SMALL["batch_size"]
    assert delta.within_budget


def test_too_large_is_refused_with_the_numbers_before_anything_is_allocated():
    import torch

    recording = run(backend="naive", batch_size=64, num_heads=64, kv_heads=64, seq_len_q=65536, seq_len_kv=65536)
    (failure,) = recording.failures
    assert failure.kind == "invalid"
    assert failure.stage == "inputs"
    assert "GiB" in failure.message
    assert torch.cuda.memory_allocated() < 2**30
    assert run(backend="sdpa_flash").failures == ()


def test_out_of_memory_in_spite_of_the_estimate_is_a_failure_and_the_next_run_works(monkeypatch):
    import profiling.recorder

    monkeypatch.setattr(profiling.recorder, "check_memory", lambda *arguments: None)
    recording = run(backend="naive", batch_size=16, num_heads=16, kv_heads=16, seq_len_q=32768, seq_len_kv=32768)
    assert [failure.kind for failure in recording.failures] == ["out_of_memory"]
    assert recording.failures[0].stage == "first_call"
    monkeypatch.undo()
    assert run(backend="sdpa_flash").failures == ()
