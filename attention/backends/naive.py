"""Attention as the formula reads, operator by operator: what every fused kernel is measured against."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from attention.backends.backend import Backend
from attention.backends.decision import Decision, DeviceFacts
from attention.workload import Workload

if TYPE_CHECKING:
    import torch

    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs


def attend(
    query: "torch.Tensor",
    key: "torch.Tensor",
    value: "torch.Tensor",
    *,
    masked: "torch.Tensor | None",
    bias: "torch.Tensor | None",
    scale: float,
    in_place: bool,
) -> "torch.Tensor":
    """softmax(query·keyᵀ × scale + mask)·value, one operator at a time.

    ``query`` is ``[..., seq_len_q, head_dim]``, ``key`` and ``value`` ``[..., seq_len_kv, head_dim]`` with as
    many heads as ``query``. ``masked`` is bool, broadcastable to the scores, True where a query may NOT attend;
    ``bias`` is added to the scores. ``in_place`` changes the masking alone: out of place, ``masked_fill``
    clones the score matrix first.
    """
    scores = query @ key.transpose(-2, -1)
    scores = scores * scale
    if bias is not None:
        scores = scores.add_(bias) if in_place else scores + bias
    if masked is not None:
        minus_infinity = float("-inf")
        scores = scores.masked_fill_(masked, minus_infinity) if in_place else scores.masked_fill(masked, minus_infinity)
    weights = scores.softmax(dim=-1)
    if weights.dtype != value.dtype:  # a float32 bias raised the scores
        weights = weights.to(value.dtype)
    return weights @ value


def repeat_heads(tensor: "torch.Tensor", num_heads: int) -> "torch.Tensor":
    """Key or value with each head repeated for its group of query heads; a copy, unless counts are equal."""
    groups = num_heads // tensor.shape[1]
    return tensor if groups == 1 else tensor.repeat_interleave(groups, dim=1)


def _accept(slug: str, workload: Workload, device: DeviceFacts) -> Decision:
    return Decision(backend=slug, verdict="accepted", reason="plain operators take every dtype, shape and mask")


@contextmanager
def _build(in_place: bool, workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    # The boolean mask is built once, outside the call, as the tutorial does.
    masked = None if inputs.allowed is None else ~inputs.allowed
    scale, num_heads = workload.softmax_scale, workload.num_heads

    def call() -> "torch.Tensor":
        return attend(
            inputs.query,
            repeat_heads(inputs.key, num_heads),
            repeat_heads(inputs.value, num_heads),
            masked=masked,
            bias=inputs.bias,
            scale=scale,
            in_place=in_place,
        )

    yield call


NAIVE = Backend(
    slug="naive",
    title="naive: one operator at a time",
    source="the formula of Vaswani et al., 2017, section 3.2.1",
    families=("naive",),
    check=partial(_accept, "naive"),
    build=partial(_build, False),
    takes_dense_mask=True,
    score_matrices=2,
)
NAIVE_INPLACE = Backend(
    slug="naive_inplace",
    title="naive, mask written in place",
    source="torch.Tensor.masked_fill_",
    families=("naive_inplace",),
    check=partial(_accept, "naive_inplace"),
    build=partial(_build, True),
    takes_dense_mask=True,
    score_matrices=2,
)
