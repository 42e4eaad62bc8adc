"""Does the host wait for the device in the middle of a step? Then nothing is queued when the device is done."""

import re
from functools import lru_cache

from profiling.findings.facts import TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_count, format_duration
from profiling.report_schema import Evidence, Report
from profiling.trace.events import RuntimeCall

# Source: CUDA runtime and driver API references, synchronisation behaviour; HIP's names are the same.
_SYNCHRONISES = re.compile(r"(?:cuda|cu|hip)(?:(?:Device|Stream|Event|Ctx)Synchronize|Memcpy)(?:_v\d+|_ptsz|_ptds)?$")


@lru_cache(maxsize=1024)
def is_synchronisation(name: str) -> bool:
    """Whether the host waits for the device in a runtime call of this name."""
    return _SYNCHRONISES.match(name) is not None


def find_synchronisations(facts: TraceFacts) -> list[RuntimeCall]:
    """The counted calls in which the host waits for the device, by their end."""
    found = [call for name, calls in facts.calls_by_name.items() if is_synchronisation(name) for call in calls]
    return sorted(found, key=lambda call: call.end_ns)


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.launches:
        return NotEvaluated(
            reason="The trace has no runtime calls; record on a GPU with ProfilerActivity.CUDA among the activities."
        )
    waits = find_synchronisations(facts)
    inside = [call for call in waits if call.operator is not None] if not facts.trace.steps else _inside(facts, waits)
    if not inside:
        edge = f"; {format_count(len(waits))} at the steps' edges" if waits else ""
        return Clear(explanation=f"The host waits for the device nowhere inside a step{edge}.")
    by_cause: dict[str, list[RuntimeCall]] = {}
    for call in inside:
        by_cause.setdefault(f"{call.name} in {_name_cause(facts, call)}", []).append(call)
    time_ns = sum(call.duration_ns for call in inside)
    return Fired(
        severity="warning",
        explanation=(
            f"{facts.per_step(len(inside), 'wait of the host', 'waits of the host')} for the device, between its "
            f"launches or in its label: {facts.time_per_step(time_ns)} in which nothing is launched."
        ),
        evidence=tuple(
            Evidence(
                text=(
                    f"{cause}: {facts.per_step(len(calls))}, "
                    f"{format_duration(max(call.duration_ns for call in calls))} at most"
                ),
                items=tuple(
                    item.index
                    for operator in dict.fromkeys(call.operator for call in calls if call.operator is not None)
                    for item in facts.items_by_operator.get(operator, ())
                ),
                operators=tuple(dict.fromkeys(call.operator for call in calls if call.operator is not None)),
            )
            for cause, calls in by_cause.items()
        ),
        advice=(
            "Keep values on the device: .item(), .cpu(), bool(tensor), nonzero and masks by index make the host wait. "
            "Synchronise at the step's edge, if at all."
        ),
    )


def _inside(facts: TraceFacts, waits: list[RuntimeCall]) -> list[RuntimeCall]:
    """Those within the step's label, or between the first and the last launch of their step."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for call in facts.trace.launches:
        if call.step is not None and call.launches_work:
            first.setdefault(call.step, call.start_ns)
            last[call.step] = call.start_ns
    inside = []
    for call in waits:
        assert call.step is not None
        step = facts.trace.steps[call.step]
        labelled = (
            step.label_start_ns is not None
            and step.label_end_ns is not None
            and step.label_start_ns <= call.start_ns < step.label_end_ns
        )
        if labelled or first.get(call.step, call.start_ns) < call.start_ns < last.get(call.step, 0):
            inside.append(call)
    return inside


def _name_cause(facts: TraceFacts, call: RuntimeCall) -> str:
    return "no operator" if call.operator is None else facts.trace.operators[call.operator].name


RULE = TraceRule(
    slug="sync_in_step",
    title="Synchronisation inside a step",
    source="Runtime calls that wait (cudaStreamSynchronize and its kin) between a step's launches or in its label.",
    judge=_judge,
)
