"""Is the step replayed from a CUDA graph? Then one launch runs many kernels, and operators are missing by design."""

from profiling.findings.facts import TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.report_schema import Report


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.launches:
        return NotEvaluated(
            reason="The trace has no runtime calls; record on a GPU with ProfilerActivity.CUDA among the activities."
        )
    replays = {call.index for call in facts.replays}
    if not replays:
        return Clear(explanation="No CUDA graph is replayed: each kernel has a launch of its own.")
    items = [item for item in facts.items if item.launch in replays]
    direct = len(facts.items) - len(items)
    return Fired(
        severity="info",
        explanation=(
            f"{facts.per_step(len(replays), 'graph launch', 'graph launches')} for "
            f"{facts.per_step(len(items), 'device item')}; {facts.per_step(direct)} launched one by one."
        ),
        evidence=(build_item_evidence("device items of the replayed graphs", items),),
        advice=(
            "Launch cost is gone, the kernels are the same. A graph reads the same addresses and shapes each time: "
            "copy new inputs into the captured ones."
        ),
    )


RULE = TraceRule(
    slug="cuda_graph",
    title="CUDA graph in use",
    source="cudaGraphLaunch (or HIP's) and the items of its correlation.",
    judge=_judge,
)
