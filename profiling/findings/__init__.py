"""The rules, in the order in which their findings are shown: can the numbers be trusted, what ran, what it cost."""

from profiling.findings import (
    backend_match,
    device_activity,
    error_budget,
    first_call,
    hidden_copy,
    host_bound,
    known_fault,
    mask_applied,
    occupancy_artefact,
    score_matrix,
    silent_math,
    trace_health,
)
from profiling.findings.rule import Rule
from profiling.report_schema import Report, RuleVerdict
from profiling.trace.events import Trace

RULES: tuple[Rule, ...] = (
    trace_health.RULE,
    error_budget.RULE,
    mask_applied.RULE,
    known_fault.RULE,
    backend_match.RULE,
    silent_math.RULE,
    device_activity.RULE,
    host_bound.RULE,
    hidden_copy.RULE,
    score_matrix.RULE,
    first_call.RULE,
    occupancy_artefact.RULE,
)

__all__ = ["RULES", "Rule", "evaluate_rules"]


def evaluate_rules(report: Report, trace: Trace | None) -> tuple[RuleVerdict, ...]:
    """One verdict a rule, in the order of RULES. ``report`` is complete but for verdicts and answers."""
    return tuple(rule.evaluate(report, trace) for rule in RULES)
