"""Can the numbers of a linked trace be trusted? Checked before any of them is shown."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

from profiling.trace.events import Annotation, DeviceItem, Operator, Problem, RuntimeCall, Trace, TraceHealth
from profiling.trace.parse import STEP_PREFIX
from profiling.trace.problems import EMPTY, HARMLESS_REPAIRS, OVERLAP, TICK_OVERLAP

# The clock behind a kernel's start and end ticks every 32 ns: in the H200 traces of the tests short kernels last a
# multiple of it, but for 1 ns that the conversion to the host's clock rounds by. Two in a row may share that much.
CLOCK_TICK_NS = 32
_ROUNDING_NS = 1
_STEP_ROUNDING_NS = 1000  # older traces have whole microseconds

FaultT = TypeVar("FaultT", DeviceItem, RuntimeCall, Operator, Annotation, DeviceItem | RuntimeCall | Operator)


def build_health(trace: Trace, expected_steps: int | None) -> TraceHealth:
    """Status and problems of ``trace``; ``expected_steps`` None: nobody knows how many steps there should be.

    ``unusable``: nothing was recorded, or the device's side and the host's have nothing to do with each other.
    ``suspect``: some number is off. ``ok`` may still list repairs that changed no time and no count.
    """
    problems = tuple(trace.problems) + tuple(_find_problems(trace, expected_steps))
    launches = {call.correlation for call in trace.launches if call.launches_work}
    linked = sum([item.launch is not None for item in trace.device_items])
    empty = not (trace.device_items or trace.launches or trace.operators)
    unlinked = not linked and bool(trace.device_items or launches)
    if empty:
        problems += (Problem(kind=EMPTY, count=1, example="the trace holds no operator, call or device item"),)
    status: Literal["ok", "suspect", "unusable"]
    if empty or unlinked:
        status = "unusable"
    elif any(problem.kind not in HARMLESS_REPAIRS for problem in problems):
        status = "suspect"
    else:
        status = "ok"
    return TraceHealth(status=status, problems=problems, launches=len(launches), linked_kernels=linked)


def _find_problems(trace: Trace, expected_steps: int | None) -> Iterator[Problem]:
    items = trace.device_items
    leaked, orphans = split_outsiders(trace)
    yield from _problem("launch without device item", find_lost_launches(trace), _show_call)
    yield from _problem("device item without launch", orphans, _show)
    yield from _problem("warm-up leak", leaked, _show)
    starts = [call.start_ns for call in trace.launches]
    early = [item for item in items if item.launch is not None and item.start_ns < starts[item.launch]]
    yield from _problem(
        "device item before its launch", early, lambda item: f"{_show(item)}; launched at {starts[item.launch or 0]} ns"
    )
    yield from _find_overlaps(items)
    yield from _problem("zero timestamp", _without_time(trace), _show_any)
    yield from _problem("zero duration", [item for item in items if item.duration_ns == 0], _show)
    yield from _find_missing_steps(trace, expected_steps)
    yield from _find_shared_steps(trace)
    yield from _find_profiler_work(trace)
    yield from _find_lost_labels(trace)


def _problem(kind: str, faults: Sequence[FaultT], show: Callable[[FaultT], str]) -> Iterator[Problem]:
    """One problem with its first case as the example, or none."""
    if faults:
        yield Problem(kind=kind, count=len(faults), example=show(faults[0]))


def _show(item: DeviceItem) -> str:
    return f"{item.name:.80} at {item.start_ns} ns, {item.duration_ns} ns long, correlation {item.correlation}"


def _show_call(call: RuntimeCall) -> str:
    return f"{call.name:.80} at {call.start_ns} ns, correlation {call.correlation}"


def _show_any(event: DeviceItem | RuntimeCall | Operator) -> str:
    return f"{event.name:.80}, {event.duration_ns} ns long"


def find_lost_launches(trace: Trace) -> list[RuntimeCall]:
    """Calls that put work on the device, of which the trace has no item."""
    arrived = {item.correlation for item in trace.device_items}
    return [call for call in trace.launches if call.launches_work and call.correlation not in arrived]


def split_outsiders(trace: Trace) -> tuple[list[DeviceItem], list[DeviceItem]]:
    """Items of no step inside the steps' window as (leaked from before, without launch for another reason).

    Work that was still queued when recording began runs first on its stream and its launch was not recorded, or was
    recorded before the first step. An item without launch after linked work on its stream did not leak in.
    """
    leaked: list[DeviceItem] = []
    orphans: list[DeviceItem] = []
    window_end = max([step.end_ns for step in trace.steps], default=0)
    streams_with_work: set[tuple[int | None, int | None]] = set()
    for item in trace.device_items:
        stream = (item.device, item.stream)
        if item.step is not None:
            streams_with_work.add(stream)
        elif trace.steps and item.start_ns < window_end and stream not in streams_with_work:
            # Launched and finished before the first step began: outside the window, no leak.
            if item.launch is None or item.end_ns > trace.steps[0].start_ns:
                leaked.append(item)
        elif item.launch is None:
            orphans.append(item)
    return leaked, orphans


def _find_overlaps(items: Sequence[DeviceItem]) -> Iterator[Problem]:
    """Items that start on a stream where another still runs; their durations added up count the shared time twice.

    By at most a tick of the device's clock it is that clock's noise, and is only told.
    """
    running: dict[tuple[int | None, int | None], DeviceItem] = {}
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for item in items:
        stream = (item.device, item.stream)
        before = running.get(stream)
        if before is not None and item.start_ns < before.end_ns:
            kind = TICK_OVERLAP if before.end_ns - item.start_ns <= CLOCK_TICK_NS + _ROUNDING_NS else OVERLAP
            counts[kind] += 1
            if kind not in examples:
                examples[kind] = _show_overlap(kind, item, before)
        if before is None or item.end_ns > before.end_ns:
            running[stream] = item
    for kind in examples:
        yield Problem(kind=kind, count=counts[kind], example=examples[kind])


def _show_overlap(kind: str, item: DeviceItem, before: DeviceItem) -> str:
    told = f"{_show(item)} starts {before.end_ns - item.start_ns} ns before {before.name:.80} ends"
    if kind == TICK_OVERLAP:
        return told
    of_one_graph = item.launch is not None and item.launch == before.launch
    return f"{told}: {'branches of one graph' if of_one_graph else 'programmatic dependent launch, as a rule'}"


def _without_time(trace: Trace) -> list[DeviceItem | RuntimeCall | Operator]:
    """Events at zero of a clock that is far from it. They stand first, because the others are counted from later."""
    if trace.start_ns <= 0:
        return []
    found: list[DeviceItem | RuntimeCall | Operator] = []
    for events in (trace.device_items, trace.launches, trace.operators):
        for event in events:
            if event.start_ns + trace.start_ns > 0:
                break
            if event.start_ns + trace.start_ns == 0:
                found.append(event)
    return found


def _find_missing_steps(trace: Trace, expected: int | None) -> Iterator[Problem]:
    found = len(trace.steps)
    if expected is not None:
        if found != expected:
            yield Problem(
                kind="missing steps" if found < expected else "surplus steps",
                count=abs(expected - found),
                example=f"{found} steps in the trace, {expected} expected",
            )
        return
    # Steps are numbered one after the other, so that a bare trace shows what lies between its own.
    suffixes = [step.name.removeprefix(STEP_PREFIX) for step in trace.steps if step.name.startswith(STEP_PREFIX)]
    numbers = sorted({int(suffix) for suffix in suffixes if suffix.isdecimal() and len(suffix) < 19})
    missing = numbers[-1] - numbers[0] + 1 - len(numbers) if numbers else 0
    if missing:
        yield Problem(
            kind="missing steps",
            count=missing,
            example=f"{len(numbers)} steps from {STEP_PREFIX}{numbers[0]} to {STEP_PREFIX}{numbers[-1]}",
        )


def _find_shared_steps(trace: Trace) -> Iterator[Problem]:
    """Steps that begin inside another, as in a trace merged of several ranks: what a step ran cannot be told."""
    shared = [
        (before, step) for before, step in pairwise(trace.steps) if before.end_ns - step.start_ns > _STEP_ROUNDING_NS
    ]
    if shared:
        before, step = shared[0]
        where = "" if before.thread == step.thread else f", on the threads {before.thread} and {step.thread}"
        example = f"{step.name:.80} starts {before.end_ns - step.start_ns} ns before {before.name:.80} ends{where}"
        yield Problem(kind="steps at the same time", count=len(shared), example=example)


def _find_profiler_work(trace: Trace) -> Iterator[Problem]:
    """The profiler asking for a buffer or flushing one. Inside a step it is time of the host that the call never takes.

    Outside, or in a trace without steps, where it comes with the first launch as a rule, it is only told.
    Source: pytorch/kineto, activity type "overhead" (Activity Buffer Request, Buffer Flush, Instrumentation, Resource).
    """
    inside = set()
    step = 0
    for number, work in enumerate(trace.profiler_work):
        while step < len(trace.steps) and trace.steps[step].end_ns <= work.start_ns:
            step += 1
        if step < len(trace.steps) and work.end_ns > trace.steps[step].start_ns:
            inside.add(number)
    for kind, chosen in (("profiler buffer work in a step", True), ("profiler buffer work", False)):
        found = [work for number, work in enumerate(trace.profiler_work) if (number in inside) is chosen]
        if found:
            total_ns = sum([work.duration_ns for work in found])
            yield Problem(kind=kind, count=len(found), example=f"{found[0].name:.80}, {total_ns} ns in all")


def _find_lost_labels(trace: Trace) -> Iterator[Problem]:
    """Labels and steps that ran, but whose spans are not in the trace (pytorch/pytorch#174555, with stacks on)."""
    if not trace.python_calls:
        return
    written = {annotation.name for annotation in trace.annotations}
    lost = sorted(trace.label_copies - written)
    if lost:
        example = f"the device's side repeats {lost[0]:.80}, which the host's side lacks"
        yield Problem(kind="labels lost under stacks", count=len(lost), example=example)
    elif trace.python_labels and not written:
        example = "record_function was entered, by the Python stacks, and no label was written"
        yield Problem(kind="labels lost under stacks", count=trace.python_labels, example=example)
