"""ALiBi: causal, and each score lowered in proportion to the distance between query and key.

Head h of n lowers by ``2**(-8 * (h + 1) / n)`` a position. Where n is no power of two, the first heads take the
slopes of the next lower power of two and the others every second slope of twice that, as the paper's own code does
and BLOOM and MPT were trained.
"""

from typing import Any

from attention.masks.causal import (
    ALIGNMENT,
    build_causal_mod,
    check_alignment,
    count_below_diagonal,
    count_rows_above_diagonal,
    diagonal_offset,
)
from attention.masks.mask import BiasMod, Mask
from attention.workload import InvalidWorkload, MaskForm, Workload


def _build_bias(workload: Workload) -> BiasMod:
    offset = diagonal_offset(workload)
    power = 1 << (workload.num_heads.bit_length() - 1)  # the largest power of two that is no more than num_heads

    def alibi_bias(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        regular = (head < power) * (-8.0 * (head + 1) / power)
        between = (head >= power) * (-8.0 * (head - power + 0.5) / power)
        return 2.0 ** (regular + between) * (kv_idx - q_idx - offset)

    return alibi_bias


def _resolve_form(workload: Workload) -> MaskForm:
    return MaskForm.ADDITIVE if workload.mask.form is MaskForm.AUTO else workload.mask.form


def _check(workload: Workload) -> None:
    check_alignment(workload)
    if workload.mask.form in (MaskForm.IS_CAUSAL, MaskForm.BOOL):
        raise InvalidWorkload(
            "mask_form",
            workload.mask.form.value,
            "cannot carry the bias that alibi adds to the scores",
            "choose auto, additive or additive_float32",
        )


ALIBI = Mask(
    slug="alibi",
    title="ALiBi: causal, with scores lowered by the distance to the key",
    source="Press et al., 2022 (Train Short, Test Long), section 3; get_slopes of the paper's code",
    parameters=(ALIGNMENT,),
    build_mod=build_causal_mod,
    build_bias=_build_bias,
    count_allowed=lambda workload: workload.batch_size * count_below_diagonal(workload),
    count_dead_rows=lambda workload: workload.batch_size * count_rows_above_diagonal(workload),
    resolve_form=_resolve_form,
    check=_check,
    varies_by_head=True,
)
