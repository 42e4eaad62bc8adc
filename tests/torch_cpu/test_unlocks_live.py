"""On this CPU: rules against trials, and single changes that were tried."""

from dataclasses import replace

import pytest

from attention.backends import BACKENDS, Decision
from attention.inputs import draw_tensors
from attention.validation import parse_workload
from profiling import eligibility
from profiling.eligibility import build_decisions, confirm_unlocks
from profiling.environment import build_device_facts, capture_environment
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording
from profiling.unlock_timing import measure_unlocks
from profiling.unlocks import UNLOCK_TRIES, find_unlocks
from tests.torch_cpu.drawn_workloads import compare_with_trial, draw_workloads

SMALL = {"batch_size": 2, "num_heads": 4, "kv_heads": 4, "seq_len_q": 32, "seq_len_kv": 32, "dtype": "float32"}
WORKLOADS = 150


@pytest.fixture(scope="module")
def facts():
    return build_device_facts(capture_environment("cpu"))


def decide(facts, **fields) -> dict[str, Decision]:
    workload = parse_workload(SMALL | fields)
    return {entry.backend: entry for entry in build_decisions(workload, draw_tensors(workload, "cpu"), facts)}


def test_rules_agree_with_trials_on_drawn_workloads(facts):
    workloads = draw_workloads(WORKLOADS, seed=20, longest=65)
    compared, disagreements = compare_with_trial(workloads, facts)
    print(f"{len(workloads)} workloads, {compared} verdicts compared")
    assert compared >= WORKLOADS * 5
    assert not disagreements, f"{len(workloads)} workloads, {compared} verdicts compared\n{disagreements}"


def test_a_wrong_rule_is_found(facts, monkeypatch):
    flash = next(backend for backend in BACKENDS if backend.slug == "sdpa_flash")
    refusing = replace(
        flash, check=lambda workload, device: Decision(backend=flash.slug, verdict="rejected", reason="")
    )
    monkeypatch.setattr("tests.torch_cpu.drawn_workloads.BACKENDS", (refusing,))
    _, disagreements = compare_with_trial(draw_workloads(4, seed=1, longest=16), facts)
    assert disagreements.startswith("sdpa_flash (")


def test_a_value_head_of_its_own_is_unlocked_by_padding_it(facts):
    flash = decide(facts, head_dim=64, head_dim_v=32)["sdpa_flash"]
    assert flash.verdict == "rejected"
    assert flash.unlocked_by == ("head_dim_v → 64 (padded with zeros) (tried: runs)",)
    assert "Flash attention requires q,k,v to have the same last dimension" in flash.raw_message


def test_no_single_change_makes_a_cpu_a_gpu(facts):
    decisions = decide(facts, dtype="float64")
    assert decisions["sdpa_efficient"].verdict == "rejected"
    assert decisions["sdpa_efficient"].unlocked_by == ()
    assert decisions["sdpa_flash"].unlocked_by == ()  # it runs as it is


def test_a_backend_that_is_not_tried_names_the_changes_of_its_rule(facts):
    flex = decide(facts, dtype="float64")["flex"]
    assert flex.verdict == "rejected"
    assert flex.unlocked_by == tuple(f"dtype → {dtype} (by rule)" for dtype in ("bfloat16", "float16", "float32"))
    workload = parse_workload(SMALL | {"dtype": "float64", "backend": "flex"})
    (recording,) = (
        item for item in record(RunRequest(workloads=(workload,), device="cpu")) if isinstance(item, Recording)
    )
    assert next(entry for entry in recording.decisions if entry.backend == "flex").unlocked_by == flex.unlocked_by


def test_a_change_that_the_rule_promises_and_the_device_refuses_is_not_listed(facts, monkeypatch):
    workload = parse_workload(SMALL | {"head_dim_v": 32})
    refused = Decision(backend="sdpa_flash", verdict="rejected", reason="one head_dim")
    unlocks = find_unlocks(workload, refused, facts)
    assert unlocks
    # The same edits, asked of a backend that no edit brings to a CPU.
    on_efficient = [replace(unlock, workload=replace(unlock.workload, backend="sdpa_efficient")) for unlock in unlocks]
    assert confirm_unlocks(on_efficient, "cpu") == ((), ())
    monkeypatch.setattr(eligibility, "PROBE_SCORES_MOST", {"cpu": 1})
    ran, untried = confirm_unlocks(unlocks, "cpu")
    assert ran == ()
    assert untried == ("head_dim_v → 64 (padded with zeros) (one batch entry has 4,096 scores, a trial takes 1)",)


def test_tries_are_bounded(facts, monkeypatch):
    workload = parse_workload(SMALL | {"layout": "transposed", "mask_form": "bool"})
    refused = Decision(backend="sdpa_flash", verdict="rejected", reason="for the test", basis="probe")
    unlocks = find_unlocks(workload, refused, facts)
    assert len(unlocks) > UNLOCK_TRIES
    asked = []

    def probe(backend, workload, predicted, inputs, device):
        asked.append(inputs.query.shape[0])
        return predicted

    monkeypatch.setattr(eligibility, "probe", probe)
    ran, untried = confirm_unlocks(unlocks, "cpu")
    assert len(ran) == UNLOCK_TRIES
    assert len(untried) == len(unlocks) - UNLOCK_TRIES
    assert all(text.endswith("(by rule it would run; 3 changes are tried for a backend)") for text in untried)
    assert asked == [1] * UNLOCK_TRIES  # one batch entry each


def test_a_mask_with_a_length_for_every_entry_is_cut_with_the_batch(facts):
    fields = {"mask": "padding", "mask_lengths": "5,32", "head_dim_v": 32}
    assert decide(facts, **fields)["sdpa_flash"].unlocked_by == ("head_dim_v → 64 (padded with zeros) (tried: runs)",)


def test_gradients_are_part_of_a_trial(facts):
    flash = decide(facts, direction="forward_backward", head_dim_v=32)["sdpa_flash"]
    assert flash.unlocked_by == ("head_dim_v → 64 (padded with zeros) (tried: runs)",)


def run(measure_unlocks: bool, **fields) -> Recording:
    request = RunRequest(workloads=(parse_workload(SMALL | fields),), device="cpu", measure_unlocks=measure_unlocks)
    (recording,) = (item for item in record(request) if isinstance(item, Recording))
    return recording


def test_a_change_is_timed_and_judged_when_asked_for():
    recording = run(True, head_dim_v=32, backend="sdpa_math")
    assert recording.failures == ()
    (measured,) = (entry for entry in recording.unlock_measurements if entry.backend == "sdpa_flash")
    assert measured.change == "head_dim_v → 64 (padded with zeros)"
    assert measured.device is None  # a CPU has no such clock
    assert measured.wall is not None
    assert min(measured.wall.samples_ns) > 0
    assert measured.within_budget is True
    assert 0 < measured.max_abs_error < measured.error_budget
    assert recording.ledger[-1].stage == "unlocks"
    (reported,) = (e for e in analyze_recording(recording).report.unlock_measurements if e.backend == "sdpa_flash")
    assert (reported.base_backend, reported.clock) == ("sdpa_math", "wall")
    assert reported.base_ns > 0


def test_a_refused_run_measures_its_own_changes():
    recording = run(True, head_dim_v=32, backend="sdpa_flash")
    assert [failure.kind for failure in recording.failures] == ["refused"]
    assert recording.unlock_measurements[0].backend == "sdpa_flash"
    assert recording.unlock_measurements[0].within_budget is True


def test_gradients_of_a_change_are_judged_too():
    recording = run(True, head_dim_v=32, backend="sdpa_flash", direction="forward_backward")
    assert recording.unlock_measurements[0].within_budget is True


def test_nothing_is_measured_unless_asked_for():
    recording = run(False, head_dim_v=32, backend="sdpa_math")
    assert recording.unlock_measurements == ()
    assert "unlocks" not in {entry.stage for entry in recording.ledger}


def test_a_backend_that_is_judged_by_rule_says_why_it_was_not_measured():
    recording = run(True, dtype="float64", backend="naive")
    by_rule = [entry for entry in recording.unlock_measurements if entry.backend == "flex"]
    assert [entry.change for entry in by_rule] == [f"dtype → {dtype}" for dtype in ("bfloat16", "float16", "float32")]
    assert all("judged by rule" in entry.skipped and entry.wall is None for entry in by_rule)


def test_a_change_that_does_not_fit_in_memory_says_so_with_the_numbers(facts):
    workload = parse_workload(SMALL | {"head_dim_v": 32})
    decisions = build_decisions(workload, draw_tensors(workload, "cpu"), facts)
    (measured,) = measure_unlocks(workload, [d for d in decisions if d.backend == "sdpa_flash"], facts, 100_000)
    assert measured.wall is None
    assert "GiB" in measured.skipped


def test_a_change_that_fails_at_full_size_says_so_and_the_others_go_on(facts, monkeypatch):
    workload = parse_workload(SMALL | {"head_dim_v": 32})
    decisions = [
        d for d in build_decisions(workload, draw_tensors(workload, "cpu"), facts) if d.backend == "sdpa_flash"
    ]

    def fail(*arguments):
        raise RuntimeError("for the test\nwith a second line")

    monkeypatch.setattr("profiling.unlock_timing.check_results", fail)
    first, second = measure_unlocks(workload, [*decisions, *decisions], facts, None)
    assert first.skipped == second.skipped == "RuntimeError: for the test"
