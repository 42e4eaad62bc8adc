"""Does a training step overwrite activations? What backward needs must still be there when it comes."""

from attention.workload import Direction, Workload
from profiling.findings.facts import BACKWARD_PREFIX, TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_items
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Operator

# In-place forms that stand in a forward. An optimizer writes its parameters in place too, but after the backward.
IN_PLACE = (
    "aten::masked_fill_",
    "aten::mul_",
    "aten::div_",
    "aten::add_",
    "aten::sub_",
    "aten::relu_",
    "aten::silu_",
    "aten::gelu_",
    "aten::clamp_",
    "aten::dropout_",
)
_GRADIENT_PREFIX = "grad"  # as deltas name their tensors: grad_query, grad_key, grad_value


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.operators:
        return NotEvaluated(reason=facts.why_no_operators)
    asked = isinstance(report.workload, Workload) and report.workload.direction == Direction.FORWARD_BACKWARD
    if not (asked or facts.trains):
        return Clear(
            explanation="No backward runs, so that nothing is saved which an in-place operator could overwrite."
        )
    written = _find_in_forward(facts)
    if not written:
        return Clear(explanation="The forward writes no tensor in place.")
    names = ", ".join(sorted({op.name for op in written}))
    gradients = [delta for delta in report.correctness if delta.tensor.startswith(_GRADIENT_PREFIX)]
    wrong = [delta.tensor for delta in gradients if delta.within_budget is False]
    if wrong:
        judged = f"Outside their budget: {', '.join(wrong)}."
    elif gradients:
        judged = f"{format_items(len(gradients), 'gradient')} judged against float64, none outside its budget."
    else:
        judged = "The gradients were not judged: the trace does not hold them."
    items = facts.items_under(written)
    return Fired(
        severity="warning" if wrong else "info",
        explanation=f"{facts.per_step(len(written), 'operator')} in place in a training forward: {names}. {judged}",
        evidence=(
            build_item_evidence(names, items)
            if items
            else Evidence(text=names, operators=tuple(op.index for op in written)),
        ),
        advice=(
            "Autograd raises an error when a saved tensor was overwritten, and is not silent about it. Compare the "
            "forward, the gradients and the peak memory with the out-of-place form before you adopt it."
        ),
    )


def _find_in_forward(facts: TraceFacts) -> list[Operator]:
    """Calls of the in-place forms by the caller, not by another operator, before their step's backward begins."""
    begins: dict[int | None, int] = {}
    for name, operators in facts.operators_by_name.items():
        if name.startswith(BACKWARD_PREFIX):
            for op in operators:
                begins[op.step] = min(op.start_ns, begins.get(op.step, op.start_ns))
    return [
        op for op in facts.named(*IN_PLACE) if op.parent is None and op.start_ns < begins.get(op.step, op.start_ns + 1)
    ]


RULE = TraceRule(
    slug="in_place_training",
    title="In-place under training",
    source="Operators ending in _ before the backward; PyTorch's notes on autograd, in-place correctness checks.",
    judge=_judge,
)
