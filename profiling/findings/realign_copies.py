"""Does SDPA copy a mask or an input before its fused kernel may read it? Kernels ask for aligned rows."""

from profiling.findings.copies import judge_copies
from profiling.findings.facts import IN_A_GRAPH, IN_MATH, IN_SDPA, SDPA, TraceFacts
from profiling.findings.rule import Clear, NotEvaluated, Outcome, TraceRule
from profiling.report_schema import Report

# The mask's rows are padded to a multiple of 16 elements (8 for float32), head_dim to a multiple of 8, a mask that is
# no dense tensor is made one, and a boolean one is turned into additive numbers.
# Source: PyTorch, aten/src/ATen/native/transformers/attention.cpp, pad_bias, pad_last_dim and preprocess_mask.
REALIGNS = (
    "aten::pad",
    "aten::constant_pad_nd",
    "aten::clone",
    "aten::_to_copy",
    "aten::where",
    "aten::masked_fill",
    "aten::masked_fill_",
)


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.operators:
        return NotEvaluated(reason=facts.why_no_operators)
    if not any(True for _ in facts.named(SDPA)):
        if facts.replays:
            return NotEvaluated(reason=IN_A_GRAPH)
        return Clear(explanation=f"{SDPA} was not called, so it realigned nothing.")
    copies = [copy for copy in facts.named(*REALIGNS) if facts.is_in(copy, IN_SDPA) and not facts.is_in(copy, IN_MATH)]
    return judge_copies(
        facts,
        copies,
        what=("copy inside SDPA before its kernel", "copies inside SDPA before its kernel"),
        clear="SDPA passes its inputs to the kernel as they are: no padding, no realigned mask.",
        advice=(
            "Give the mask in the query's dtype with rows of a multiple of 16 elements, keep head_dim a multiple of "
            "8, or say is_causal=True instead of a causal mask."
        ),
    )


RULE = TraceRule(
    slug="realign_copies",
    title="Realigned mask or inputs",
    source="Padding, clones and conversions that SDPA calls outside its math path.",
    judge=_judge,
    of_attention=True,
)
