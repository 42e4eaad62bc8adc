"""Unions of half-open integer intervals ``(start, end)``: merged, their total length, and the holes between them."""

from collections.abc import Iterable
from itertools import pairwise

Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points as disjoint, non-empty intervals in order; touching ones become one."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def busy(intervals: Iterable[Interval]) -> int:
    """Length of the union: time in which at least one interval is active."""
    return sum(end - start for start, end in merge(intervals))


def gaps(intervals: Iterable[Interval]) -> list[Interval]:
    """The holes of the union between its first start and its last end, in order."""
    merged = merge(intervals)
    return [(before[1], after[0]) for before, after in pairwise(merged)]
