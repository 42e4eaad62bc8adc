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

# 16 bytes, the widest load of a GPU thread, are 4 float32 or 8 half-type elements: every fused kernel is aligned to
# some multiple of this.
HEAD_DIM_STEP = 4
# Changes tried for each refusing backend. A try is one call of one batch entry, milliseconds, except that cuDNN builds
# a plan for it, up to 0.7 s on an H200: three for each of three backends stay near two seconds.
UNLOCK_TRIES = 3
# Nearest in memory first; each of them is what some fused kernel takes.
DTYPES = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32)
NONE_KNOWN = "none known"
MEASURE_UNLOCKS_HELP = f"also run, time and judge up to {UNLOCK_TRIES} single changes for each backend that refuses"
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
        """``dtype → bfloat16``; a padded size, and a layout by what it means in PyTorch, say so."""
        if self.field.startswith("head_dim"):
            return f"{self.field} → {self.after} (padded with zeros)"
        if self.field == "layout":
            return f"{self.field} → {self.after} ({_LAYOUT_WORDS[self.before, self.after]})"
        return f"{self.field} → {self.after}"


_LAYOUT_WORDS = {
    (Layout.TRANSPOSED.value, Layout.CONTIGUOUS.value): ".contiguous()",
    (Layout.EXPANDED_KV.value, Layout.CONTIGUOUS.value): "key and value as stored, with enable_gqa",
    (Layout.CONTIGUOUS.value, Layout.EXPANDED_KV.value): "key and value repeated for every query head",
    (Layout.TRANSPOSED.value, Layout.EXPANDED_KV.value): "key and value repeated for every query head",
}


def describe_unlocks(decision: Decision) -> str:
    """What a reader is told about a refusal: the changes that ran, and those that were not tried and why.

    Empty where nothing was refused.
    """
    if decision.verdict != "rejected":
        return ""
    known = "; or ".join(decision.unlocked_by)
    untried = f"not tried: {'; '.join(decision.untried)}" if decision.untried else ""
    return "; ".join(part for part in (known, untried) if part) or decision.remedy or NONE_KNOWN


def is_about(line: str, sentence: str) -> bool:
    """Whether a line of ``Decision.unlocked_by`` names this change: its sentence, and in brackets how it is known."""
    return line.startswith(f"{sentence} (")


def find_unlocks(workload: Workload, decision: Decision, facts: DeviceFacts) -> tuple[Unlock, ...]:
    """Single edits after which the rule of ``decision.backend`` accepts, exact ones before those that round.

    Empty where the backend did not refuse, and where no single edit is enough.
    """
    if decision.verdict != "rejected":
        return ()
    backend = find(decision.backend, BACKENDS, field="backend")
    asked = replace(workload, backend=backend.slug)

    def takes(edit: Unlock) -> bool:
        return backend.check(edit.workload, facts).verdict == "accepted"

    exact = filter(takes, (*_mask_forms(asked), *_layouts(asked)))
    # Of all sizes that would do, the least. Where the rule sees no fault, no size is to blame.
    by_rule = backend.check(asked, facts).verdict == "rejected"
    padded = (next(filter(takes, sizes), None) for sizes in (_head_dims(asked) if by_rule else ()))
    rounded = filter(takes, _dtypes(asked))
    return (*exact, *(edit for edit in padded if edit is not None), *rounded)


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
    elif workload.kv_heads != workload.num_heads:
        layouts.append(Layout.CONTIGUOUS)
    for layout in layouts:
        edited = replace(workload, layout=layout)
        yield Unlock(field="layout", before=workload.layout, after=layout, workload=edited)


def _head_dims(workload: Workload) -> Iterator[Iterator[Unlock]]:
    """For each size that can be padded alone, every larger one, the least first.

    Zeros behind query and key add nothing to a score; zeros behind value give columns to cut off.
    """
    head_dim, value_dim = workload.head_dim, workload.value_dim
    tied = head_dim == value_dim
    yield (
        _pad(workload, "head_dim", head_dim, size, size if tied else value_dim)
        for size in _larger_sizes(head_dim, value_dim)
    )
    if not tied:
        yield (_pad(workload, "head_dim_v", value_dim, head_dim, size) for size in _larger_sizes(value_dim, head_dim))


def _larger_sizes(size: int, other: int) -> list[int]:
    """Aligned sizes above ``size``, and ``other`` where it is above: some kernels take one size for all tensors."""
    aligned = range((size // HEAD_DIM_STEP + 1) * HEAD_DIM_STEP, SIZE_LIMITS["head_dim"] + 1, HEAD_DIM_STEP)
    return sorted({*aligned, *([other] if other > size else [])})


def _pad(workload: Workload, field: str, before: int, head_dim: int, value_dim: int) -> Unlock:
    edited = replace(workload, head_dim=head_dim, head_dim_v=value_dim, scale=workload.softmax_scale)
    return Unlock(field=field, before=str(before), after=str(getattr(edited, field)), workload=edited)


def _dtypes(workload: Workload) -> Iterator[Unlock]:
    for dtype in DTYPES:
        if dtype is not workload.dtype:
            edited = replace(workload, dtype=dtype)
            yield Unlock(field="dtype", before=workload.dtype, after=dtype, workload=edited)
