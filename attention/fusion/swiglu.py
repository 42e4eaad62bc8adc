"""SwiGLU, the feed-forward block of most language models: three matrix products around a pointwise gate."""

from typing import TYPE_CHECKING

from attention.fusion.operation import Operand, Operation
from attention.fusion.workload import FusionWorkload

if TYPE_CHECKING:
    import torch

    from attention.fusion.operation import Formula


def build_swiglu() -> "Formula":
    """(silu(x·W_gateᵀ) × x·W_upᵀ)·W_downᵀ, weights as ``torch.nn.Linear`` keeps them: ``[out, in]``."""
    from torch.nn.functional import linear, silu

    def swiglu(
        x: "torch.Tensor", gate_weight: "torch.Tensor", up_weight: "torch.Tensor", down_weight: "torch.Tensor"
    ) -> "torch.Tensor":
        return linear(silu(linear(x, gate_weight)) * linear(x, up_weight), down_weight)

    return swiglu


def _intermediate(workload: FusionWorkload) -> int:
    assert workload.intermediate_size is not None, "FusionWorkload asks for it"
    return workload.intermediate_size


def _wide_bytes(workload: FusionWorkload) -> int:
    """Bytes of one ``[tokens, intermediate_size]``."""
    return workload.tokens * _intermediate(workload) * workload.dtype.itemsize


def _count_flops(workload: FusionWorkload) -> int:
    return 3 * 2 * workload.hidden_count * _intermediate(workload)


def _count_peak_bytes(workload: FusionWorkload) -> int:
    # silu's result, the up projection and their product; later the product and the result.
    return max(3 * _wide_bytes(workload), _wide_bytes(workload) + workload.hidden_count * workload.dtype.itemsize)


SWIGLU = Operation(
    slug="swiglu",
    title="SwiGLU: gate, up and down projection",
    source="Shazeer, GLU Variants Improve Transformer (arXiv:2002.05202), FFN_SwiGLU",
    operands=(
        Operand(name="x", shape=lambda workload: (workload.tokens, workload.hidden_size), per_token=True),
        Operand(
            name="gate_weight",
            shape=lambda workload: (_intermediate(workload), workload.hidden_size),
            fan_in=lambda workload: workload.hidden_size,
        ),
        Operand(
            name="up_weight",
            shape=lambda workload: (_intermediate(workload), workload.hidden_size),
            fan_in=lambda workload: workload.hidden_size,
        ),
        Operand(
            name="down_weight",
            shape=lambda workload: (workload.hidden_size, _intermediate(workload)),
            fan_in=_intermediate,
        ),
    ),
    build=build_swiglu,
    count_flops=_count_flops,
    flops_note="FLOPs count the three products, 2 per multiply-add; silu and the gate's product are left out",
    count_intermediates_bytes=lambda workload: 4 * _wide_bytes(workload),
    intermediates_note=(
        "intermediates of the eager form: gate projection, its silu, up projection and their product, each "
        "[tokens, intermediate_size]; fused, silu's result is not written"
    ),
    count_peak_bytes=_count_peak_bytes,
    summed="down_weight",
)
