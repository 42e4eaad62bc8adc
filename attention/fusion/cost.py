"""Work and bytes that a call beyond attention needs, counted from its sizes alone."""

from dataclasses import dataclass
from math import prod

from attention.fusion import operation_of
from attention.fusion.workload import FusionWorkload

# The float64 reference works on blocks of rows with about this many elements in the widest tensor, so that its
# memory has a ceiling.
REFERENCE_BLOCK_ELEMENTS = 8 * 2**20
# Live float64 arrays of one block: the formula's own, its result and the comparison with the call's.
REFERENCE_ARRAYS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionMemoryEstimate:
    """Bytes that a run holds at its peak, by part."""

    inputs_bytes: int
    call_bytes: int  # the eager form's intermediates that are alive at once, and the output
    output_bytes: int
    reference_bytes: int  # the weights and one block in float64

    @property
    def total_bytes(self) -> int:
        """The call and the reference never overlap; the larger one decides."""
        return self.inputs_bytes + max(self.call_bytes, self.output_bytes + self.reference_bytes)

    @property
    def parts(self) -> dict[str, int]:
        """What the total is made of, by name."""
        return {
            "inputs": self.inputs_bytes,
            "output and intermediates": self.call_bytes,
            "float64 reference": self.reference_bytes,
        }


def count_flops(workload: FusionWorkload) -> int:
    """FLOPs of one call."""
    return operation_of(workload).count_flops(workload)


def inputs_bytes(workload: FusionWorkload) -> int:
    """Bytes of every operand."""
    operands = operation_of(workload).operands
    return sum(prod(operand.shape(workload)) for operand in operands) * workload.dtype.itemsize


def output_bytes(workload: FusionWorkload) -> int:
    return workload.hidden_count * workload.dtype.itemsize


def count_bytes_min(workload: FusionWorkload) -> int:
    """Least device traffic of one call: operands read once, output written once, nothing in between."""
    return inputs_bytes(workload) + output_bytes(workload)


def intermediates_bytes(workload: FusionWorkload) -> int:
    """Bytes that the eager form writes between its operators, and reads back."""
    return operation_of(workload).count_intermediates_bytes(workload)


def cost_assumptions(workload: FusionWorkload) -> tuple[str, ...]:
    """What the counts rest on, for a reader."""
    operation = operation_of(workload)
    return (
        operation.flops_note,
        "least bytes: every operand read once, the output written once, no intermediate",
        operation.intermediates_note,
    )


def rows_per_block(workload: FusionWorkload) -> int:
    """Rows that the reference computes at a time."""
    return max(1, REFERENCE_BLOCK_ELEMENTS // workload.widest)


def estimate_memory(workload: FusionWorkload) -> FusionMemoryEstimate:
    """What a run of ``workload`` will hold, before anything is allocated; a compiled run holds no more."""
    operation = operation_of(workload)
    shared = sum(prod(operand.shape(workload)) for operand in operation.operands if not operand.per_token)
    # Not whole rows, so that a wider tensor, of which fewer rows fit, never counts as less.
    block = min(workload.tokens * workload.widest, max(workload.widest, REFERENCE_BLOCK_ELEMENTS))
    return FusionMemoryEstimate(
        inputs_bytes=inputs_bytes(workload),
        call_bytes=operation.count_peak_bytes(workload),
        output_bytes=output_bytes(workload),
        # For float64 inputs the independent run is a float32 one, with weights of its own.
        reference_bytes=8 * (2 * shared + REFERENCE_ARRAYS * block),
    )
