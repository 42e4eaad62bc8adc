"""What does the guard against rows that may attend to nothing cost? SDPA's math path looks for them in every call."""

from profiling.findings.facts import TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_items, format_share
from profiling.report_schema import Evidence, Report

SAFE_SOFTMAX = "aten::_safe_softmax"
# Source: aten/src/ATen/native/transformers/attention.cpp, _safe_softmax: isneginf, all and where around a softmax.
GUARD_KERNEL = "isneginf"
# The guard takes 25 % of the math path's device time on an H200; a kernel's own spread between steps is up to 6 %.
LOUD_SHARE = 0.06


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.operators and not facts.items:
        return NotEvaluated(reason=facts.why_no_operators)
    calls = list(facts.named(SAFE_SOFTMAX))
    if calls:
        inner = [
            facts.trace.operators[child]
            for call in calls
            for child in facts.children.get(call.index, ())
            if facts.trace.operators[child].name in ("aten::softmax", "aten::_softmax")
        ]
        softmax = {item.index for item in facts.items_under(inner)}
        guard = [item for item in facts.items_under(calls) if item.index not in softmax]
        host_ns = sum(op.duration_ns for op in calls) - sum(op.duration_ns for op in inner)
        softmax_ns = sum(op.duration_ns for op in inner)
    else:
        guard = [item for item in facts.items if GUARD_KERNEL in item.name]
        host_ns = softmax_ns = 0
        if not guard:
            return Clear(explanation="No softmax is guarded against rows that may attend to nothing.")
    if not guard:
        return Fired(
            severity="info" if host_ns < softmax_ns else "warning",
            explanation=(
                f"The guard around the softmax takes {facts.time_per_step(host_ns)} of CPU time beside "
                f"{facts.time_per_step(softmax_ns)} for the softmax itself."
            ),
            evidence=(Evidence(text=SAFE_SOFTMAX, operators=tuple(op.index for op in calls)),),
            advice=_ADVICE,
        )
    time_ns = sum(item.duration_ns for item in guard)
    share = time_ns / facts.device_time_ns if facts.device_time_ns else 0.0
    return Fired(
        severity="warning" if share >= LOUD_SHARE else "info",
        explanation=(
            f"{facts.per_step(len(guard), 'kernel')} to find rows of -inf and put zeros there, beside the softmax "
            f"itself: {facts.time_per_step(time_ns)}, {format_share(share)} of device time."
        ),
        evidence=(build_item_evidence(f"{format_items(len(guard), 'kernel')} of the guard", guard),),
        advice=_ADVICE,
    )


_ADVICE = (
    "A fused backend does this inside its kernel; where no row can be fully masked, a plain softmax gives the same."
)

RULE = TraceRule(
    slug="safe_softmax",
    title="Safe softmax",
    source="Items under aten::_safe_softmax besides its softmax (PyTorch, transformers/attention.cpp).",
    judge=_judge,
    of_attention=True,
)
