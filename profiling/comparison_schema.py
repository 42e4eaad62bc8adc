"""What a comparison of two runs or traces is made of: plain data, the difference always after minus before.

Times are integer nanoseconds and sizes bytes, of one step where both sides have steps. None means not recorded or not
there, never zero.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from profiling.report_schema import KernelRole, LatencySummary

COMPARISON_FORMAT_VERSION = 1

Change = Literal[
    "appeared",
    "vanished",
    "slower",
    "faster",
    "within_noise",
    "unchanged",
    "not_judged",  # at least one side has no spread
]
MatchedBy = Literal["role and name", "role and short name", "role", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Something that differs between the two runs and may be why they differ, in both runs' own words."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run's part of a row. ``names`` and ``short_names`` belong together; several where a role alone matched.

    ``time_ns`` is rounded so that a comparison's rows add up to its total exactly, and so within 1 ns of the mean.
    ``step_range_ns`` is the smallest and the largest step's sum, None with fewer than two steps.
    ``items`` are indices into that run's ``Trace.device_items``.
    """

    names: tuple[str, ...]
    short_names: tuple[str, ...]
    calls: float
    time_ns: int
    step_range_ns: tuple[int, int] | None
    bytes: int | None  # of memory copies and sets
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """A kernel, memory operation or operator of both runs, or of one. ``role`` None: an operator."""

    role: KernelRole | None
    matched_by: MatchedBy | None  # None: it is in one of the two alone
    before: Side | None
    after: Side | None
    difference_ns: int
    difference_bytes: int | None
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """All rows together: ``difference_ns`` is exactly the sum of theirs."""

    before_ns: int
    after_ns: int
    difference_ns: int
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedClock:
    """One un-profiled clock of both runs. ``reason``: why the two cannot be compared; empty where they can."""

    name: Literal["device time", "submission time", "wall time"]
    before: LatencySummary | None
    after: LatencySummary | None
    difference_ns: int | None
    change: Change | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One count or size of both runs; ``difference`` None where either lacks it."""

    name: str
    unit: Literal["bytes", "count"]
    before: float | None
    after: float | None
    difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``reasons`` say why there are no rows. ``basis``: whether rows and total are of one step or the whole trace.

    ``attribution`` says what a difference may be put down to, from the variables that differ.
    """

    format_version: int = COMPARISON_FORMAT_VERSION
    before_title: str
    after_title: str
    warnings: tuple[str, ...] = ()  # what taints the numbers of one side
    reasons: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    attribution: str
    basis: Literal["step", "trace"] | None = None
    measure: Literal["device time", "self CPU time"] | None = None
    steps_before: int = 0
    steps_after: int = 0
    total: Total | None = None
    rows: tuple[ComparedRow, ...] = ()
    clocks: tuple[ComparedClock, ...] = ()
    figures: tuple[ComparedFigure, ...] = ()


@cache
def _adapter() -> Any:
    # Imported late: `analyze --help` must answer without it.
    from pydantic import TypeAdapter

    return TypeAdapter(Comparison)


def write_comparison(comparison: Comparison) -> bytes:
    """The comparison as indented JSON with stable keys, UTF-8."""
    data: bytes = _adapter().dump_json(comparison, indent=2)
    return data


def parse_comparison(data: bytes) -> Comparison:
    """The comparison that ``write_comparison`` wrote.

    Raises:
        ValueError: not a comparison of this format.
    """
    comparison = _adapter().validate_json(data)
    assert isinstance(comparison, Comparison)
    return comparison
