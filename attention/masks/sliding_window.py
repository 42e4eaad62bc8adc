"""Sliding window: a query attends to the last ``window`` keys up to its own position, counted from a corner.

The window counts the query's own position: window 1 is the diagonal alone, and flash-attn's
``window_size=(window - 1, 0)`` is the same mask.
"""

from typing import Any

from attention.masks.causal import (
    ALIGNMENT,
    check_alignment,
    count_below_diagonal,
    count_rows_above_diagonal,
    count_staircase,
    diagonal_offset,
)
from attention.masks.mask import Mask, MaskMod, MaskParameter, resolve_dense_form
from attention.masks.parameters import read_int, refuse_is_causal
from attention.workload import SIZE_LIMITS, Workload

# No sequence is longer, so that a wider window is the same mask; unbounded it would overflow the kernels' integers.
_WINDOW_MOST = SIZE_LIMITS["seq_len_kv"]

WINDOW = MaskParameter(
    name="window",
    label="window",
    kind="int",
    help=f"keys that a query sees, its own position included; 1 to {_WINDOW_MOST}",
)


def _window(workload: Workload) -> int:
    return int(workload.mask.parameters["window"])


def _build_mod(workload: Workload) -> MaskMod:
    offset, window = diagonal_offset(workload), _window(workload)

    def sliding_window_mod(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        return (kv_idx <= q_idx + offset) & (kv_idx > q_idx + offset - window)

    return sliding_window_mod


def _count_allowed(workload: Workload) -> int:
    rows, keys, offset = workload.seq_len_q, workload.seq_len_kv, diagonal_offset(workload)
    below_window = count_staircase(rows, keys, offset - _window(workload))
    return workload.batch_size * (count_below_diagonal(workload) - below_window)


def _count_dead_rows(workload: Workload) -> int:
    # From the upper left, rows further than the window below the last key have left every key behind.
    first_beyond = workload.seq_len_kv + _window(workload) - 1 - diagonal_offset(workload)
    beyond = max(0, workload.seq_len_q - first_beyond)
    return workload.batch_size * (count_rows_above_diagonal(workload) + beyond)


def _check(workload: Workload) -> None:
    refuse_is_causal(workload)
    check_alignment(workload)
    read_int(workload, "window", least=1, most=_WINDOW_MOST)


SLIDING_WINDOW = Mask(
    slug="sliding_window",
    title="sliding window: the last keys up to the query's own position",
    source="Beltagy et al., 2020 (Longformer); Jiang et al., 2023 (Mistral 7B), section 2",
    parameters=(WINDOW, ALIGNMENT),
    build_mod=_build_mod,
    count_allowed=_count_allowed,
    count_dead_rows=_count_dead_rows,
    resolve_form=resolve_dense_form,
    check=_check,
)
