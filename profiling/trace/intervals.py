"""Half-open integer intervals ``(start, end)``: their union, its total length, and the holes in it."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The union as disjoint, non-empty intervals in order; touching ones become one."""
    merged: list[Interval] = []
    last_start = last_end = None
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if last_end is None or last_start is None:
            last_start, last_end = start, end
        elif start > last_end:
            merged.append((last_start, last_end))
            last_start, last_end = start, end
        elif end > last_end:
            last_end = end
    if last_start is not None and last_end is not None:
        merged.append((last_start, last_end))
    return merged


def total(merged: Sequence[Interval]) -> int:
    """Length of a union: time in which at least one of the intervals is active."""
    return sum([end - start for start, end in merged])


def gaps(merged: Sequence[Interval]) -> list[Interval]:
    """The holes of a union between its first start and its last end, in order."""
    return [(before[1], after[0]) for before, after in pairwise(merged)]
