"""Which measured clock answers which question, and how far apart two of them must be to differ."""

from typing import Literal

from profiling.report_schema import LatencySummary, Report


def device_clock(report: Report) -> LatencySummary | None:
    """Device time of one call: graph replay where it ran, else the trace's device items; ``method`` says which.

    The trace gives a mean over steps, with no spread of its own.
    """
    if report.latency.device is not None:
        return report.latency.device
    total_ns = report.device_time_per_step_ns
    if not total_ns:
        return None
    return LatencySummary(
        median_ns=total_ns,
        p10_ns=total_ns,
        p90_ns=total_ns,
        iqr_ns=0,
        count=report.steps_recorded,
        method="device items of a profiled step summed, mean over steps",
    )


def steady_clock(report: Report) -> tuple[str, LatencySummary] | None:
    """Name and clock of later calls that compare best with the first call's: wall, else the slower of the others."""
    latency = report.latency
    if latency.wall is not None:
        return "wall", latency.wall
    others = [
        (name, clock) for name, clock in (("device", latency.device), ("submission", latency.submission)) if clock
    ]
    return max(others, key=lambda pair: pair[1].median_ns, default=None)


def slower_side(*, device: LatencySummary, submission: LatencySummary) -> Literal["host", "device", "even"]:
    """Which of the two takes longer; even: the medians are no further apart than half of each interquartile range."""
    margin_ns = submission.median_ns - device.median_ns
    if abs(margin_ns) <= (device.iqr_ns + submission.iqr_ns) / 2:
        return "even"
    return "host" if margin_ns > 0 else "device"
