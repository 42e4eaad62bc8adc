"""Operators by call path, which is an operator's name under the names around it, so that totals cost one pass.

A model's trace has hundreds of thousands of operator calls and some hundred paths: what needs a walk through the
operators around a call is found once a path.
"""

from collections import Counter
from dataclasses import dataclass

from profiling.trace.events import DeviceItem, Trace


@dataclass(slots=True, kw_only=True)
class CallPath:
    """All calls of one path. ``counted``: inside a step, or the trace has none."""

    name: str
    parent: int | None  # position in the list of paths; a parent stands before its children
    counted: bool
    outermost: bool = False  # no counted operator around it has its name
    calls: int = 0  # without those that do nothing but call their namesake
    cpu_time_ns: int = 0
    inner_cpu_time_ns: int = 0  # of operators directly inside
    self_device_time_ns: int = 0
    device_time_ns: int = 0  # with what was launched by operators inside


def build_call_paths(trace: Trace) -> list[CallPath]:
    """Every call path of ``trace``, with its sums over calls and over the device items that they launched."""
    paths, path_of = _sum_calls(trace)
    for item in trace.device_items:
        operator = charged_operator(trace, item)
        if operator is not None:
            paths[path_of[operator]].self_device_time_ns += item.duration_ns
    for path in reversed(paths):
        path.device_time_ns += path.self_device_time_ns
        if path.parent is not None:
            paths[path.parent].device_time_ns += path.device_time_ns
    _mark_outermost(paths)
    return paths


def charged_operator(trace: Trace, item: DeviceItem) -> int | None:
    """The operator whose self device time ``item`` is; None: outside of every step, or launched by no operator in one.

    An operator that began before its step is not counted, and so takes no device time either.
    """
    if item.operator is None or not trace.steps:
        return item.operator
    return None if item.step is None or trace.operators[item.operator].step is None else item.operator


def _sum_calls(trace: Trace) -> tuple[list[CallPath], list[int]]:
    """The paths with calls and CPU times summed, and the path of each operator."""
    paths: list[CallPath] = []
    path_of: list[int] = []
    known: dict[tuple[int | None, str, bool], int] = {}
    inside = Counter([operator.parent for operator in trace.operators])
    whole = not trace.steps
    for operator in trace.operators:
        name, parent = operator.name, operator.parent
        counted = whole or operator.step is not None
        parent_path = None if parent is None else path_of[parent]
        key = (parent_path, name, counted)
        number = known.get(key)
        if number is None:
            number = known[key] = len(paths)
            paths.append(CallPath(name=name, parent=parent_path, counted=counted))
        path_of.append(number)
        path = paths[number]
        path.cpu_time_ns += operator.duration_ns
        path.calls += 1
        if parent_path is not None:
            around = paths[parent_path]
            if counted:
                around.inner_cpu_time_ns += operator.duration_ns
            # Source: torch/autograd/profiler_util.py, EventList._remove_dup_nodes.
            if around.name == name and inside[parent] == 1:
                path.calls -= 1
    return paths, path_of


def _mark_outermost(paths: list[CallPath]) -> None:
    """One walk through the tree of paths, with a count of each name on the way down to here."""
    children: dict[int | None, list[int]] = {}
    for number, path in enumerate(paths):
        children.setdefault(path.parent, []).append(number)
    above: Counter[str] = Counter()
    waiting = [(number, True) for number in children.get(None, [])]
    while waiting:
        number, entering = waiting.pop()
        path = paths[number]
        if not entering:
            above[path.name] -= path.counted
            continue
        path.outermost = path.counted and not above[path.name]
        above[path.name] += path.counted
        waiting.append((number, False))
        waiting.extend((child, True) for child in children.get(number, []))
