"""What several rules ask of one trace, gathered once: so that all of them together stay linear in its events.

Counted is what happened inside the steps, or everything where the trace has none.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from profiling.format import format_count, format_duration
from profiling.report_schema import Evidence
from profiling.trace.events import DeviceItem, Operator, RuntimeCall, Trace

SDPA = "aten::scaled_dot_product_attention"
SDPA_MATH = "aten::_scaled_dot_product_attention_math"
# Before each operator of a backward, autograd's engine shows itself. Source: torch/csrc/autograd/engine.cpp.
BACKWARD_PREFIX = "autograd::engine::evaluate_function"

_GRAPH_LAUNCH = re.compile(r"(?:cuda|cu|hip)GraphLaunch")

Place = int  # of these flags
IN_SDPA, IN_MATH, IN_BACKWARD = 1, 2, 4

# What a trace may lack, and how it is recorded with it.
NO_OPERATORS = "The trace has no operators; record with ProfilerActivity.CPU among the activities."
NO_DEVICE_ITEMS = "The trace has no device items; record on a GPU with ProfilerActivity.CUDA among the activities."
NO_STEPS = "The trace has no steps; record with a schedule and call profiler.step() after each iteration."
IN_A_GRAPH = (
    "The step is replayed from a CUDA graph, whose operators ran at its capture and are not in the trace; record the "
    "call without the graph."
)
HOW_TO_RECORD_SHAPES = "record with torch.profiler.profile(record_shapes=True)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFacts:
    """One trace's counted events, and the ways into them. Indices are those of the trace's own tuples."""

    trace: Trace
    repeats: int  # steps, or 1 where there are none
    operators_by_name: dict[str, list[Operator]]
    children: dict[int, list[int]]  # operator -> the operators right inside it
    places: list[Place]  # operator -> what it is or lies in
    roots: list[int]  # operator -> the outermost one around it, or itself
    items: Sequence[DeviceItem]  # by start
    items_by_operator: dict[int, list[DeviceItem]]  # launched right under it
    calls_by_name: dict[str, list[RuntimeCall]]
    device_time_ns: int  # of the items, summed
    trains: bool  # a backward is among the operators

    @property
    def why_no_operators(self) -> str:
        """Said where the trace has none: a replayed graph has none to record, whatever the activities."""
        return IN_A_GRAPH if self.replays else NO_OPERATORS

    @property
    def replays(self) -> list[RuntimeCall]:
        """The counted launches of whole CUDA graphs."""
        return [call for name, calls in self.calls_by_name.items() if _GRAPH_LAUNCH.match(name) for call in calls]

    def named(self, *names: str) -> Iterator[Operator]:
        """The counted operators of these names."""
        for name in names:
            yield from self.operators_by_name.get(name, ())

    def is_in(self, operator: Operator, place: Place) -> bool:
        """Whether the operator is or lies in a call of this kind."""
        return bool(self.places[operator.index] & place)

    def outermost(self, operators: Iterable[Operator]) -> list[Operator]:
        """Those that lie in no other of them, so that nothing counts twice."""
        waiting = list(operators)
        chosen = {operator.index for operator in waiting}
        holds: dict[int, bool] = {}  # operator -> whether it or one around it is chosen; each is walked over once
        found = []
        for operator in waiting:
            path, above = [], operator.parent
            while above is not None and above not in holds and above not in chosen:
                path.append(above)
                above = self.trace.operators[above].parent
            inside = above is not None and (above in chosen or holds[above])
            holds.update(dict.fromkeys(path, inside))
            if not inside:
                found.append(operator)
        return found

    def items_under(self, operators: Iterable[Operator]) -> list[DeviceItem]:
        """The counted items launched by these operators or by any that they call, each once, by start."""
        waiting = [operator.index for operator in operators]
        seen: set[int] = set()
        found: list[DeviceItem] = []
        while waiting:
            index = waiting.pop()
            if index not in seen:
                seen.add(index)
                found += self.items_by_operator.get(index, ())
                waiting += self.children.get(index, ())
        return sorted(found, key=lambda item: item.index)

    def per_step(self, count: float, noun: str = "", plural: str | None = None) -> str:
        """``5 kernels a step``, or ``in the trace`` where that has no steps; ``plural`` None: the noun and an s."""
        each = count / self.repeats
        named = noun if each == 1 or not noun else (plural or f"{noun}s")
        return " ".join(part for part in (format_count(each), named, self.where) if part)

    def time_per_step(self, ns: float) -> str:
        """``57.5 µs a step``, or ``57.5 µs in the trace`` where that has no steps."""
        return f"{format_duration(ns / self.repeats)} {self.where}"

    @property
    def where(self) -> str:
        return "a step" if self.trace.steps else "in the trace"


def build_facts(trace: Trace) -> TraceFacts:
    """The facts of one linked trace."""
    stepped = bool(trace.steps)
    by_name: dict[str, list[Operator]] = defaultdict(list)
    children: dict[int, list[int]] = defaultdict(list)
    places = [Place(0)] * len(trace.operators)
    roots = list(range(len(trace.operators)))
    kinds: dict[str, Place] = {}
    for operator in trace.operators:
        index, name, parent = operator.index, operator.name, operator.parent
        place = kinds.get(name)
        if place is None:
            place = kinds[name] = _name_place(name)
        if parent is not None:
            children[parent].append(index)
            # A parent starts before its child, so what is said of it is complete.
            roots[index] = roots[parent]
            place |= places[parent]
        places[index] = place
        if not stepped or operator.step is not None:
            by_name[name].append(operator)
    items = [item for item in trace.device_items if item.step is not None] if stepped else trace.device_items
    by_operator: dict[int, list[DeviceItem]] = defaultdict(list)
    device_time_ns = 0
    for item in items:
        device_time_ns += item.duration_ns
        if item.operator is not None:
            by_operator[item.operator].append(item)
    calls: dict[str, list[RuntimeCall]] = defaultdict(list)
    for call in trace.launches:
        if not stepped or call.step is not None:
            calls[call.name].append(call)
    return TraceFacts(
        trace=trace,
        repeats=max(len(trace.steps), 1),
        operators_by_name=by_name,
        children=children,
        places=places,
        roots=roots,
        items=items,
        items_by_operator=by_operator,
        calls_by_name=calls,
        device_time_ns=device_time_ns,
        trains=any(kinds[name] & IN_BACKWARD for name in by_name),
    )


def _name_place(name: str) -> Place:
    if name == SDPA:
        return IN_SDPA
    if name == SDPA_MATH:
        return IN_MATH
    return IN_BACKWARD if name.startswith(BACKWARD_PREFIX) else Place(0)


def build_item_evidence(text: str, items: Iterable[DeviceItem]) -> Evidence:
    """One line of evidence that shows these items, and the operators that launched them."""
    shown = tuple(items)
    operators = dict.fromkeys(item.operator for item in shown if item.operator is not None)
    return Evidence(text=text, items=tuple(item.index for item in shown), operators=tuple(operators))
