"""Seeded operands of a call beyond attention."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attention.fusion import operation_of
from attention.fusion.workload import FusionWorkload

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionInputs:
    """The operands by name, in the formula's order, each in the workload's dtype and contiguous.

    ``per_token``: names of those whose first dimension is ``tokens``.
    """

    operands: "dict[str, torch.Tensor]"
    per_token: frozenset[str]

    @property
    def named(self) -> "dict[str, torch.Tensor]":
        """The tensors that identify the inputs."""
        return self.operands

    @property
    def tensors(self) -> "tuple[torch.Tensor, ...]":
        return tuple(self.operands.values())

    @property
    def total_bytes(self) -> int:
        """Bytes of every storage here."""
        return sum(tensor.untyped_storage().nbytes() for tensor in self.tensors)

    def rows(self, rows: slice) -> "FusionInputs":
        """The same inputs cut to some tokens, as views."""
        cut = {name: tensor[rows] if name in self.per_token else tensor for name, tensor in self.operands.items()}
        return replace(self, operands=cut)


def draw_operands(workload: FusionWorkload, device: str) -> "dict[str, torch.Tensor]":
    """The operands from the seed, the same for every device and backend.

    The numbers are drawn in float32 on the CPU, since a GPU's generator depends on its model, scaled by
    1/sqrt(fan_in), then rounded to the workload's dtype.
    """
    import torch

    generator = torch.Generator().manual_seed(workload.seed)
    dtype = getattr(torch, workload.dtype)
    drawn = {}
    for operand in operation_of(workload).operands:
        values = torch.randn(operand.shape(workload), generator=generator, dtype=torch.float32)
        drawn[operand.name] = (values * operand.fan_in(workload) ** -0.5).to(dtype).to(device)
    return drawn


def build_inputs(
    workload: FusionWorkload, device: str, operands: "dict[str, torch.Tensor] | None" = None
) -> FusionInputs:
    """The call's inputs; ``operands`` reuses what ``draw_operands`` gave."""
    per_token = frozenset(operand.name for operand in operation_of(workload).operands if operand.per_token)
    return FusionInputs(operands=draw_operands(workload, device) if operands is None else operands, per_token=per_token)
