"""Are tensors copied into another dtype in every step? Each cast reads and writes the whole tensor once more."""

from math import inf

from attention.fusion.workload import FusionWorkload
from profiling.findings.copies import LOUD_SHARE, judge_copies
from profiling.findings.facts import IN_SDPA, TraceFacts
from profiling.findings.rule import NotEvaluated, Outcome, TraceRule
from profiling.report_schema import Report


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.operators:
        return NotEvaluated(reason=facts.why_no_operators)
    casts = [cast for cast in facts.named("aten::_to_copy") if not facts.is_in(cast, IN_SDPA)]
    if facts.trace.device_items:
        # The same operator moves tensors between host and device: that is memcpy, and not a cast.
        kernels = {item.operator for item in facts.items if item.kind == "kernel"}
        casts = [
            cast
            for cast in casts
            if cast.index in kernels or any(child in kernels for child in facts.children.get(cast.index, ()))
        ]
    return judge_copies(
        facts,
        casts,
        what=("copy into another dtype", "copies into another dtype"),
        clear="No step casts a tensor to another dtype, but for what SDPA does inside.",
        # Beyond attention the formula itself may ask for float32, as a norm does: the eager form's cost, no mistake.
        loud_share=inf if isinstance(report.workload, FusionWorkload) else LOUD_SHARE,
        advice="Keep the tensors in the dtype that the next operator reads, or cast once, outside the step.",
    )


RULE = TraceRule(
    slug="cast_copies",
    title="Cast copies",
    source="aten::_to_copy and the kernels that it launches; SDPA's own casts are the float32 upcast's.",
    judge=_judge,
)
