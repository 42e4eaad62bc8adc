"""The single changes to a workload that would make a refusing backend take it, by the backend's own rule.

Only edits that leave the question the same are looked at: which keys a query may attend to never changes, a padded
head keeps its softmax scale, and one variable changes at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attention.backends import BACKENDS, Decision, DeviceFacts
from attention.lookup import find
from attention.masks import mask_of
from attention.workload import SIZE_LIMITS, DType, InvalidWorkload, Layout, MaskForm, Workload

# 8 half-type elements are 16 bytes, the widest load of a GPU thread: what every fused kernel is aligned to.
HEAD_DIM_STEP = 8
# Nearest in memory first; each of them is what some fused kernel takes.
DTYPES = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32)
NONE_KNOWN = "none known"
FORMS = (MaskForm.IS_CAUSAL, MaskForm.BOOL, MaskForm.ADDITIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlock:
    """One edit: ``field`` from ``before`` to ``after``, and the ``workload`` with it, for the refusing backend."""

    field: str
    before: str
    after: str
    workload: Workload

    @property
    def sentence(self) -> str:
        """``dtype → bfloat16``; a padded size says so."""
        padded = " (padded with zeros)" if self.field.startswith("head_dim") else ""
        return f"{self.field} → {self.after}{padded}"


def describe_unlocks(decision: Decision) -> str:
    """What a reader is told about a refusal: the changes that were tried and ran; empty where nothing was refused."""
    if decision.verdict != "rejected":
        return ""
    return "; or ".join(decision.unlocked_by) or NONE_KNOWN


def find_unlocks(workload: Workload, decision: Decision, facts: DeviceFacts) -> tuple[Unlock, ...]:
    """Single edits after which the rule of ``decision.backend`` accepts, exact ones before those that round.

    Empty where the backend did not refuse, and where no single edit is enough.
    """
    if decision.verdict != "rejected":
        return ()
    backend = find(decision.backend, BACKENDS, field="backend")
    asked = replace(workload, backend=backend.slug)
    return tuple(
        edit
        for edit in (*_mask_forms(asked), *_layouts(asked), *_head_dims(asked), *_dtypes(asked))
        if backend.check(edit.workload, facts).verdict == "accepted"
    )


def _mask_forms(workload: Workload) -> Iterator[Unlock]:
    mask = mask_of(workload)
    before = mask.resolve_form(workload)
    for form in FORMS:
        edited = replace(workload, mask=replace(workload.mask, form=form))
        if before is None or before is form or not _is_valid(edited):
            continue
        yield Unlock(field="mask_form", before=before, after=form, workload=edited)


def _is_valid(workload: Workload) -> bool:
    """Whether the mask can be passed in this form: is_causal, say, for a causal mask from the upper left alone."""
    mask = mask_of(workload)
    try:
        mask.check(workload)
    except InvalidWorkload:
        return False
    return mask.resolve_form(workload) is workload.mask.form


def _layouts(workload: Workload) -> Iterator[Unlock]:
    layouts = [Layout.CONTIGUOUS] if workload.layout is Layout.TRANSPOSED else []
    if workload.presented_kv_heads != workload.num_heads:
        layouts.insert(0, Layout.EXPANDED_KV)
    for layout in layouts:
        edited = replace(workload, layout=layout)
        yield Unlock(field="layout", before=workload.layout, after=layout, workload=edited)


def _head_dims(workload: Workload) -> Iterator[Unlock]:
    """Zeros behind query and key add nothing to a score; zeros behind value give columns to cut off."""
    head_dim, value_dim = workload.head_dim, workload.value_dim
    tied = head_dim == value_dim
    for size in sorted({_round_up(head_dim), max(head_dim, value_dim)} - {head_dim}):
        yield from _pad(workload, "head_dim", head_dim, size, size if tied else value_dim)
    if not tied:
        for size in sorted({_round_up(value_dim), max(head_dim, value_dim)} - {value_dim}):
            yield from _pad(workload, "head_dim_v", value_dim, head_dim, size)


def _pad(workload: Workload, field: str, before: int, head_dim: int, value_dim: int) -> Iterator[Unlock]:
    if max(head_dim, value_dim) > SIZE_LIMITS["head_dim"]:
        return
    edited = replace(workload, head_dim=head_dim, head_dim_v=value_dim, scale=workload.softmax_scale)
    yield Unlock(field=field, before=str(before), after=str(getattr(edited, field)), workload=edited)


def _round_up(size: int) -> int:
    return -(-size // HEAD_DIM_STEP) * HEAD_DIM_STEP


def _dtypes(workload: Workload) -> Iterator[Unlock]:
    for dtype in DTYPES:
        if dtype is not workload.dtype:
            edited = replace(workload, dtype=dtype)
            yield Unlock(field="dtype", before=workload.dtype, after=dtype, workload=edited)
