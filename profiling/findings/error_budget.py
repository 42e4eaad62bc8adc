"""Is the answer right? Each tensor against its float64 reference, and no value that is not finite."""

from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_count, format_error, format_ratio
from profiling.recording import Delta
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace


def _judge(report: Report, trace: Trace | None) -> Outcome:
    if not report.correctness:
        return NotEvaluated(reason="Correctness was not measured.")
    wrong = [delta for delta in report.correctness if delta.within_budget is False or _non_finite(delta)]
    if wrong:
        return Fired(
            # Values that are not finite and yet within budget stand in rows that may attend to nothing.
            severity="warning" if all(delta.within_budget for delta in wrong) else "error",
            explanation=" ".join(_complaint(delta) for delta in wrong),
            evidence=tuple(Evidence(text=_place(delta)) for delta in wrong),
            advice="Do not use a wrong answer's timing. Confirm it with the replay script, then try another backend.",
        )
    judged = [delta for delta in report.correctness if delta.within_budget]
    if not judged:
        return NotEvaluated(reason="No tensor has an error budget to be judged against.")
    return Clear(explanation=" ".join(_praise(delta) for delta in judged))


def _non_finite(delta: Delta) -> int:
    return delta.nan_count + delta.inf_count


def _complaint(delta: Delta) -> str:
    parts = []
    if _non_finite(delta):
        parts.append(f"{format_count(delta.nan_count)} NaN and {format_count(delta.inf_count)} infinite values")
    if delta.within_budget is False:
        parts.append(f"a worst error of {format_error(delta.max_abs_error)}{_against_budget(delta)}")
    dead = f" ({format_count(delta.dead_rows)} rows may attend to nothing)" if delta.dead_rows else ""
    return f"{delta.tensor} has {' and '.join(parts)}{dead}."


def _against_budget(delta: Delta) -> str:
    if not delta.error_budget or delta.max_abs_error is None:
        return f" against a budget of {format_error(delta.error_budget)}"
    return (
        f", {format_ratio(delta.max_abs_error / delta.error_budget)} its budget of {format_error(delta.error_budget)}"
    )


def _praise(delta: Delta) -> str:
    return (
        f"{delta.tensor}: worst error {format_error(delta.max_abs_error)} within its budget of "
        f"{format_error(delta.error_budget)} ({delta.budget_basis}), every value finite."
    )


def _place(delta: Delta) -> str:
    if delta.worst_index is None:
        return f"{delta.tensor} against {delta.reference}: no finite element to compare"
    index = ", ".join(map(str, delta.worst_index))
    got, wanted = delta.worst_value, delta.worst_reference
    return f"{delta.tensor}[{index}] is {got:.6g}, {delta.reference} says {wanted:.6g}; budget: {delta.budget_basis}"


RULE = Rule(
    slug="error_budget",
    title="Error within budget",
    source="Budget from an independent run in the same dtype against float64; the basis stands beside each number.",
    judge=_judge,
)
