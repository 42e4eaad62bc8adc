"""Unions of integer intervals against sets of points."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from profiling.trace.intervals import Interval, gaps, merge, total

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair))))


def points(pieces: list[Interval]) -> set[int]:
    return {point for start, end in pieces for point in range(start, end)}


@given(intervals)
def test_the_union_holds_the_same_points_in_disjoint_pieces(pieces: list[Interval]) -> None:
    merged = merge(pieces)
    assert points(merged) == points(pieces)
    assert all(before[1] < after[0] for before, after in pairwise(merged))
    assert total(merged) == len(points(pieces))


@given(intervals)
def test_busy_and_idle_make_the_span(pieces: list[Interval]) -> None:
    merged = merge(pieces)
    span = merged[-1][1] - merged[0][0] if merged else 0
    idle = sum(end - start for start, end in gaps(merged))
    assert total(merged) <= span
    assert total(merged) + idle == span
    assert not points(gaps(merged)) & points(pieces)


@given(intervals, st.randoms(), st.integers(-1000, 1000))
def test_order_and_shift_do_not_matter(pieces: list[Interval], random: Random, shift: int) -> None:
    moved = [(start + shift, end + shift) for start, end in pieces]
    random.shuffle(moved)
    assert merge(moved) == [(start + shift, end + shift) for start, end in merge(pieces)]
