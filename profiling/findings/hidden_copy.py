"""Does an out-of-place operator copy its whole input first? One underscore in the code, one full pass over memory."""

from profiling.findings.copies import SHOWN_SHARE, judge_copies
from profiling.findings.facts import IN_BACKWARD, TraceFacts
from profiling.findings.rule import NotEvaluated, Outcome, TraceRule
from profiling.report_schema import Report

# Out of place, these clone their input and call their in-place form on the clone.
# Source: PyTorch, aten/src/ATen/native/TensorAdvancedIndexing.cpp.
CLONES_ITS_INPUT = frozenset(
    {
        "aten::masked_fill",
        "aten::masked_scatter",
        "aten::index_put",
        "aten::index_fill",
    }
)


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    operators = facts.trace.operators
    if not operators:
        return NotEvaluated(reason=facts.why_no_operators)
    clones = [
        clone
        for clone in facts.named("aten::clone")
        if clone.parent is not None
        and operators[clone.parent].name in CLONES_ITS_INPUT
        and not facts.is_in(clone, IN_BACKWARD)
    ]
    names = sorted({operators[clone.parent].name for clone in clones if clone.parent is not None})
    causes, forms = ", ".join(names), ", ".join(f"{name.removeprefix('aten::')}_" for name in names)
    return judge_copies(
        facts,
        clones,
        what=(f"copy of a whole input under {causes}", f"copies of whole inputs under {causes}"),
        clear="No operator copies its whole input first: none that works out of place clones it.",
        # One underscore removes it, so whatever is worth showing is worth a warning.
        loud_share=SHOWN_SHARE,
        loud_on_host=True,
        advice=(
            f"Use the in-place form ({forms}) where the input is not needed afterwards. Under training, test the "
            "gradients before you adopt it."
        ),
    )


RULE = TraceRule(
    slug="hidden_copy",
    title="Hidden copy",
    source="aten::clone under aten::masked_fill in the trace: out of place, it clones its input and fills the clone.",
    judge=_judge,
)
