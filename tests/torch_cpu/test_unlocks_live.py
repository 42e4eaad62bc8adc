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
from profiling.unlocks import find_unlocks
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
    assert confirm_unlocks(on_efficient, "cpu") == ()
    monkeypatch.setattr(eligibility, "FULL_PROBE_SCORES", {"cpu": 1})
    assert confirm_unlocks(unlocks, "cpu") == ()  # too large to try


def test_tries_are_bounded(facts, monkeypatch):
    workload = parse_workload(SMALL | {"layout": "transposed", "mask_form": "bool"})
    refused = Decision(backend="sdpa_flash", verdict="rejected", reason="for the test", basis="probe")
    unlocks = find_unlocks(workload, refused, facts)
    assert len(unlocks) > eligibility.UNLOCK_TRIES
    asked = []

    def probe(backend, workload, predicted, inputs, device):
        asked.append(inputs.query.shape[0])
        return predicted

    monkeypatch.setattr(eligibility, "probe", probe)
    assert len(confirm_unlocks(unlocks, "cpu")) == eligibility.UNLOCK_TRIES
    assert asked == [1] * eligibility.UNLOCK_TRIES  # one batch entry each


def test_a_mask_with_a_length_for_every_entry_is_cut_with_the_batch(facts):
    fields = {"mask": "padding", "mask_lengths": "5,32", "head_dim_v": 32}
    assert decide(facts, **fields)["sdpa_flash"].unlocked_by == ("head_dim_v → 64 (padded with zeros) (tried: runs)",)


def test_gradients_are_part_of_a_trial(facts):
    flash = decide(facts, direction="forward_backward", head_dim_v=32)["sdpa_flash"]
    assert flash.unlocked_by == ("head_dim_v → 64 (padded with zeros) (tried: runs)",)
