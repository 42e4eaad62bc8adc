"""No mask: every query attends to every key."""

from attention.masks.mask import Mask
from attention.workload import InvalidWorkload, MaskForm, Workload


def _check(workload: Workload) -> None:
    if workload.mask.form is not MaskForm.AUTO:
        raise InvalidWorkload("mask_form", workload.mask.form.value, "has no mask to pass", "choose auto for mask none")


NONE = Mask(
    slug="none",
    title="none: every pair is allowed",
    source="torch.nn.functional.scaled_dot_product_attention, attn_mask=None",
    parameters=(),
    build_mod=lambda workload: None,
    count_allowed=lambda workload: workload.batch_size * workload.seq_len_q * workload.seq_len_kv,
    count_dead_rows=lambda workload: 0,
    resolve_form=lambda workload: None,
    check=_check,
)
