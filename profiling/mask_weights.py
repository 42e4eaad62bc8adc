"""Softmax weights read from a backend, against those that the mask asks for."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from attention.inputs import allowed_rows, bias_dtype, bias_rows
from attention.masks import mask_of
from attention.workload import Workload
from profiling.check_records import MaskTruth, Pair, Shares

if TYPE_CHECKING:
    import torch

ROWS_MOST = 2048
KEYS_MOST = 2048
# Weights kept at once, float32: 64 MiB. Fewer heads are looked at where all of them would be more; also what the
# asked mask is built of at a time.
WEIGHTS_MOST = 2**24
PICTURE_CELLS = 16
# A bias may weigh an allowed key less than float16 can hold: below this a weight counts as nothing.
LEAST_WEIGHT = 1e-6
# A weight passes through the softmax, a product and the output, each rounding in the workload's dtype at most twice.
ROUNDINGS = 4
# How far from 1 / seq_len_kv a weight may be to count as uniform; half precision rounds it by 0.4 %.
UNIFORM_WITHIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskView:
    """What of the first batch entry is looked at. ``chunks`` are key ranges, each as wide as value at most."""

    heads: int
    rows: tuple[range, ...]
    chunks: tuple[range, ...]

    @property
    def row_count(self) -> int:
        return sum(map(len, self.rows))

    @property
    def key_count(self) -> int:
        return sum(map(len, self.chunks))

    def describe(self, workload: Workload) -> str:
        keys = _describe_ranges(_merge(self.chunks), workload.seq_len_kv)
        rows = _describe_ranges(self.rows, workload.seq_len_q)
        return (
            f"query = 0 and one-hot values, {len(self.chunks[0])} keys a call, {len(self.chunks)} calls; "
            f"rows {rows}, keys {keys}, heads 0–{self.heads - 1} of {workload.num_heads}, batch entry 0"
        )


def choose_view(workload: Workload, calls: int) -> MaskView:
    """What ``calls`` calls can show: everything, or the first and last rows and keys, where kernels go wrong."""
    rows = _ends(workload.seq_len_q, ROWS_MOST)
    width = min(workload.value_dim, workload.seq_len_kv)
    chunks = [range(start, min(start + width, workload.seq_len_kv)) for start in range(0, workload.seq_len_kv, width)]
    most = max(1, min(calls, KEYS_MOST // width))
    chosen = [chunks[index] for part in _ends(len(chunks), most) for index in part]
    per_head = sum(map(len, rows)) * sum(map(len, chosen))
    heads = max(1, min(workload.num_heads, WEIGHTS_MOST // per_head))
    return MaskView(heads=heads, rows=rows, chunks=tuple(chosen))


def _ends(length: int, most: int) -> tuple[range, ...]:
    """All of ``length``, or ``most`` of it: the first and the last ones."""
    if length <= most:
        return (range(length),)
    first = (most + 1) // 2
    parts = (range(first), range(length - (most - first), length))
    return tuple(part for part in parts if part)


def _merge(chunks: tuple[range, ...]) -> tuple[range, ...]:
    """Neighbouring ranges as one."""
    starts = [0, *(index + 1 for index, (a, b) in enumerate(pairwise(chunks)) if a.stop != b.start), len(chunks)]
    return tuple(range(chunks[first].start, chunks[last - 1].stop) for first, last in pairwise(starts))


def _describe_ranges(parts: tuple[range, ...], length: int) -> str:
    return f"{' and '.join(f'{part.start}–{part.stop - 1}' for part in parts)} of {length}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the mask asks for in some rows, each ``[heads, rows, keys]`` of the view.

    ``attends``: bool, the weight counts. ``weights``: float64, NaN in dead rows. ``tolerance``: how far a right weight
    may be off, None where only presence is compared. ``live``: bool ``[heads, rows, 1]``.
    """

    attends: "torch.Tensor"
    weights: "torch.Tensor"
    tolerance: "torch.Tensor | None"
    live: "torch.Tensor"


def compare_weights(workload: Workload, view: MaskView, weights: "torch.Tensor") -> MaskTruth:
    """The verdict on ``weights``, float32 ``[heads, rows, keys]`` of the view."""
    import torch

    least = _least_weight(workload)
    checked = wrong_pairs = 0
    first: tuple[Pair, float, float] | None = None
    uniform, asked_rows, position = True, [], 0
    for rows in _blocks(workload, view):
        asked = _ask(workload, view, rows, weights.device.type)
        got = weights[:, position : position + len(rows)]
        if asked.tolerance is None:
            wrong = (got > least) != asked.attends
        else:
            wrong = ~((got.to(torch.float64) - asked.weights).abs() <= asked.tolerance)
        wrong = wrong & asked.live
        checked += int(asked.live.sum()) * view.key_count
        wrong_here = int(wrong.sum())
        if wrong_here and first is None:
            first = _describe_first(view, rows, wrong, asked, got)
        wrong_pairs += wrong_here
        even = (got * workload.seq_len_kv - 1).abs() < UNIFORM_WITHIN
        uniform = uniform and bool((even | ~asked.live).all())
        asked_rows.append(asked.attends[0])
        position += len(rows)
    method = view.describe(workload)
    if not checked:
        return MaskTruth(reason=f"every row that was looked at may attend to nothing ({method})", method=method)
    pair, asked_weight, applied_weight = first or (None, None, None)
    return MaskTruth(
        pairs_checked=checked,
        wrong_pairs=wrong_pairs,
        first_wrong=pair,
        asked_weight=asked_weight,
        applied_weight=applied_weight if applied_weight is None or math.isfinite(applied_weight) else None,
        ignored=wrong_pairs > 0 and uniform,
        asked_picture=_draw(torch.cat(asked_rows)),
        applied_picture=_draw(weights[0] > least),
        method=method,
    )


def _least_weight(workload: Workload) -> float:
    """Half of what a key weighs where every key is attended to; with a bias nothing is that even."""
    has_bias = mask_of(workload).build_bias(workload) is not None
    return LEAST_WEIGHT if has_bias else 0.5 / workload.seq_len_kv


def _blocks(workload: Workload, view: MaskView) -> Iterator[range]:
    """The view's rows, so many at a time that the asked mask stays small."""
    heads = workload.num_heads if mask_of(workload).varies_by_head else view.heads
    step = max(1, WEIGHTS_MOST // (heads * workload.seq_len_kv))
    for part in view.rows:
        for start in range(part.start, part.stop, step):
            yield range(start, min(start + step, part.stop))


def _ask(workload: Workload, view: MaskView, rows: range, device: str) -> _Asked:
    import torch

    first_entry, some_rows = slice(0, 1), slice(rows.start, rows.stop)
    keys = torch.tensor([key for chunk in view.chunks for key in chunk], device=device)
    allowed = allowed_rows(workload, device, first_entry, some_rows)
    assert allowed is not None
    allowed = allowed[0].expand(workload.num_heads, -1, -1)[: view.heads]
    live = allowed.any(dim=-1, keepdim=True)
    bias = bias_rows(workload, device, first_entry, some_rows)
    if bias is None:
        weights = (allowed / allowed.sum(dim=-1, keepdim=True)).to(torch.float64)
        return _Asked(attends=allowed[..., keys], weights=weights[..., keys], tolerance=None, live=live)
    bias = bias[0, : view.heads].to(bias_dtype(workload)).to(torch.float64)
    weights = bias.masked_fill(~allowed, -math.inf).softmax(dim=-1)[..., keys]
    # Rounding the bias itself moves a weight by the bias times the dtype's epsilon.
    epsilon = torch.finfo(getattr(torch, workload.dtype)).eps
    tolerance = weights * epsilon * (ROUNDINGS + bias[..., keys].abs()) + LEAST_WEIGHT
    return _Asked(attends=weights > LEAST_WEIGHT, weights=weights, tolerance=tolerance, live=live)


def _describe_first(
    view: MaskView, rows: range, wrong: "torch.Tensor", asked: _Asked, got: "torch.Tensor"
) -> tuple[Pair, float, float]:
    """The first wrong pair, and its weight as asked and as applied."""
    head, row, column = wrong.nonzero()[0].tolist()
    keys = [key for chunk in view.chunks for key in chunk]
    return (
        (0, head, rows[row], keys[column]),
        float(asked.weights[head, row, column]),
        float(got[head, row, column]),
    )


def _draw(attends: "torch.Tensor") -> Shares:
    """Share of each cell's pairs, at most PICTURE_CELLS a side, of bool ``[rows, keys]``."""
    import torch

    cells = (min(PICTURE_CELLS, attends.shape[0]), min(PICTURE_CELLS, attends.shape[1]))
    shares = torch.nn.functional.adaptive_avg_pool2d(attends[None, None].to(torch.float32), cells)
    return tuple(tuple(round(share, 4) for share in line) for line in shares[0, 0].tolist())
