"""What a rule is: a question put to a report, with three outcomes, so that silence is never taken for health."""

from collections.abc import Callable
from dataclasses import dataclass

from attention.fusion.workload import FusionWorkload
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

    def evaluate(self, report: Report, trace: Trace | None) -> RuleVerdict:
        """This rule's verdict on one report."""
        outcome: Outcome
        if self.of_attention and isinstance(report.workload, FusionWorkload):
            reason = f"This is a question about attention, and {report.workload.operation} is none."
            outcome = NotEvaluated(reason=reason)
        else:
            outcome = self.judge(report, trace)
        match outcome:
            case Fired():
                return RuleVerdict(
                    rule=self.slug,
                    status="fired",
                    title=self.title,
                    explanation=outcome.explanation,
                    severity=outcome.severity,
                    evidence=outcome.evidence,
                    advice=outcome.advice,
                    source=self.source,
                )
            case Clear():
                return RuleVerdict(
                    rule=self.slug,
                    status="clear",
                    title=self.title,
                    explanation=outcome.explanation,
                    source=self.source,
                )
            case NotEvaluated():
                return RuleVerdict(
                    rule=self.slug,
                    status="not_evaluated",
                    title=self.title,
                    explanation=outcome.reason,
                    source=self.source,
                )
