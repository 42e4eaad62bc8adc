"""How every rule about copies judges one: by its share of the time, on the device or, without one, on the host."""

from collections.abc import Sequence

from profiling.findings.facts import IN_A_GRAPH, TraceFacts, build_item_evidence
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome
from profiling.format import format_bytes, format_count, format_share
from profiling.report_schema import Evidence
from profiling.trace.events import DeviceItem, Operator

# Set from the H200 and CPU traces of the tests: the clone that masking out of place makes takes 12 % of naive's device
# time, and healthy calls copy nothing. Below 1 % a copy is lost in the spread of the kernels themselves (1 to 6 %
# between the steps of one run).
LOUD_SHARE = 0.05
SHOWN_SHARE = 0.01
_SHOWN_NAMES = 3  # of the operators around a copy, besides the outermost


def judge_copies(
    facts: TraceFacts,
    roots: Sequence[Operator],
    *,
    what: tuple[str, str],
    clear: str,
    advice: str,
    loud_share: float = LOUD_SHARE,
    loud_on_host: bool = False,
) -> Outcome:
    """Fired with the share of the time that ``roots`` and all under them take; clear where that is below SHOWN_SHARE.

    ``what`` names one of them and several ("cast", "casts"), ``clear`` says that there is none.
    ``loud_on_host``: a share of CPU time may be a warning too. Of short operators much of that is the profiler's own.
    """
    roots = facts.outermost(roots)
    if not roots:
        return NotEvaluated(reason=IN_A_GRAPH) if facts.replays else Clear(explanation=clear)
    items = facts.items_under(roots)
    if facts.trace.device_items and not items:
        return Clear(explanation=clear)
    time_ns = sum(item.duration_ns for item in items) if items else sum(root.duration_ns for root in roots)
    whole_ns = facts.device_time_ns if items else _host_time_ns(facts)
    share = time_ns / whole_ns if whole_ns else 0.0
    of = "device time" if items else "the operators' CPU time"
    count = len(items) or len(roots)
    noun = what[0] if count == facts.repeats else what[1]
    explanation = (
        f"{format_count(count / facts.repeats)} {noun} {facts.where}{_largest(items)}: "
        f"{facts.time_per_step(time_ns)}, {format_share(share)} of {of}."
    )
    if share < SHOWN_SHARE:
        return Clear(explanation=explanation)
    return Fired(
        severity="warning" if share >= loud_share and (items or loud_on_host) else "info",
        explanation=explanation,
        evidence=_build_evidence(facts, items, roots),
        advice=advice,
    )


def _host_time_ns(facts: TraceFacts) -> int:
    return sum(
        operator.duration_ns
        for operators in facts.operators_by_name.values()
        for operator in operators
        if operator.parent is None
    )


def _largest(items: Sequence[DeviceItem]) -> str:
    sizes = [item.bytes for item in items if item.bytes is not None]
    if not sizes:
        return ""
    return f", {format_bytes(max(sizes))}" if min(sizes) == max(sizes) else f", up to {format_bytes(max(sizes))}"


def _build_evidence(facts: TraceFacts, items: Sequence[DeviceItem], roots: Sequence[Operator]) -> tuple[Evidence, ...]:
    """One line for each operator name that causes the copies: the outermost one is what a caller wrote."""
    operators = facts.trace.operators
    if items:
        by_cause: dict[str, list[DeviceItem]] = {}
        for item in items:
            cause = None if item.operator is None else operators[item.operator]
            by_cause.setdefault("no operator" if cause is None else _name_path(facts, cause), []).append(item)
        return tuple(
            build_item_evidence(
                f"{path}: {facts.per_step(len(group))}, {facts.time_per_step(sum(item.duration_ns for item in group))}",
                group,
            )
            for path, group in by_cause.items()
        )
    by_path: dict[str, list[Operator]] = {}
    for root in roots:
        by_path.setdefault(_name_path(facts, root), []).append(root)
    return tuple(
        Evidence(
            text=f"{path}: {facts.per_step(len(group))}, {facts.time_per_step(sum(op.duration_ns for op in group))}",
            operators=tuple(operator.index for operator in group),
        )
        for path, group in by_path.items()
    )


def _name_path(facts: TraceFacts, operator: Operator) -> str:
    """``aten::copy_ in aten::clone in aten::masked_fill``: the operator, what called it and the outermost around it."""
    operators = facts.trace.operators
    names = [operator.name]
    around = operator
    while around.parent is not None and len(names) < _SHOWN_NAMES:
        around = operators[around.parent]
        names.append(around.name)
    names.append(operators[facts.roots[operator.index]].name)
    return " in ".join(dict.fromkeys(names))
