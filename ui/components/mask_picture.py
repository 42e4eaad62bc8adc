"""A small picture of a mask: what share of the pairs in each cell a query may attend to, drawn as inline SVG."""

from collections.abc import Sequence
from itertools import pairwise

from attention.masks import mask_of
from attention.workload import Workload
from ui.markup import Markup, element, join

PICTURE_CELLS = 16  # rows and columns at most
_SAMPLES = 3  # probed positions along a cell's side
_WIDTH = 64  # of the longer side, in px


def sample_mask(workload: Workload) -> tuple[tuple[float, ...], ...]:
    """Share of allowed pairs in each cell of the mask of batch entry 0, ``[rows, columns]``.

    At most PICTURE_CELLS a side; up to 3 by 3 pairs of a cell are probed, spread evenly, so that the cost does not
    grow with the lengths.
    """
    mask_mod = mask_of(workload).build_mod(workload)
    rows, columns = _probe(workload.seq_len_q), _probe(workload.seq_len_kv)

    def share(queries: Sequence[int], keys: Sequence[int]) -> float:
        if mask_mod is None:
            return 1.0
        return sum(bool(mask_mod(0, 0, query, key)) for query in queries for key in keys) / (len(queries) * len(keys))

    return tuple(tuple(share(queries, keys) for keys in columns) for queries in rows)


def _probe(length: int) -> list[tuple[int, ...]]:
    """For each cell along a side the positions to probe; all of them where the cell has no more."""
    cells = min(PICTURE_CELLS, length)
    edges = [length * cell // cells for cell in range(cells + 1)]
    return [_spread(start, stop) for start, stop in pairwise(edges)]


def _spread(start: int, stop: int) -> tuple[int, ...]:
    size = stop - start
    if size <= _SAMPLES:
        return tuple(range(start, stop))
    return tuple(start + size * (2 * sample + 1) // (2 * _SAMPLES) for sample in range(_SAMPLES))


def render_mask_picture(shares: Sequence[Sequence[float]], *, title: str) -> Markup:
    """``shares`` is ``[rows, columns]``, each 0-1; the fuller a cell, the more of it may be attended to.

    ``title`` says in words what the picture shows.
    """
    rows = len(shares)
    columns = len(shares[0]) if rows else 0
    cell = _WIDTH // max(rows, columns, 1)
    cells = (
        element(
            "rect",
            x=column * cell,
            y=row * cell,
            width=cell - 1,
            height=cell - 1,
            class_="mask-allowed" if share else "mask-blocked",
            # A cell with a single allowed pair must still differ from an empty one.
            fill_opacity=f"{max(share, 0.35):.2g}" if 0 < share < 1 else None,
        )
        for row, line in enumerate(shares)
        for column, share in enumerate(line)
    )
    return element(
        "svg",
        element("title", title),
        join(cells),
        class_="mask-picture",
        viewBox=f"0 0 {columns * cell} {rows * cell}",
        width=columns * cell,
        height=rows * cell,
        role="img",
        aria_label=title,
    )
