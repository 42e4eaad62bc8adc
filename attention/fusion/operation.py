"""What an operation beyond attention is: its operands, its formula, and what it costs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attention.fusion.workload import FusionWorkload

if TYPE_CHECKING:
    import torch

    Formula = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One tensor of the call.

    ``fan_in``: elements of it that one element of the result sums; its numbers are drawn with variance 1/fan_in, so
    that results stay near 1. ``per_token``: its first dimension is ``tokens``; the others hold for every token.
    """

    name: str
    shape: Callable[[FusionWorkload], tuple[int, ...]]
    fan_in: Callable[[FusionWorkload], int] = lambda workload: 1
    per_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the catalogue; every function takes the validated workload.

    ``build``: the formula, a function of the operands in their order that gives ``[tokens, hidden_size]``, one
    operator at a time; the same function runs eagerly, compiled, and in float64 as the reference.
    ``count_flops``: FLOPs of one call. ``flops_note`` says which.
    ``count_intermediates_bytes``: bytes that the eager formula writes between its operators, the result left out.
    ``count_peak_bytes``: bytes that the eager formula holds at its peak besides the operands, the result included.
    ``summed``: the operand whose elements, weighted, each element of the result adds up.
    """

    slug: str
    title: str
    source: str
    operands: tuple[Operand, ...]
    build: Callable[[], "Formula"]
    count_flops: Callable[[FusionWorkload], int]
    flops_note: str
    count_intermediates_bytes: Callable[[FusionWorkload], int]
    intermediates_note: str
    count_peak_bytes: Callable[[FusionWorkload], int]
    summed: str
