"""What a rule is: a question put to a report, with three outcomes, so that silence is never taken for health."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from attention.fusion.workload import FusionWorkload
from profiling.findings.facts import TraceFacts, build_facts
from profiling.report_schema import Evidence, Report, RuleVerdict, Severity
from profiling.trace.events import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """The rule found what it looks for: what and how much, on which evidence, and what to do."""

    severity: Severity
    explanation: str
    evidence: tuple[Evidence, ...]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear:
    """The rule looked and found nothing; ``explanation`` says at what."""

    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEvaluated:
    """The rule could not look; ``reason`` names what is missing."""

    reason: str


Outcome = Fired | Clear | NotEvaluated


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``judge`` reads a report that is complete but for verdicts and answers, and its trace if there is one.

    ``source`` says what the rule's claim rests on. ``of_attention``: the question makes no sense of another operation.
    """

    slug: str
    title: str
    source: str
    judge: Callable[[Report, Trace | None], Outcome]
    of_attention: bool = False

    def evaluate(self, report: Report, trace: Trace | None, facts: TraceFacts | None = None) -> RuleVerdict:
        """This rule's verdict on one report; ``facts`` play no part."""
        return _build_verdict(self, _refuse_other_operations(self, report) or self.judge(report, trace))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRule:
    """A rule that can only look where there is a trace, and reads it through its facts. Fields as those of Rule."""

    slug: str
    title: str
    source: str
    judge: Callable[[Report, TraceFacts], Outcome]
    of_attention: bool = False

    def evaluate(self, report: Report, trace: Trace | None, facts: TraceFacts | None = None) -> RuleVerdict:
        """This rule's verdict on one report; the facts of ``trace`` are built here unless given."""
        outcome = _refuse_other_operations(self, report)
        if outcome is None and trace is None:
            outcome = NotEvaluated(reason="No trace was recorded.")
        elif outcome is None and trace is not None:
            outcome = self.judge(report, facts if facts is not None else build_facts(trace))
        assert outcome is not None
        return _build_verdict(self, outcome)


AnyRule = Rule | TraceRule


def _refuse_other_operations(rule: AnyRule, report: Report) -> Outcome | None:
    if not rule.of_attention or not isinstance(report.workload, FusionWorkload):
        return None
    return NotEvaluated(reason=f"This is a question about attention, and {report.workload.operation} is none.")


def _build_verdict(rule: AnyRule, outcome: Outcome) -> RuleVerdict:
    status: Literal["clear", "not_evaluated"]
    match outcome:
        case Fired():
            return RuleVerdict(
                rule=rule.slug,
                status="fired",
                title=rule.title,
                explanation=outcome.explanation,
                severity=outcome.severity,
                evidence=outcome.evidence,
                advice=outcome.advice,
                source=rule.source,
            )
        case Clear():
            explanation, status = outcome.explanation, "clear"
        case NotEvaluated():
            explanation, status = outcome.reason, "not_evaluated"
    return RuleVerdict(rule=rule.slug, status=status, title=rule.title, explanation=explanation, source=rule.source)
