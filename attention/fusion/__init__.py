"""Every operation beyond attention, in the order in which the page lists them."""

from attention.fusion.operation import Operand, Operation
from attention.fusion.residual_rms_norm import RESIDUAL_RMS_NORM
from attention.fusion.swiglu import SWIGLU
from attention.fusion.workload import FusionWorkload

OPERATIONS: tuple[Operation, ...] = (SWIGLU, RESIDUAL_RMS_NORM)


def operation_of(workload: FusionWorkload) -> Operation:
    """The entry of the workload's operation."""
    return next(operation for operation in OPERATIONS if operation.slug == workload.operation)


__all__ = ["OPERATIONS", "Operand", "Operation", "operation_of"]
