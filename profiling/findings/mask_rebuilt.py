"""Is the mask built again in every call? It depends on the lengths alone, and could be kept."""

from profiling.findings.facts import (
    SDPA,
    SDPA_MATH,
    TraceFacts,
    build_item_evidence,
)
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_items, format_share
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Operator

# A triangle is what a causal mask is cut from, in SDPA's math path and in models' own code.
# Source: PyTorch, aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math.
TRIANGLES = ("aten::tril", "aten::tril_", "aten::triu", "aten::triu_")
# What the math path calls around it to make the mask and turn it into additive numbers.
MASK_STEPS = frozenset({"aten::ones", "aten::scalar_tensor", "aten::where", "aten::logical_not", *TRIANGLES})
TRIANGLE_KERNEL = "triu_tril"  # aten/src/ATen/native/cuda/TriangularOps.cu


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    operators = facts.trace.operators
    built = [op for op in facts.named(*TRIANGLES) if op.parent is None or operators[op.parent].name not in TRIANGLES]
    if not built:
        return _judge_kernels(facts)
    in_math = all(op.parent is not None and operators[op.parent].name == SDPA_MATH for op in built)
    calls = sum(1 for _ in facts.named(*([SDPA_MATH] if in_math else [SDPA]))) or sum(
        1 for _ in facts.named("aten::_softmax")
    )
    roots = _find_mask_steps(facts, built)
    items = facts.items_under(roots)
    added = facts.items_under(
        op for op in facts.named("aten::add_") if op.parent is not None and operators[op.parent].name == SDPA_MATH
    )
    # Where no call of attention is among the operators (compiled, or a library's own), the steps stand for the calls.
    every = len(built) >= (calls or facts.repeats)
    if every:
        often = "anew, in each attention call" if calls else "anew"
    else:
        often = f"for {facts.per_step(calls, 'attention call')}" if calls else "not in every step"
    explanation = f"{facts.per_step(len(built), 'mask')} built {often}"
    if items:
        time_ns = sum(item.duration_ns for item in items)
        share = format_share(time_ns / facts.device_time_ns) if facts.device_time_ns else "no share"
        explanation += (
            f": {facts.per_step(len(items), 'kernel')}, {format_share(len(items) / len(facts.items))} of all items; "
            f"{facts.time_per_step(time_ns)}, {share} of device time"
        )
    else:
        explanation += f": {facts.time_per_step(sum(op.duration_ns for op in roots))} of CPU time"
    if added:
        explanation += f". Adding it to the scores takes {facts.time_per_step(sum(i.duration_ns for i in added))} more"
    evidence = (
        build_item_evidence(f"{format_items(len(items), 'kernel')} to build it", items)
        if items
        else Evidence(
            text=f"{', '.join(sorted({op.name for op in roots}))}", operators=tuple(op.index for op in roots)
        ),
        *([build_item_evidence("aten::add_ of the mask to the scores", added)] if added else []),
    )
    return Fired(
        severity="warning" if every else "info",
        explanation=f"{explanation}.",
        evidence=evidence,
        advice=(
            "Use a fused backend with is_causal=True, which reads no mask from memory; or build the mask once, outside "
            "the step, and pass it in."
        ),
    )


def _find_mask_steps(facts: TraceFacts, built: list[Operator]) -> list[Operator]:
    """What the math path calls around each triangle; elsewhere the triangle alone."""
    operators = facts.trace.operators
    in_math = {op.parent for op in built if op.parent is not None and operators[op.parent].name == SDPA_MATH}
    around = (operators[child] for call in in_math if call is not None for child in facts.children.get(call, ()))
    return [
        *(op for op in built if op.parent not in in_math),
        *(op for op in around if op.name in MASK_STEPS),
    ]


def _judge_kernels(facts: TraceFacts) -> Outcome:
    """A replayed CUDA graph has kernels but no operators."""
    if not facts.trace.operators and not facts.items:
        return NotEvaluated(reason=facts.why_no_operators)
    built = [item for item in facts.items if TRIANGLE_KERNEL in item.name]
    if not built:
        return Clear(explanation="No step builds a triangular mask.")
    return Fired(
        severity="warning",
        explanation=(
            f"{facts.per_step(len(built), 'kernel')} to cut a mask's triangle: "
            f"{facts.time_per_step(sum(item.duration_ns for item in built))}."
        ),
        evidence=(build_item_evidence("kernels that cut the triangle", built),),
        advice="Build the mask once, before the graph is captured, or use a fused backend with is_causal=True.",
    )


RULE = TraceRule(
    slug="mask_rebuilt",
    title="Mask rebuilt",
    source="tril or triu inside the steps; SDPA's math path makes ones, cuts the triangle and fills -inf each call.",
    judge=_judge,
    of_attention=True,
)
