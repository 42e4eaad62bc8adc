"""Is the step replayed from a CUDA graph? Then one launch runs many kernels, and operators are missing by design."""

from profiling.findings.facts import TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_bytes, format_share
from profiling.report_schema import Report
from profiling.trace.events import DeviceItem

# Called by no other ATen operator, these fill a tensor that is there already; so torch.compile feeds its graphs.
# Source: PyTorch, torch/_inductor/cudagraph_trees.py, CUDAGraphNode._copy_inputs_and_remove_from_src.
INTO_EXISTING = ("aten::copy_", "aten::_foreach_copy_")


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
    inputs = _find_input_copies(facts)
    return Fired(
        severity="info",
        explanation=(
            f"{facts.per_step(len(replays), 'graph launch', 'graph launches')} for "
            f"{facts.per_step(len(items), 'device item')}; {facts.per_step(direct)} launched one by one."
            + (f" {_describe(inputs, facts)}" if inputs else "")
        ),
        evidence=(
            build_item_evidence("device items of the replayed graphs", items),
            *([build_item_evidence("copies ahead of the graph", inputs)] if inputs else []),
        ),
        advice=(
            "Launch cost is gone, the kernels are the same. A graph reads the same addresses and shapes each time: "
            + (
                "keep the inputs at theirs (torch._dynamo.mark_static_address under torch.compile), or write them "
                "there in the first place, and the copies are gone too."
                if inputs
                else "copy new inputs into the captured ones."
            )
        ),
    )


def _find_input_copies(facts: TraceFacts) -> list[DeviceItem]:
    """Copies into tensors that are there already, launched in a step before its first replay."""
    begins: dict[int | None, int] = {}
    for call in facts.replays:
        begins[call.step] = min(call.start_ns, begins.get(call.step, call.start_ns))
    operators = facts.trace.operators
    found = []
    for item in facts.items:
        if item.operator is None or item.launch is None or item.step not in begins:
            continue
        if facts.trace.launches[item.launch].start_ns >= begins[item.step]:
            continue
        asked = operators[item.operator]
        while asked.parent is not None and operators[asked.parent].name.startswith("aten::"):
            asked = operators[asked.parent]
        if asked.name in INTO_EXISTING:
            found.append(item)
    return found


def _describe(inputs: list[DeviceItem], facts: TraceFacts) -> str:
    size = sum(item.bytes or 0 for item in inputs)
    share = sum(item.duration_ns for item in inputs) / facts.device_time_ns if facts.device_time_ns else 0.0
    return (
        f"Inputs are brought to where the graph reads them by {facts.per_step(len(inputs), 'copy', 'copies')}"
        + (f", {format_bytes(size / facts.repeats)} in all" if size else "")
        + f": {facts.time_per_step(sum(i.duration_ns for i in inputs))}, "
        f"{format_share(share)} of device time."
    )


RULE = TraceRule(
    slug="cuda_graph",
    title="CUDA graph in use",
    source="cudaGraphLaunch (or HIP's) and the items of its correlation.",
    judge=_judge,
)
