"""The report's checks as markdown: what the unlocking changes cost, the mask that was applied, where NaN lies."""

from collections.abc import Callable

from profiling.export.markdown import bullets, code, escape, table
from profiling.format import format_duration, format_error
from profiling.measured_unlocks import BUDGET_WORDS
from profiling.report_schema import LatencySummary, MeasuredUnlock, Report
from profiling.row_words import describe_non_finite, describe_truth


def _unlocks(report: Report) -> str:
    if not report.unlock_measurements:
        return ""
    headers = ("backend", "change", "device time", "wall time", "max abs error", "error budget", "verdict")
    rows = [
        (
            code(unlock.backend),
            escape(unlock.change),
            _clock(unlock.device),
            _clock(unlock.wall),
            format_error(unlock.max_abs_error),
            format_error(unlock.error_budget),
            escape(f"not measured: {unlock.skipped}") if unlock.skipped else BUDGET_WORDS[unlock.within_budget],
        )
        for unlock in report.unlock_measurements
    ]
    return f"{table(headers, rows, right=headers[2:6])}\n\n{bullets(_notes(report.unlock_measurements))}"


def _clock(clock: LatencySummary | None) -> str:
    if clock is None:
        return ""
    return f"{format_duration(clock.median_ns)}, IQR {format_duration(clock.iqr_ns)}"


def _notes(unlocks: tuple[MeasuredUnlock, ...]) -> list[str]:
    clocks = [clock for unlock in unlocks for clock in (unlock.device, unlock.wall) if clock is not None]
    methods = dict.fromkeys(clock.method for clock in clocks)
    base = next((unlock for unlock in unlocks if unlock.base_ns is not None), None)
    notes = [f"Medians. Method: {escape(method)}." for method in methods]
    if base is not None:
        notes.append(
            f"{code(base.base_backend or '')} as asked: {format_duration(base.base_ns)} of {base.clock} time, median."
        )
    return notes


def _mask(report: Report) -> str:
    truth = report.mask_truth
    return "" if truth is None else escape(describe_truth(truth))


def _non_finite(report: Report) -> str:
    return bullets([f"{code(rows.tensor)}: {escape(describe_non_finite(rows))}" for rows in report.non_finite])


CHECK_SECTIONS: tuple[tuple[str, Callable[[Report], str]], ...] = (
    ("Mask that was applied", _mask),
    ("NaN and infinite values", _non_finite),
    ("What the unlocking changes cost", _unlocks),
)
