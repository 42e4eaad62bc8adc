"""What work left the device inside a step? Copies to the host and back, and operators that compute on the host."""

from profiling.findings.facts import NO_DEVICE_ITEMS, TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_bytes, format_count, format_share
from profiling.report_schema import Evidence, Report
from profiling.trace.events import DeviceItem, Operator

DIRECTIONS = {"DtoH": "to the host", "HtoD": "to the device"}  # as CUPTI names them: "Memcpy DtoH (Device -> Pageable)"
# A copy below 1 % of the device time is lost in the spread of the kernels; a scalar read by .item() is 4 or 8 bytes.
LOUD_SHARE = 0.01
LOUD_BYTES = 2**20
# An operator that launches nothing takes tens of µs under the profiler, 100 µs with a new allocation: what takes a
# millisecond computes.
COMPUTES_NS = 1_000_000


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.device_items:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    copies: dict[str, list[DeviceItem]] = {key: [] for key in DIRECTIONS}
    for item in facts.items:
        if item.kind == "memcpy":
            for key, found in copies.items():
                if key in item.name:
                    found.append(item)
    moved = [item for found in copies.values() for item in found]
    computing = _find_host_work(facts)
    if not moved and not computing:
        return Clear(
            explanation="Nothing is copied between host and device in a step, and no operator computes on the host."
        )
    moved_bytes = sum(item.bytes or 0 for item in moved)
    moved_ns = sum(item.duration_ns for item in moved)
    share = moved_ns / facts.device_time_ns if facts.device_time_ns else 0.0
    sentences = []
    if moved:
        ways = " and ".join(f"{facts.per_step(len(found))} {DIRECTIONS[key]}" for key, found in copies.items() if found)
        sentences.append(
            f"Copies: {ways}; {format_bytes(moved_bytes / facts.repeats)} and {facts.time_per_step(moved_ns)}, "
            f"{format_share(share)} of device time."
        )
    if computing:
        host_ns = sum(op.duration_ns for op in computing)
        sentences.append(
            f"{facts.per_step(len(computing), 'operator')} computing on the host: {facts.time_per_step(host_ns)} of "
            "CPU time."
        )
    loud = bool(computing) or share >= LOUD_SHARE or moved_bytes / facts.repeats >= LOUD_BYTES
    return Fired(
        severity="warning" if loud else "info",
        explanation=" ".join(sentences),
        evidence=(
            *(
                build_item_evidence(f"{format_count(len(found))} × {found[0].name}", found)
                for found in copies.values()
                if found
            ),
            *(
                Evidence(
                    text=f"{name} launches nothing", operators=tuple(op.index for op in computing if op.name == name)
                )
                for name in dict.fromkeys(op.name for op in computing)
            ),
        ),
        advice="Keep the tensors on the device; move what must move once, outside the step, from pinned memory.",
    )


def _find_host_work(facts: TraceFacts) -> list[Operator]:
    """Outermost ATen operators of a millisecond and more without a runtime call inside: no launch and no wait."""
    long = {
        op.index: op
        for name, operators in facts.operators_by_name.items()
        if name.startswith("aten::")
        for op in operators
        if op.parent is None and op.duration_ns >= COMPUTES_NS
    }
    if long:
        for call in facts.trace.launches:
            if call.operator is not None:
                long.pop(facts.roots[call.operator], None)
    return list(long.values())


RULE = TraceRule(
    slug="cpu_work",
    title="Work moved to the CPU",
    source="Memcpy DtoH and HtoD inside the steps, and long operators with no runtime call inside.",
    judge=_judge,
)
