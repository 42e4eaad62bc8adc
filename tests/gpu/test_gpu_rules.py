"""Every eager backend's rule against a trial of it on this GPU, over drawn workloads."""

import pytest

from profiling.environment import build_device_facts, capture_environment
from tests.torch_cpu.drawn_workloads import compare_with_trial, draw_workloads

WORKLOADS = 120  # for each seed: 480 in all


@pytest.mark.parametrize("seed", [3, 4, 5, 6])
def test_rules_agree_with_trials_on_drawn_workloads(seed):
    facts = build_device_facts(capture_environment("cuda"))
    workloads = draw_workloads(WORKLOADS, seed=seed)
    compared, disagreements = compare_with_trial(workloads, facts)
    print(f"{len(workloads)} workloads, {compared} verdicts compared")
    assert compared >= WORKLOADS * 5
    assert not disagreements, f"{len(workloads)} workloads, {compared} verdicts compared\n{disagreements}"
