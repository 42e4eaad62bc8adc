"""Residual addition and RMSNorm, between the blocks of most language models: pointwise work around one reduction."""

from typing import TYPE_CHECKING

from attention.fusion.operation import Operand, Operation
from attention.fusion.workload import FusionWorkload
from attention.workload import DType

if TYPE_CHECKING:
    import torch

    from attention.fusion.operation import Formula

# Keeps a row of zeros from a division by zero. Source: the value that Llama's configurations use from version 3 on is
# 1e-5, earlier ones 1e-6; random rows do not feel either.
EPSILON = 1e-6
# add; square, its sum, times 1/rms, times the weight.
_FLOPS_PER_ELEMENT = 5


def build_residual_rms_norm() -> "Formula":
    """y / rms(y) × weight with y = x + residual; the mean of squares in float32 at least, as models take it."""

    def residual_rms_norm(x: "torch.Tensor", residual: "torch.Tensor", weight: "torch.Tensor") -> "torch.Tensor":
        y = x + residual
        wide = y.float() if y.element_size() < 4 else y
        inverse_rms = (wide.pow(2).mean(dim=-1, keepdim=True) + EPSILON).rsqrt()
        return (wide * inverse_rms).to(y.dtype) * weight

    return residual_rms_norm


def _wide_itemsize(workload: FusionWorkload) -> int:
    """Bytes of an element of what is raised to float32 where the dtype is narrower."""
    return max(workload.dtype.itemsize, DType.FLOAT32.itemsize)


def _raises(workload: FusionWorkload) -> bool:
    return workload.dtype.itemsize < DType.FLOAT32.itemsize


def _element_bytes(workload: FusionWorkload) -> int:
    """Bytes an element of y and of each intermediate that follows it: squares and the normalised row; casts besides."""
    narrow, wide = workload.dtype.itemsize, _wide_itemsize(workload)
    return narrow + 2 * wide + (wide + narrow if _raises(workload) else 0)


def _count_peak_bytes(workload: FusionWorkload) -> int:
    narrow, wide = workload.dtype.itemsize, _wide_itemsize(workload)
    if _raises(workload):
        # y and its float32 form stay; the normalised row is cast while both of its forms are alive.
        return workload.hidden_count * (2 * narrow + 2 * wide)
    return workload.hidden_count * 3 * narrow  # y, the normalised row, the result


RESIDUAL_RMS_NORM = Operation(
    slug="residual_rms_norm",
    title="residual addition and RMSNorm",
    source="Zhang and Sennrich, Root Mean Square Layer Normalization (arXiv:1910.07467), equation 4",
    operands=(
        Operand(name="x", shape=lambda workload: (workload.tokens, workload.hidden_size), per_token=True),
        Operand(name="residual", shape=lambda workload: (workload.tokens, workload.hidden_size), per_token=True),
        Operand(name="weight", shape=lambda workload: (workload.hidden_size,)),
    ),
    build=build_residual_rms_norm,
    count_flops=lambda workload: _FLOPS_PER_ELEMENT * workload.hidden_count,
    flops_note=(
        "FLOPs count five an element: addition, square, its sum, times 1/rms, times the weight; what is done once a "
        "row is left out"
    ),
    count_intermediates_bytes=lambda workload: workload.hidden_count * _element_bytes(workload),
    intermediates_note=(
        "intermediates of the eager form: the sum, its squares and the normalised rows, each [tokens, hidden_size], "
        "and for half precision the sum in float32 and the rows cast back; fused, none of them is written"
    ),
    count_peak_bytes=_count_peak_bytes,
    summed="residual",
)
