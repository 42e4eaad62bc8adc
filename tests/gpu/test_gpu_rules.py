"""Every eager backend's rule against a trial of it on this GPU, over drawn workloads."""

from profiling.environment import build_device_facts, capture_environment
from tests.torch_cpu.drawn_workloads import compare_with_trial, draw_workloads

WORKLOADS = 480


def test_rules_agree_with_trials_on_drawn_workloads():
    facts = build_device_facts(capture_environment("cuda"))
    workloads = draw_workloads(WORKLOADS, seed=3)
    compared, disagreements = compare_with_trial(workloads, facts)
    print(f"{len(workloads)} workloads, {compared} verdicts compared")
    assert compared >= WORKLOADS * 5
    assert not disagreements, f"{len(workloads)} workloads, {compared} verdicts compared\n{disagreements}"
