"""Prefix language model: every query attends to the keys of the prefix, and causally to the rest."""

from typing import Any

from attention.masks.causal import (
    ALIGNMENT,
    check_alignment,
    count_rows_above_diagonal,
    count_staircase,
    diagonal_offset,
)
from attention.masks.mask import Mask, MaskMod, MaskParameter, resolve_dense_form
from attention.masks.parameters import read_int, refuse_is_causal
from attention.workload import Workload

PREFIX_LENGTH = MaskParameter(
    name="prefix_length",
    label="prefix length",
    kind="int",
    help="first keys, which every query sees; 0 to seq_len_kv",
)


def _prefix_length(workload: Workload) -> int:
    return int(workload.mask.parameters["prefix_length"])


def _build_mod(workload: Workload) -> MaskMod:
    offset, prefix_length = diagonal_offset(workload), _prefix_length(workload)

    def prefix_lm_mod(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        return (kv_idx < prefix_length) | (kv_idx <= q_idx + offset)

    return prefix_lm_mod


def _count_allowed(workload: Workload) -> int:
    # Row q allows clamp(q + offset + 1, prefix, keys): the prefix in every row, and a staircase over the other keys.
    prefix, rows = _prefix_length(workload), workload.seq_len_q
    beyond = count_staircase(rows, workload.seq_len_kv - prefix, diagonal_offset(workload) - prefix)
    return workload.batch_size * (rows * prefix + beyond)


def _count_dead_rows(workload: Workload) -> int:
    return 0 if _prefix_length(workload) else workload.batch_size * count_rows_above_diagonal(workload)


def _check(workload: Workload) -> None:
    refuse_is_causal(workload)
    check_alignment(workload)
    read_int(workload, "prefix_length", least=0, most=workload.seq_len_kv)


PREFIX_LM = Mask(
    slug="prefix_lm",
    title="prefix LM: the prefix for every query, causal after it",
    source="Raffel et al., 2020 (T5), section 3.2.1",
    parameters=(PREFIX_LENGTH, ALIGNMENT),
    build_mod=_build_mod,
    count_allowed=_count_allowed,
    count_dead_rows=_count_dead_rows,
    resolve_form=resolve_dense_form,
    check=_check,
)
