"""Does the recorded window hold a first call's work? Loading, planning and compiling are paid once and not a step's."""

import re
from statistics import median

from profiling.findings.facts import NO_STEPS, TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_comparison, format_count, format_duration, format_ratio
from profiling.report_schema import Evidence, Report
from profiling.trace.events import RuntimeCall, Step

# Code is loaded or linked, and memory taken from the driver, at a first call; a warm caching allocator asks for none.
# Source: CUDA runtime and driver API references, module and library management; HIP's names are the same.
_START_UP_CALL = re.compile(
    r"(?:cuda|cu|hip)(?:(?:Module|Library)Load\w*|Link(?:Create|Add|Complete)\w*|(?:Mem)?(?:Malloc|HostAlloc|MallocHost))$"
)
# torch.compile shows each phase of compiling as an operator named so. Source: torch/_dynamo/utils.py, dynamo_timed.
_COMPILES = re.compile(r"\(dynamo_timed\)$")
# The first of a warm run's steps took up to 2.5 times the host time of the later ones on an H200, and up to 1.7 times
# on a CPU (10 times on one that was busy with other work); first calls took 100 times and more.
START_UP_RATIO = 20.0
_FEWEST_STEPS = 3


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    trace = facts.trace
    if not (trace.operators or trace.launches):
        return NotEvaluated(reason="The trace has no operators and no runtime calls to look through.")
    calls = [call for name, found in facts.calls_by_name.items() if _START_UP_CALL.match(name) for call in found]
    phases = [phase for name, found in facts.operators_by_name.items() if _COMPILES.search(name) for phase in found]
    slow = _compare_first_step(facts)
    if not (calls or phases or slow):
        looked = f"{format_count(len(trace.steps))} steps" if trace.steps else "The trace"
        unsure = "" if len(trace.steps) >= _FEWEST_STEPS else f" Too few steps to compare the first with. {NO_STEPS}"
        return Clear(explanation=f"{looked}: no code is loaded, compiled or given memory by the driver.{unsure}")
    sentences, evidence = [], []
    if phases:
        longest = max(phases, key=lambda phase: phase.duration_ns)
        sentences.append(
            f"torch.compile works inside the window: {longest.name} takes {format_duration(longest.duration_ns)}."
        )
        evidence.append(
            Evidence(text=f"{longest.name}: {format_duration(longest.duration_ns)}", operators=(longest.index,))
        )
    if calls:
        total_ns = sum(call.duration_ns for call in calls)
        sentences.append(
            f"Calls that load code or take memory from the driver: {format_count(len(calls))}, "
            f"{format_duration(total_ns)}."
        )
        evidence += _show_calls(calls)
    if slow:
        first_ns, later_ns = slow
        sentences.append(
            f"The first step takes the host {format_duration(first_ns)}, {format_comparison(first_ns, later_ns)} the "
            f"median of the later ones ({format_duration(later_ns)})."
        )
        evidence.append(
            Evidence(text=f"host time of the first step {format_ratio(first_ns / later_ns)} the later ones")
        )
    return Fired(
        # A slow first step alone has a cause that the trace does not show; another process may be it.
        severity="warning" if phases or calls else "info",
        explanation=" ".join(sentences),
        evidence=tuple(evidence),
        advice="Warm up with the same shapes before the recorded steps (schedule(warmup=…)), then record again.",
    )


def _compare_first_step(facts: TraceFacts) -> tuple[int, int] | None:
    """Host time of the first step and the median of the later ones, where the first stands out."""
    steps = facts.trace.steps
    if len(steps) < _FEWEST_STEPS:
        return None
    first_ns, later_ns = _host_ns(steps[0]), round(median(_host_ns(step) for step in steps[1:]))
    return (first_ns, later_ns) if later_ns > 0 and first_ns / later_ns >= START_UP_RATIO else None


def _host_ns(step: Step) -> int:
    if step.label_start_ns is not None and step.label_end_ns is not None:
        return step.label_end_ns - step.label_start_ns
    return step.end_ns - step.start_ns


def _show_calls(calls: list[RuntimeCall]) -> list[Evidence]:
    by_name: dict[str, list[RuntimeCall]] = {}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    return [
        Evidence(
            text=f"{name}: {format_count(len(found))}, {format_duration(sum(call.duration_ns for call in found))}",
            operators=tuple(dict.fromkeys(call.operator for call in found if call.operator is not None)),
        )
        for name, found in by_name.items()
    ]


RULE = TraceRule(
    slug="start_up_in_window",
    title="First-call cost inside the window",
    source="Module loads, driver allocations and torch.compile's phases in the trace, and the first step's host time.",
    judge=_judge,
)
