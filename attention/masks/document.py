"""Document: packed documents, each causal and blind to the others."""

from typing import Any

from attention.masks.mask import Mask, MaskMod, resolve_dense_form
from attention.masks.parameters import LENGTHS, read_lengths, refuse_is_causal, split_lengths
from attention.workload import InvalidWorkload, Workload


def _build_mod(workload: Workload) -> MaskMod:
    lengths = split_lengths(workload)

    def document_mod(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        # The documents that end before the query add up to its own document's start. No table, so that ints do too.
        start, end = q_idx * 0, 0
        for length in lengths[:-1]:
            end += length
            start = start + (q_idx >= end) * length
        return (kv_idx >= start) & (kv_idx <= q_idx)

    return document_mod


def _count_allowed(workload: Workload) -> int:
    return workload.batch_size * sum(length * (length + 1) // 2 for length in split_lengths(workload))


def _check(workload: Workload) -> None:
    refuse_is_causal(workload)
    keys = workload.seq_len_kv
    if workload.seq_len_q != keys:
        raise InvalidWorkload(
            "seq_len_kv",
            keys,
            f"differs from seq_len_q={workload.seq_len_q}, and mask document packs queries and keys alike",
            f"choose {workload.seq_len_q}, or another mask",
        )
    lengths = read_lengths(workload, least=1, most=keys, example="256,256,512")
    total = sum(lengths)
    if total != keys:
        remedy = f"add a document of {keys - total}" if total < keys else f"take {total - keys} away"
        raise InvalidWorkload(
            "mask_lengths",
            workload.mask.parameters["lengths"],
            f"sums to {total}, and the length is {keys}",
            f"{remedy}, or set seq_len_q and seq_len_kv to {total}",
        )


DOCUMENT = Mask(
    slug="document",
    title="document: packed documents, each causal and apart from the others",
    source="Raffel et al., 2020 (T5), section 3.2.1 on packing; document_mask of meta-pytorch/attention-gym",
    parameters=(LENGTHS,),
    build_mod=_build_mod,
    count_allowed=_count_allowed,
    count_dead_rows=lambda workload: 0,
    resolve_form=resolve_dense_form,
    check=_check,
)
