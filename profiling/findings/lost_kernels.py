"""Are kernels missing from the trace? Each launch that should have put work on the device is looked for there."""

from profiling.findings.facts import TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_count, format_items, format_share
from profiling.report_schema import Evidence, Report
from profiling.trace.events import RuntimeCall
from profiling.trace.health import find_lost_launches

_SHOWN_LAUNCHES = 5


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    launches = [call for call in facts.trace.launches if call.launches_work]
    if not launches:
        return NotEvaluated(
            reason="The trace has no launches; record on a GPU with ProfilerActivity.CUDA among the activities."
        )
    lost = find_lost_launches(facts.trace)
    if not lost:
        return Clear(explanation=f"Each of {format_count(len(launches))} launches has its device item in the trace.")
    inside = sum(call.step is not None for call in lost)
    where = f", {format_count(inside)} of them inside the steps" if facts.trace.steps else ""
    return Fired(
        severity="error" if len(lost) == len(launches) else "warning",
        explanation=(
            f"{format_count(len(lost))} of {format_items(len(launches), 'launch', 'launches')} "
            f"({format_share(len(lost) / len(launches))}) without a device item{where}: counts and totals are too "
            "small."
        ),
        evidence=tuple(_show(facts, call) for call in lost[:_SHOWN_LAUNCHES]),
        advice=(
            "Record again in a fresh process: a process that profiles for long loses kernels at the start of a "
            "session. Put spare warm-up iterations first and synchronise before the profiler stops."
        ),
    )


def _show(facts: TraceFacts, call: RuntimeCall) -> Evidence:
    operator = "no operator" if call.operator is None else facts.trace.operators[call.operator].name
    return Evidence(
        text=f"{call.name} in {operator}, correlation {call.correlation}: no device item",
        operators=() if call.operator is None else (call.operator,),
    )


RULE = TraceRule(
    slug="lost_kernels",
    title="Lost kernels",
    source="Launches against device items by correlation; seen in pytorch/pytorch#192021 and pytorch/kineto#996.",
    judge=_judge,
)
