"""What differs between a call of attention and one beyond it, in one place: everything else treats both alike."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from attention import cost as attention_cost
from attention import inputs as attention_inputs
from attention import reference as attention_reference
from attention.backends import BACKENDS, Backend
from attention.fusion import cost as fusion_cost
from attention.fusion import inputs as fusion_inputs
from attention.fusion import reference as fusion_reference
from attention.fusion.backends import FUSION_BACKENDS
from attention.fusion.inputs import FusionInputs
from attention.fusion.workload import FusionWorkload
from attention.masks import mask_of
from attention.tensors import Inputs
from attention.workload import Workload

if TYPE_CHECKING:
    import torch

    from attention.reference import ReferenceBlock

AnyWorkload = Workload | FusionWorkload
AnyInputs = Inputs | FusionInputs


class Estimate(Protocol):
    """Bytes that a run holds at its peak, and the parts of them by name."""

    @property
    def total_bytes(self) -> int: ...

    @property
    def parts(self) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of call. Each function takes workloads and inputs of this kind alone.

    ``label``: the profiler's label around each step's call.
    ``smaller``: what to lower where a run does not fit.
    ``check``: raises InvalidWorkload where a workload that was built by hand contradicts itself.
    ``count_score_matrix_bytes`` and ``count_intermediates_bytes``: what a composed form writes to memory; None where
    the kind has no such thing.
    ``draw_tensors``: what runs of the same call on other backends share; ``build_inputs`` takes it.
    ``build_reference``: the output in float64, block by block. ``find_summed``: the tensor whose elements, weighted,
    each element of the output adds up.
    """

    label: str
    smaller: str
    backends: tuple[Backend, ...]
    check: Callable[[Any], None]
    estimate_memory: Callable[[Any], Estimate]
    count_flops: Callable[[Any], int]
    count_bytes_min: Callable[[Any], int]
    count_score_matrix_bytes: Callable[[Any], int | None]
    count_intermediates_bytes: Callable[[Any], int | None]
    describe_cost: Callable[[Any], tuple[str, ...]]
    count_inputs_bytes: Callable[[Any], int]
    count_output_bytes: Callable[[Any], int]
    draw_tensors: Callable[[Any, str], Any]
    build_inputs: Callable[[Any, str, Any], Any]
    build_reference: "Callable[[Any, Any], Iterator[ReferenceBlock]]"
    reference_title: str
    find_summed: "Callable[[Any, Any], torch.Tensor]"


ATTENTION = Kind(
    label="attn_fwd",
    smaller="lower batch_size or the sequence lengths, or choose a fused backend",
    backends=BACKENDS,
    check=lambda workload: mask_of(workload).check(workload),
    estimate_memory=attention_cost.estimate_memory,
    count_flops=attention_cost.count_flops,
    count_bytes_min=attention_cost.count_bytes_min,
    count_score_matrix_bytes=attention_cost.score_matrix_bytes,
    count_intermediates_bytes=lambda workload: None,
    describe_cost=lambda workload: attention_cost.COST_ASSUMPTIONS,
    count_inputs_bytes=attention_cost.inputs_bytes,
    count_output_bytes=attention_cost.output_bytes,
    draw_tensors=attention_inputs.draw_tensors,
    build_inputs=attention_inputs.build_inputs,
    build_reference=attention_reference.build_reference,
    reference_title="float64 attention on the same rounded inputs, in blocks of query rows",
    find_summed=lambda workload, inputs: inputs.value,
)
FUSION = Kind(
    label="fusion_fwd",
    smaller="lower tokens, hidden_size or intermediate_size",
    backends=FUSION_BACKENDS,
    check=lambda workload: None,  # its own construction checks all
    estimate_memory=fusion_cost.estimate_memory,
    count_flops=fusion_cost.count_flops,
    count_bytes_min=fusion_cost.count_bytes_min,
    count_score_matrix_bytes=lambda workload: None,
    count_intermediates_bytes=fusion_cost.intermediates_bytes,
    describe_cost=fusion_cost.cost_assumptions,
    count_inputs_bytes=fusion_cost.inputs_bytes,
    count_output_bytes=fusion_cost.output_bytes,
    draw_tensors=fusion_inputs.draw_operands,
    build_inputs=fusion_inputs.build_inputs,
    build_reference=fusion_reference.build_reference,
    reference_title="the same formula in float64 on the same rounded inputs, in blocks of rows",
    find_summed=fusion_reference.summed_tensor,
)

_KINDS: dict[type, Kind] = {Workload: ATTENTION, FusionWorkload: FUSION}


def kind_of(workload: AnyWorkload) -> Kind:
    """The kind of this workload's call, by its type."""
    return _KINDS[type(workload)]
