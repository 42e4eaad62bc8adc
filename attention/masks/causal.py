"""Causal: a query attends to no key after its own position, counted from a corner of the score matrix.

The corner matters when seq_len_q differs from seq_len_kv: SDPA's ``is_causal`` starts at the upper left,
flash-attn (since 2.1) and decoding with a key/value cache at the lower right.
"""

from typing import Any

from attention.masks.mask import Mask, MaskMod, MaskParameter
from attention.workload import InvalidWorkload, MaskForm, Workload

UPPER_LEFT = "upper_left"
LOWER_RIGHT = "lower_right"


ALIGNMENT = MaskParameter(
    name="alignment",
    label="causal corner",
    kind="choice",
    choices=(UPPER_LEFT, LOWER_RIGHT),
    help="corner of the score matrix where the diagonal starts; required when the lengths differ",
)


def diagonal_offset(workload: Workload) -> int:
    """Key index minus query index on the last diagonal that the workload's corner allows."""
    if workload.mask.parameters.get("alignment", UPPER_LEFT) == LOWER_RIGHT:
        return workload.seq_len_kv - workload.seq_len_q
    return 0


def build_causal_mod(workload: Workload) -> MaskMod:
    """The predicate of every mask that is causal and nothing else."""
    offset = diagonal_offset(workload)

    def causal_mod(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        return kv_idx <= q_idx + offset

    return causal_mod


def count_staircase(rows: int, keys: int, offset: int) -> int:
    """The sum over row q of ``clamp(q + offset + 1, 0, keys)``, without a loop."""
    first = min(rows, max(0, -offset))  # first row with an allowed key
    full = min(rows, max(first, keys - offset))  # first row that allows every key
    growing = full - first
    smallest = first + offset + 1
    return growing * smallest + growing * (growing - 1) // 2 + (rows - full) * keys


def count_below_diagonal(workload: Workload) -> int:
    """Pairs of one head and batch entry whose key is not after the query's diagonal."""
    return count_staircase(workload.seq_len_q, workload.seq_len_kv, diagonal_offset(workload))


def count_rows_above_diagonal(workload: Workload) -> int:
    """Rows of one head and batch entry that lie before the first key's diagonal."""
    return min(workload.seq_len_q, max(0, -diagonal_offset(workload)))


def _resolve_form(workload: Workload) -> MaskForm:
    if workload.mask.form is not MaskForm.AUTO:
        return workload.mask.form
    return MaskForm.IS_CAUSAL if diagonal_offset(workload) == 0 else MaskForm.BOOL


def check_alignment(workload: Workload) -> None:
    """Raises: InvalidWorkload: the lengths differ and no corner is given."""
    lengths = f"seq_len_q={workload.seq_len_q} and seq_len_kv={workload.seq_len_kv}"
    alignment = workload.mask.parameters.get("alignment")
    if workload.seq_len_q != workload.seq_len_kv and alignment is None:
        raise InvalidWorkload(
            "mask_alignment",
            None,
            f"leaves the causal corner open for {lengths}",
            f"choose {UPPER_LEFT} (SDPA's is_causal) or {LOWER_RIGHT} (decoding, flash-attn)",
        )


def _check(workload: Workload) -> None:
    check_alignment(workload)
    if workload.mask.form is MaskForm.IS_CAUSAL and diagonal_offset(workload) != 0:
        raise InvalidWorkload(
            "mask_form",
            workload.mask.form.value,
            f"means {UPPER_LEFT} in SDPA, and mask_alignment is {LOWER_RIGHT} with lengths that differ",
            "choose bool or additive",
        )


CAUSAL = Mask(
    slug="causal",
    title="causal: no key after the query's own position",
    source="torch.nn.attention.bias.CausalVariant; is_causal of scaled_dot_product_attention is upper left",
    parameters=(ALIGNMENT,),
    build_mod=build_causal_mod,
    count_allowed=lambda workload: workload.batch_size * count_below_diagonal(workload),
    count_dead_rows=lambda workload: workload.batch_size * count_rows_above_diagonal(workload),
    resolve_form=_resolve_form,
    check=_check,
)
