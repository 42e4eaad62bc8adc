"""What a mask is: one predicate that serves plain ints, dense tensors and compiled kernels alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from attention.workload import MaskForm, Workload

# mask_mod(batch, head, q_idx, kv_idx) -> True where the query may attend to the key. Arguments are ints or
# integer tensors that broadcast; the result is a bool or a bool tensor.
MaskMod = Callable[[Any, Any, Any, Any], Any]
# bias_mod(batch, head, q_idx, kv_idx) -> what is added to the scaled score. Arguments as above; a float or a tensor.
BiasMod = Callable[[Any, Any, Any, Any], Any]


def _no_bias(workload: Workload) -> BiasMod | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskParameter:
    """One named value of a mask, the field ``mask_<name>``; the mask's ``check`` says if it may be left out.

    ``kind`` "text" is for lists of numbers, which the mask reads itself. Masks that share a name share the field,
    so they share this object.
    """

    name: str
    label: str
    kind: Literal["choice", "int", "float", "text"]
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """One mask of the catalogue; every function takes the validated workload.

    ``build_mod``: the predicate, or None where every pair is allowed.
    ``build_bias``: what is added to the scores besides, or None; then the mask reaches a call as an additive tensor.
    ``count_allowed``: allowed (query, key) pairs of one head, summed over the batch, by formula.
    ``count_dead_rows``: query rows with no allowed key, of one head, summed over the batch, by formula.
    ``resolve_form``: the form the call receives for ``mask.form`` auto; None where there is no mask to pass.
    ``check``: raises InvalidWorkload where parameters and lengths contradict each other.
    ``varies_by_batch`` and ``varies_by_head``: whether a dense tensor needs these dimensions.
    """

    slug: str
    title: str
    source: str
    parameters: tuple[MaskParameter, ...]
    build_mod: Callable[[Workload], MaskMod | None]
    count_allowed: Callable[[Workload], int]
    count_dead_rows: Callable[[Workload], int]
    resolve_form: Callable[[Workload], MaskForm | None]
    check: Callable[[Workload], None]
    build_bias: Callable[[Workload], BiasMod | None] = _no_bias
    varies_by_batch: bool = False
    varies_by_head: bool = False


def resolve_dense_form(workload: Workload) -> MaskForm:
    """The form of a mask that SDPA has no flag for: bool, unless another was asked for."""
    return MaskForm.BOOL if workload.mask.form is MaskForm.AUTO else workload.mask.form
