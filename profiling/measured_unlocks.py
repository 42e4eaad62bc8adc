"""What a change that unlocks a refused backend costs, beside the run that was asked for. No torch."""

from dataclasses import replace
from typing import Literal

from attention.backends import Decision
from profiling.format import format_comparison, format_duration, format_spread
from profiling.recording import Recording
from profiling.report_schema import LatencyReport, LatencySummary, MeasuredUnlock
from profiling.statistics import summarize_samples
from profiling.unlocks import describe_unlocks, is_about

BUDGET_WORDS = {True: "within budget", False: "outside its budget", None: "not judged"}


def build_measured_unlocks(recording: Recording, base: LatencyReport) -> tuple[MeasuredUnlock, ...]:
    """One a measurement of the recording, in its order; ``base`` are the clocks of the run that was asked for."""
    base_backend = None if recording.workload is None else recording.workload.backend
    measured = []
    for entry in recording.unlock_measurements:
        unlock = MeasuredUnlock(
            backend=entry.backend,
            change=entry.change,
            device=None if entry.device is None else summarize_samples(entry.device),
            wall=None if entry.wall is None else summarize_samples(entry.wall),
            max_abs_error=entry.max_abs_error,
            error_budget=entry.error_budget,
            within_budget=entry.within_budget,
            skipped=entry.skipped,
        )
        clock = _common_clock(unlock, base)
        if clock is not None:
            summary: LatencySummary = getattr(base, clock)
            unlock = replace(unlock, base_backend=base_backend, base_ns=summary.median_ns, clock=clock)
        measured.append(unlock)
    return tuple(measured)


def _common_clock(unlock: MeasuredUnlock, base: LatencyReport) -> Literal["device", "wall"] | None:
    if unlock.device is not None and base.device is not None:
        return "device"
    return "wall" if unlock.wall is not None and base.wall is not None else None


def describe_measurement(unlock: MeasuredUnlock) -> str:
    """``93.0 µs ± 1.0 µs of device time, within budget, 2.80× faster than sdpa_auto as asked (260 µs)``."""
    if unlock.skipped:
        return f"not measured: {unlock.skipped}"
    shown, clock = (unlock.device, "device") if unlock.device is not None else (unlock.wall, "wall")
    if shown is None:
        return "no clock ran"
    spread = format_spread(shown.iqr_ns, beside_ns=shown.median_ns)
    parts = [f"{format_duration(shown.median_ns)} {spread} of {clock} time", BUDGET_WORDS[unlock.within_budget]]
    summary: LatencySummary | None = getattr(unlock, unlock.clock) if unlock.clock else None
    if summary is not None:
        against = f"{unlock.base_backend} as asked ({format_duration(unlock.base_ns)})"
        parts.append(f"{format_comparison(summary.median_ns, unlock.base_ns)} {against}")
    return ", ".join(parts)


def list_changes(decision: Decision, measured: tuple[MeasuredUnlock, ...]) -> tuple[str, ...]:
    """Each change that unlocks ``decision``'s backend, with what it cost where that was measured."""
    found = {entry.change: entry for entry in measured if entry.backend == decision.backend}
    lines = []
    for change in decision.unlocked_by:
        entry = next((found[sentence] for sentence in found if is_about(change, sentence)), None)
        lines.append(change if entry is None else f"{change}: {describe_measurement(entry)}")
    return tuple(lines)


def describe_changes(decision: Decision, measured: tuple[MeasuredUnlock, ...]) -> str:
    """As ``describe_unlocks``, with the measurements; empty where nothing was refused."""
    return describe_unlocks(replace(decision, unlocked_by=list_changes(decision, measured)))
