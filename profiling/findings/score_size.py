"""How large is the score matrix that a bare trace shows? By recorded shapes, or by the softmax's launch."""

import re
from dataclasses import dataclass
from math import prod

from profiling.report_schema import KernelSummary, Report
from profiling.trace.events import Trace

_SOFTMAX = "aten::_softmax"
_ITEMSIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
# Rows of up to 1024 elements: one warp holds a row, or two of up to 128, and the template's number is the base-2
# logarithm of the row's length, rounded up. Longer rows: one block a row.
# Source: PyTorch, aten/src/ATen/native/cuda/PersistentSoftmax.cuh, dispatch_softmax_forward, and SoftMax.cu.
_WARP_SOFTMAX = re.compile(r"softmax_warp_forward<[^,]+, ?[^,]+, ?[^,]+, ?(?:\(int\))?(?P<log2>\d+)\b")
_BLOCK_SOFTMAX = re.compile(r"cunn_SoftMaxForward")
_TWO_ROWS_UP_TO = 128
_BLOCK_SOFTMAX_ABOVE = 1024
_MOST_ELEMENTS = 2**63 - 1  # that a tensor can count
_MOST_DIMENSIONS = 64  # of a tensor. Source: PyTorch, c10/util/DimVector.h and TensorIterator


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSize:
    """Bytes of one score matrix in ``data_type``; ``bound`` is "", "up to " or "at least ", ``basis`` what says so."""

    bytes: int
    bound: str
    data_type: str
    basis: str
    items: tuple[int, ...] = ()
    operators: tuple[int, ...] = ()


def find_score_size(report: Report, trace: Trace) -> ScoreSize | None:
    """The size of the largest matrix that a softmax read; None: the trace says it in none of its ways."""
    kernels = [kernel for kernel in report.kernels if kernel.role == "softmax"]
    data_type = next((kernel.data_type for kernel in kernels if kernel.data_type in _ITEMSIZES), None)
    return _by_shapes(trace, kernels, data_type) or _by_launch(kernels)


def _by_shapes(trace: Trace, kernels: list[KernelSummary], data_type: str | None) -> ScoreSize | None:
    shaped = []
    for op in trace.operators:
        if op.name == _SOFTMAX and op.input_shapes and (elements := _count_elements(op.input_shapes[0])):
            shaped.append((elements, op))
    if not shaped:
        return None
    elements, largest = max(shaped, key=lambda pair: pair[0])
    # On a CPU no kernel's name says the dtype: two bytes an element are then the least it takes.
    known = data_type is not None
    return ScoreSize(
        bytes=elements * (_ITEMSIZES[data_type] if data_type is not None else 2),
        bound="" if known else "at least ",
        data_type=data_type or "a dtype that is not recorded",
        basis=f"the softmax's recorded shape {largest.input_shapes[0] if largest.input_shapes else ''}",
        items=tuple(index for kernel in kernels for index in kernel.items),
        operators=(largest.index,),
    )


def _count_elements(shape: object) -> int:
    if not isinstance(shape, tuple | list) or len(shape) > _MOST_DIMENSIONS:
        return 0
    if not all(isinstance(size, int) and size > 0 for size in shape):
        return 0
    elements = prod(size for size in shape if isinstance(size, int))
    return elements if elements <= _MOST_ELEMENTS else 0


def _by_launch(kernels: list[KernelSummary]) -> ScoreSize | None:
    found = [size for kernel in kernels if (size := _size_of_launch(kernel)) is not None]
    return max(found, key=lambda size: size.bytes, default=None)


def _size_of_launch(kernel: KernelSummary) -> ScoreSize | None:
    if kernel.grid is None or kernel.block is None or kernel.data_type not in _ITEMSIZES:
        return None
    itemsize = _ITEMSIZES[kernel.data_type]
    if match := _WARP_SOFTMAX.search(kernel.name):
        # The template exists up to 2^10; a larger number is no length.
        length = 2 ** min(int(match["log2"]), 10)
        rows = kernel.grid[0] * kernel.block[1] * (2 if length <= _TWO_ROWS_UP_TO else 1)
        bound, extent = "up to ", f"at most {length:,}"
    elif _BLOCK_SOFTMAX.search(kernel.name):
        length, rows = _BLOCK_SOFTMAX_ABOVE, kernel.grid[0]
        bound, extent = "at least ", f"more than {length:,}"
    else:
        return None
    return ScoreSize(
        bytes=rows * length * itemsize,
        bound=bound,
        data_type=kernel.data_type,
        basis=f"the softmax's launch over {rows:,} rows of {extent} elements",
        items=kernel.items,
    )
