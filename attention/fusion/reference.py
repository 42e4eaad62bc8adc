"""The oracle of an operation beyond attention: its formula in float64 on the same rounded inputs, in blocks of rows."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attention.fusion import operation_of
from attention.fusion.cost import rows_per_block
from attention.fusion.inputs import FusionInputs
from attention.fusion.workload import FusionWorkload
from attention.reference import ReferenceBlock, lower_dtype

if TYPE_CHECKING:
    import torch


def build_reference(workload: FusionWorkload, inputs: FusionInputs) -> Iterator[ReferenceBlock]:
    """The output ``[tokens, hidden_size]``, block by block; each block has one head of those rows."""
    import torch

    formula = operation_of(workload).build()
    lower, rounding = lower_dtype(inputs.tensors[0].dtype)
    weights = {
        dtype: {name: tensor.to(dtype) for name, tensor in inputs.operands.items() if name not in inputs.per_token}
        for dtype in (torch.float64, lower)
    }

    def compute(rows: slice, dtype: "torch.dtype") -> "torch.Tensor":
        cut = {
            name: weights[dtype][name] if name in weights[dtype] else tensor.to(dtype)
            for name, tensor in inputs.rows(rows).operands.items()
        }
        return formula(*cut.values())[None]

    step = rows_per_block(workload)
    with torch.no_grad():
        for start in range(0, workload.tokens, step):
            rows = slice(start, min(start + step, workload.tokens))
            yield ReferenceBlock(
                batch=None,
                start=rows.start,
                stop=rows.stop,
                exact=compute(rows, torch.float64),
                rounded=compute(rows, lower),
                rounding=rounding,
                live=None,
            )


def summed_tensor(workload: FusionWorkload, inputs: FusionInputs) -> "torch.Tensor":
    """The operand whose elements, weighted, each element of the output adds up."""
    return inputs.operands[operation_of(workload).summed]
