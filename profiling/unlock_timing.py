"""What each change that unlocks a refusing backend costs: run, timed and judged like a run of its own.

The changes come from the decisions; each that ran in its trial is measured at the workload's full size.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from attention.backends import BACKENDS, Decision, DeviceFacts
from attention.call import build_call
from attention.cost import inputs_bytes
from attention.inputs import build_inputs
from attention.kinds import AnyWorkload
from attention.lookup import find
from attention.validation import check_memory
from attention.workload import InvalidWorkload, Workload
from profiling import timing
from profiling.check_records import UnlockMeasurement
from profiling.correctness import check_results
from profiling.failures import is_sticky
from profiling.recording import Delta
from profiling.samples import Samples
from profiling.shared_work import SharedWork
from profiling.unlocks import UNLOCK_TRIES, Unlock, find_unlocks, is_about

NOT_TRIED = "this backend is judged by rule; run it with this change to measure it"


def measure_unlocks(
    workload: AnyWorkload, decisions: Iterable[Decision], facts: DeviceFacts, free_memory_bytes: int | None
) -> Iterator[UnlockMeasurement]:
    """One measurement a change: those of the requested backend first, then equal calls next to each other.

    ``free_memory_bytes`` as it was before ``workload`` took its own; None is not judged.
    """
    if not isinstance(workload, Workload):
        return  # no single change makes a torch without a compiler compile
    # What the run itself still holds is not free.
    available = None if free_memory_bytes is None else free_memory_bytes - inputs_bytes(workload)
    drawn = SharedWork()  # of its own, so that the entry's tensors stay for the next workload
    for unlock in order_unlocks(workload, decisions, facts):
        if not find(unlock.workload.backend, BACKENDS, field="backend").is_probed:
            yield UnlockMeasurement(backend=unlock.workload.backend, change=unlock.sentence, skipped=NOT_TRIED)
            continue
        yield _measure(unlock, drawn, facts, available)


def order_unlocks(workload: Workload, decisions: Iterable[Decision], facts: DeviceFacts) -> list[Unlock]:
    """The changes that the decisions list, at most UNLOCK_TRIES a backend, in the order in which they are measured."""
    listed = [unlock for decision in decisions for unlock in _listed(workload, decision, facts)]
    calls = [replace(unlock.workload, backend="") for unlock in listed]

    def place(position: int) -> tuple[bool, int]:
        # A workload has no hash, since its mask's parameters are a dict; of a few, the first equal one is found fast.
        return listed[position].workload.backend != workload.backend, calls.index(calls[position])

    return [listed[position] for position in sorted(range(len(listed)), key=place)]


def _listed(workload: Workload, decision: Decision, facts: DeviceFacts) -> list[Unlock]:
    unlocks = find_unlocks(replace(workload, backend=decision.backend), decision, facts)
    ran = [unlock for unlock in unlocks if any(is_about(line, unlock.sentence) for line in decision.unlocked_by)]
    return ran[:UNLOCK_TRIES]


def _measure(unlock: Unlock, drawn: SharedWork, facts: DeviceFacts, available: int | None) -> UnlockMeasurement:
    record = UnlockMeasurement(backend=unlock.workload.backend, change=unlock.sentence)
    try:
        check_memory(unlock.workload, available, facts)
        return _run(record, unlock.workload, drawn, facts.kind)
    except InvalidWorkload as problem:
        return replace(record, skipped=str(problem))
    except (RuntimeError, ValueError, NotImplementedError) as error:  # out of memory is a RuntimeError
        if is_sticky(error):
            raise
        return replace(record, skipped=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


def _run(record: UnlockMeasurement, workload: Workload, drawn: SharedWork, device: str) -> UnlockMeasurement:
    backend = find(workload.backend, BACKENDS, field="backend")
    inputs = build_inputs(workload, device, drawn.tensors(workload, device))
    with build_call(backend, workload, inputs) as call:
        for _ in range(timing.WARMUP_CALLS):
            call()
        _, wall = timing.measure_host_clocks(call, device)
        device_samples = None if device == "cpu" else _device_samples(call, wall, holds_graph=backend.holds_graph)
        worst = _worst(check_results(workload, inputs, call()))
    return replace(
        record,
        device=device_samples,
        wall=wall,
        max_abs_error=worst.max_abs_error,
        error_budget=worst.error_budget,
        within_budget=worst.within_budget,
    )


def _device_samples(call: "timing.AttentionCall", wall: Samples, *, holds_graph: bool) -> Samples | None:
    try:
        return timing.measure_device(call, min(wall.samples_ns), holds_graph=holds_graph)
    except RuntimeError as error:
        if is_sticky(error):
            raise
        return None  # it cannot be captured: wall time is what is shown


def _worst(deltas: tuple[Delta, ...]) -> Delta:
    """The tensor furthest outside its budget, or nearest to it; one without a verdict stands for all."""

    def distance(delta: Delta) -> tuple[int, float]:
        order = {False: 2, None: 1, True: 0}[delta.within_budget]
        share = (delta.max_abs_error or 0.0) / delta.error_budget if delta.error_budget else 0.0
        return order, share

    return max(deltas, key=distance)
