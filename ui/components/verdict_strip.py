"""The verdict strip: what ran, what it cost, whether it was right, in one line of figures."""

from dataclasses import dataclass

from profiling.clocks import device_clock, slower_side
from profiling.format import (
    NOT_RECORDED,
    THIN_SPACE,
    format_bytes,
    format_count,
    format_duration,
    format_error,
    format_items,
    format_ratio,
    format_spread,
)
from profiling.headline import why_not_counted, worst_delta
from profiling.report_schema import LatencySummary, Report
from ui.guess import score_guess
from ui.markup import Markup, element, join
from ui.view import RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure. ``tone`` colours the detail, which says the same in words."""

    label: str
    value: str
    spread: str = ""
    details: tuple[str, ...] = ()
    tone: str = ""


def render_strip(view: RunView) -> Markup:
    """The strip as HTML; empty where the run was refused, for then there is no number to show."""
    if view.was_refused:
        return Markup("")
    tiles = build_tiles(view)
    strip = element("dl", *(_render_tile(tile) for tile in tiles), class_="strip att", aria_label="verdict")
    if not any(tile.spread for tile in tiles):
        return strip
    note = "± is half the interquartile range of the samples. A step is one call."
    return join((strip, element("p", note, class_="att strip-note")))


def build_tiles(view: RunView) -> tuple[Tile, ...]:
    """The tiles in reading order. What a trace of someone's own cannot have gets no tile."""
    report = view.analysis.report
    tiles = [_ran(report), *_times(report), _items(view)]
    if report.workload is not None:
        tiles += [_memory(report), _error(report)]
    return (*tiles, _health(report))


def _render_tile(tile: Tile) -> Markup:
    # A number and its unit are one word.
    # A backend's name breaks behind its underscores, before it breaks inside a word.
    value = (
        element("span", tile.value, class_="figure")
        if THIN_SPACE in tile.value
        else join(tile.value.split("_"), join(("_", element("wbr"))))
    )
    spread = element("span", f" {tile.spread}", class_="spread") if tile.spread else None
    details = (element("dd", detail, class_=f"detail {tile.tone}".strip()) for detail in tile.details)
    return element("div", element("dt", tile.label), element("dd", value, spread, class_="value"), *details)


def _ran(report: Report) -> Tile:
    observed = report.observed_backend
    seen = observed.family if observed else "not observed"
    asked = report.requested_backend
    value = seen if asked is None else f"{asked.removeprefix('sdpa_')} → {seen}"
    details = [f"predicted {report.predicted_backend}"] if report.predicted_backend else []
    if asked is not None and not report.predicted_backend:
        details.append("prediction not recorded")
    if observed:
        names = f"{len(observed.evidence)} {'name' if len(observed.evidence) == 1 else 'names'}"
        details.append(
            "no name in the trace tells" if observed.confidence == "unknown" else f"{observed.confidence} by {names}"
        )
    return Tile(label="ran" if asked else "observed", value=value, details=tuple(details))


def _times(report: Report) -> list[Tile]:
    latency = report.latency
    tiles = []
    device = device_clock(report)
    tiles.append(_wall_on_cpu(report) if device is None else _clock("device time", device))
    if latency.submission is not None and device is not None:
        slower = slower_side(device=device, submission=latency.submission)
        bound = {"host": "▲ host-bound", "device": "device-bound", "even": "even within the noise"}[slower]
        tiles.append(
            Tile(
                label="submission time",
                value=format_duration(latency.submission.median_ns),
                spread=format_spread(latency.submission.iqr_ns, beside_ns=latency.submission.median_ns),
                details=(bound,),
                tone="warn" if slower == "host" else "",
            )
        )
    return tiles


def _clock(label: str, clock: LatencySummary) -> Tile:
    method = clock.method + (f", L2 {clock.l2}" if clock.l2 else "")
    return Tile(
        label=label,
        value=format_duration(clock.median_ns),
        # A mean of one number has no spread; ± 0 would claim one.
        spread=format_spread(clock.iqr_ns, beside_ns=clock.median_ns) if clock.iqr_ns else "",
        details=(f"{method}; n = {format_count(clock.count)}",),
    )


def _wall_on_cpu(report: Report) -> Tile:
    if report.latency.wall is not None:
        return _clock("wall time", report.latency.wall)
    return Tile(label="device time", value=NOT_RECORDED, details=(why_not_counted(report),))


def _items(view: RunView) -> Tile:
    report = view.analysis.report
    items = report.device_items_per_step
    if items is None:
        value = "none" if report.trace_health is not None and not report.kernels else NOT_RECORDED
        return Tile(label="kernels a step", value=value, details=(why_not_counted(report), *_unscored(view)))
    extra = [
        f"+ {format_count(count)} {name}"
        for name, count in (("memcpy", items.memcpy), ("memset", items.memset))
        if count
    ]
    score = score_guess(view)
    details = (*extra, *((score.short,) if score else ()))
    return Tile(label="kernels a step", value=format_count(items.kernels), details=details)


def _unscored(view: RunView) -> tuple[str, ...]:
    return () if view.guess is None else (f"guess: {format_count(view.guess)}, nothing to score it by",)


def _memory(report: Report) -> Tile:
    memory = report.memory
    if memory is None:
        return Tile(label="peak memory", value=NOT_RECORDED)
    if memory.peak_bytes is None:
        return Tile(label="peak memory", value=NOT_RECORDED, details=("this device keeps no such count",))
    return Tile(
        label="peak memory",
        value=format_bytes(memory.peak_bytes),
        details=(f"{format_bytes(memory.materialized_bytes)} besides inputs and results",),
    )


def _error(report: Report) -> Tile:
    delta = worst_delta(report)
    if delta is None:
        return Tile(label="worst error", value=NOT_RECORDED, details=("correctness was not checked",))
    if delta.max_abs_error is None:
        return Tile(label="worst error", value="no finite element", details=(f"in {delta.tensor}",), tone="bad")
    if not delta.error_budget:
        return Tile(label="worst error", value=format_error(delta.max_abs_error), details=("not judged: no budget",))
    share = format_ratio(delta.max_abs_error / delta.error_budget)
    verdict = "✓ within budget" if delta.within_budget else "■ outside its budget"
    return Tile(
        label="worst error",
        value=f"{share} budget",
        details=(
            f"{format_error(delta.max_abs_error)} of {format_error(delta.error_budget)} in {delta.tensor}",
            verdict,
        ),
        tone="good" if delta.within_budget else "bad",
    )


def _health(report: Report) -> Tile:
    health = report.trace_health
    if health is None:
        return Tile(label="trace", value=NOT_RECORDED)
    mark, tone = {"ok": ("✓", "good"), "suspect": ("▲", "warn"), "unusable": ("■", "bad")}[health.status]
    launches = format_items(health.launches, "launch", "launches")
    linked = f"{format_items(health.linked_kernels, 'device item')} linked to {launches}"
    problems = tuple(f"{problem.kind} × {format_count(problem.count)}" for problem in health.problems)
    return Tile(label="trace", value=f"{mark} {health.status}", details=(*problems, linked), tone=tone)
