"""What a mask is: one predicate that serves plain ints, dense tensors and compiled kernels alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attention.workload import MaskForm, Workload

# mask_mod(batch, head, q_idx, kv_idx) -> True where the query may attend to the key. Arguments are ints or
# integer tensors that broadcast; the result is a bool or a bool tensor.
MaskMod = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskParameter:
    """One named choice of a mask, the field ``mask_<name>``; the mask's ``check`` says if it may be left out."""

    name: str
    label: str
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """One mask of the catalogue; every function takes the validated workload.

    ``build_mod``: the predicate, or None where every pair is allowed.
    ``count_allowed``: allowed (query, key) pairs of one head of one batch entry, by formula.
    ``count_dead_rows``: query rows with no allowed key, by formula.
    ``resolve_form``: the form the call receives for ``mask.form`` auto; None where there is no mask to pass.
    ``check``: raises InvalidWorkload where parameters and lengths contradict each other.
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
