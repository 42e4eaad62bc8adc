"""Does an out-of-place operator copy its whole input first? One underscore in the code, one full pass over memory."""

from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_bytes, format_count, format_duration, format_share
from profiling.report_schema import Evidence, Report
from profiling.trace.events import DeviceItem, Operator, Trace

DEVICE_TO_DEVICE = "DtoD"  # as CUPTI names the copy: "Memcpy DtoD (Device -> Device)"
IN_PLACE_ADVICE = (
    "Use masked_fill_: the scores are not needed afterwards. Under training, test gradients before you adopt it."
)


def _judge(report: Report, trace: Trace | None) -> Outcome:
    if trace is None:
        return NotEvaluated(reason="No trace was recorded.")
    if not trace.operators:
        return NotEvaluated(reason="The trace has no operators, so a copy cannot be traced to its cause.")
    copies = [
        item
        for item in trace.device_items
        if item.kind == "memcpy" and DEVICE_TO_DEVICE in item.name and (item.step is not None or not trace.steps)
    ]
    if copies:
        return _device_copies(report, trace, copies)
    clones = _masked_fill_clones(trace)
    if clones and not trace.device_items:
        return _host_clones(report, clones)
    return Clear(explanation="No step copies a tensor from device to device, and no masked_fill clones its input.")


def _device_copies(report: Report, trace: Trace, copies: list[DeviceItem]) -> Outcome:
    steps = max(report.steps_recorded, 1)
    time_ns = sum(item.duration_ns for item in copies)
    total_ns = sum(kernel.device_time_ns for kernel in report.kernels)
    sizes = [item.bytes for item in copies if item.bytes is not None]
    size = f" of {format_bytes(max(sizes))}" if sizes else ""
    share = f", {format_share(time_ns / total_ns)} of device time" if total_ns else ""
    causes = {_outermost(trace, item.operator) for item in copies}
    cause = ", ".join(sorted(causes))
    return Fired(
        severity="warning",
        explanation=(
            f"{format_count(len(copies) / steps)} device-to-device copy{size} a step under {cause}: "
            f"{format_duration(time_ns / steps)} a step{share}."
        ),
        evidence=tuple(
            Evidence(
                text=f"{item.name}, {format_bytes(item.bytes)}, {format_duration(item.duration_ns)}",
                items=(item.index,),
                operators=() if item.operator is None else (item.operator,),
            )
            for item in copies
        ),
        advice=(
            IN_PLACE_ADVICE
            if any("masked_fill" in name for name in causes)
            else "Look at the operator named here: an in-place variant or a matching layout removes the copy."
        ),
    )


def _host_clones(report: Report, clones: list[Operator]) -> Outcome:
    steps = max(report.steps_recorded, 1)
    time_ns = sum(op.duration_ns for op in clones)
    return Fired(
        severity="warning",
        explanation=(
            f"masked_fill clones its whole input first: {format_count(len(clones) / steps)} clone a step, "
            f"{format_duration(time_ns / steps)} of CPU time a step."
        ),
        evidence=tuple(
            Evidence(
                text=f"{op.name} under aten::masked_fill, {format_duration(op.duration_ns)}", operators=(op.index,)
            )
            for op in clones
        ),
        advice=IN_PLACE_ADVICE,
    )


def _masked_fill_clones(trace: Trace) -> list[Operator]:
    return [
        op
        for op in trace.operators
        if op.name == "aten::clone"
        and op.parent is not None
        and trace.operators[op.parent].name == "aten::masked_fill"
        and (op.step is not None or not trace.steps)
    ]


def _outermost(trace: Trace, operator: int | None) -> str:
    """The masked_fill around a copy, or else the outermost operator around it."""
    if operator is None:
        return "no operator"
    op = trace.operators[operator]
    while op.name != "aten::masked_fill" and op.parent is not None:
        op = trace.operators[op.parent]
    return op.name


RULE = Rule(
    slug="hidden_copy",
    title="Hidden copy",
    source="Memcpy DtoD under aten::masked_fill in the trace: out of place, it clones its input and fills the clone.",
    judge=_judge,
)
