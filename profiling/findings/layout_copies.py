"""Are tensors copied only to lie differently in memory? A transposed view costs nothing until someone needs it flat."""

from profiling.findings.copies import judge_copies
from profiling.findings.facts import IN_MATH, IN_SDPA, NO_OPERATORS, TraceFacts
from profiling.findings.hidden_copy import CLONES_ITS_INPUT
from profiling.findings.rule import NotEvaluated, Outcome, TraceRule
from profiling.report_schema import Report

# contiguous, reshape of a view that no stride describes, and clone itself all end in aten::clone; heads repeated for
# a backend without grouped queries are copied by repeat_interleave or repeat.
# Source: PyTorch, aten/src/ATen/native/{TensorProperties,TensorShape,Repeat}.cpp.
COPIES_LAYOUT = ("aten::clone", "aten::repeat_interleave", "aten::repeat")


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    operators = facts.trace.operators
    if not operators:
        return NotEvaluated(reason=NO_OPERATORS)
    copies = [
        copy
        for copy in facts.named(*COPIES_LAYOUT)
        if not (copy.parent is not None and operators[copy.parent].name in CLONES_ITS_INPUT)
        # What SDPA itself realigns for a fused backend is a question of its own; math's own copies belong here.
        and (not facts.is_in(copy, IN_SDPA) or facts.is_in(copy, IN_MATH))
    ]
    return judge_copies(
        facts,
        copies,
        what=("copy into another layout", "copies into another layout"),
        clear="No step copies a tensor into another layout: contiguous and reshape found what they need.",
        advice=(
            "Find the transpose, expand or slice before it; keep the layout that the backend reads, or give SDPA "
            "enable_gqa=True instead of repeated heads."
        ),
    )


RULE = TraceRule(
    slug="layout_copies",
    title="Layout copies",
    source="aten::clone under contiguous or reshape, and repeated heads; time of the items that they launch.",
    judge=_judge,
)
