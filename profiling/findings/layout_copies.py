"""Are tensors copied only to lie differently in memory? A transposed view costs nothing until someone needs it flat."""

from profiling.findings.copies import judge_copies
from profiling.findings.facts import IN_MATH, IN_SDPA, TraceFacts
from profiling.findings.hidden_copy import CLONES_ITS_INPUT
from profiling.findings.rule import NotEvaluated, Outcome, TraceRule
from profiling.report_schema import Report
from profiling.trace.events import Operator

# contiguous, reshape of a view that no stride describes, and clone itself all end in aten::clone; heads repeated for
# a backend without grouped queries are copied by repeat_interleave or repeat.
# Source: PyTorch, aten/src/ATen/native/{TensorProperties,TensorShape,Repeat}.cpp.
_CLONE = "aten::clone"
COPIES_LAYOUT = (_CLONE, "aten::repeat_interleave", "aten::repeat")


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.operators:
        return NotEvaluated(reason=facts.why_no_operators)
    copies = [
        copy
        for copy in facts.named(*COPIES_LAYOUT)
        if _is_for_layout(copy, facts)
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


def _is_for_layout(copy: Operator, facts: TraceFacts) -> bool:
    """Not so: a clone under an out-of-place operator, or one that its caller, or autograd, wants for its own sake."""
    around = "" if copy.parent is None else facts.trace.operators[copy.parent].name
    return copy.name != _CLONE or (around.startswith("aten::") and around not in CLONES_ITS_INPUT)


RULE = TraceRule(
    slug="layout_copies",
    title="Layout copies",
    source="aten::clone under contiguous or reshape, and repeated heads; time of the items that they launch.",
    judge=_judge,
)
