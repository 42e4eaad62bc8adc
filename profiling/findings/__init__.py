"""The rules, in the order in which their findings are shown: can the numbers be trusted, what ran, what it cost."""

from profiling.findings import (
    backend_match,
    cast_copies,
    cpu_work,
    cuda_graph,
    device_activity,
    dropout_in_inference,
    error_budget,
    first_call,
    float32_upcast,
    fused_kernels,
    hidden_copy,
    host_bound,
    idle_gaps,
    in_place_training,
    known_fault,
    layout_copies,
    lost_kernels,
    low_occupancy,
    mask_applied,
    mask_rebuilt,
    noise,
    occupancy_artefact,
    realign_copies,
    safe_softmax,
    score_matrix,
    silent_math,
    start_up_in_window,
    sync_in_step,
    tiny_kernels,
    trace_health,
    warm_up_leak,
    work_bound,
)
from profiling.findings.facts import build_facts
from profiling.findings.rule import AnyRule, Rule, TraceRule
from profiling.report_schema import Report, RuleVerdict
from profiling.trace.events import Trace

RULES: tuple[AnyRule, ...] = (
    trace_health.RULE,
    lost_kernels.RULE,
    warm_up_leak.RULE,
    start_up_in_window.RULE,
    noise.RULE,
    error_budget.RULE,
    mask_applied.RULE,
    known_fault.RULE,
    dropout_in_inference.RULE,
    in_place_training.RULE,
    backend_match.RULE,
    silent_math.RULE,
    device_activity.RULE,
    fused_kernels.RULE,
    cuda_graph.RULE,
    host_bound.RULE,
    idle_gaps.RULE,
    sync_in_step.RULE,
    cpu_work.RULE,
    hidden_copy.RULE,
    mask_rebuilt.RULE,
    float32_upcast.RULE,
    safe_softmax.RULE,
    score_matrix.RULE,
    cast_copies.RULE,
    layout_copies.RULE,
    realign_copies.RULE,
    tiny_kernels.RULE,
    work_bound.RULE,
    first_call.RULE,
    low_occupancy.RULE,
    occupancy_artefact.RULE,
)

__all__ = ["RULES", "AnyRule", "Rule", "TraceRule", "evaluate_rules"]


def evaluate_rules(report: Report, trace: Trace | None) -> tuple[RuleVerdict, ...]:
    """One verdict a rule, in the order of RULES. ``report`` is complete but for verdicts and answers."""
    facts = None if trace is None else build_facts(trace)
    return tuple(rule.evaluate(report, trace, facts) for rule in RULES)
