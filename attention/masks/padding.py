"""Padding: no query attends to the padded keys of its batch entry.

A key mask: every query row of an entry sees the same keys, padded query rows too. Their outputs are numbers that
the caller throws away; that they are finite is what this mask is for.
"""

from typing import Any

from attention.masks.mask import Mask, MaskMod, MaskParameter, resolve_dense_form
from attention.masks.parameters import LENGTHS, read_lengths, refuse_is_causal, split_lengths
from attention.workload import InvalidWorkload, Workload

LEFT = "left"
RIGHT = "right"
SIDE = MaskParameter(
    name="side",
    label="padding side",
    kind="choice",
    choices=(LEFT, RIGHT),
    help="where the padding lies; left out it is right",
)


def entry_lengths(workload: Workload) -> list[int]:
    """Keys that are not padding, for each batch entry."""
    lengths = split_lengths(workload)
    return lengths * workload.batch_size if len(lengths) == 1 else lengths


def _build_mod(workload: Workload) -> MaskMod:
    lengths = split_lengths(workload)
    keys = workload.seq_len_kv
    left = workload.mask.parameters.get("side") == LEFT

    def padding_mod(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        # No indexing, so that ints and tensors of any shape do: one term of the sum is not 0.
        length = lengths[0]
        for entry in range(1, len(lengths)):
            length = length + (batch == entry) * (lengths[entry] - lengths[0])
        return kv_idx >= keys - length if left else kv_idx < length

    return padding_mod


def _count_allowed(workload: Workload) -> int:
    return workload.seq_len_q * sum(entry_lengths(workload))


def _count_dead_rows(workload: Workload) -> int:
    return workload.seq_len_q * entry_lengths(workload).count(0)


def _check(workload: Workload) -> None:
    refuse_is_causal(workload)
    keys, batch_size = workload.seq_len_kv, workload.batch_size
    lengths = read_lengths(workload, least=0, most=keys, example=str(max(1, keys * 3 // 4)))
    given = workload.mask.parameters["lengths"]
    if len(lengths) not in (1, batch_size):
        raise InvalidWorkload(
            "mask_lengths",
            given,
            f"holds {len(lengths)} numbers, and batch_size is {batch_size}",
            "give one number for all" if batch_size == 1 else f"give one number for all, or {batch_size}",
        )
    if not any(lengths):
        raise InvalidWorkload(
            "mask_lengths", given, "leaves no allowed pair in any batch entry", "give one entry at least one key"
        )


PADDING = Mask(
    slug="padding",
    title="padding: no key that is padding",
    source="attention_mask of huggingface/transformers; key_padding_mask of torch.nn.MultiheadAttention, inverted",
    parameters=(LENGTHS, SIDE),
    build_mod=_build_mod,
    count_allowed=_count_allowed,
    count_dead_rows=_count_dead_rows,
    resolve_form=resolve_dense_form,
    check=_check,
    varies_by_batch=True,
)
