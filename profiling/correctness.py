"""Whether the answer was right: every element against the float64 reference, with a derived budget.

Budget: an independent run of the same formula in the workload's dtype, operator by operator, loses some
accuracy against float64. A backend may lose twice that, plus the output's rounding (the dtype's epsilon times the
largest reference element) and the sum's (twice the accumulator's epsilon times the largest summed element, since a
sum in another order may differ by that where its terms cancel; gradients are allowed three times the naive error and
twice the sum's). For float64, where the reference has the same type, the run is made in float32 and its error scaled
by the ratio of the types' epsilons. "Fused error at most twice the naive error" is flash-attention's own test.

A fused kernel subtracts two sums where the naive run's terms cancel exactly, as for a row that attends to one key,
whose scores have no gradient: grad_query and grad_key may also lose the accumulator's epsilon times these products.

Causal rows average over more and more keys, so late rows are small and a budget set by the first rows would pass
nonsense in the last ones: each band of query rows is held to a budget of its own as well.
Source: Dao-AILab/flash-attention, tests/test_flash_attn.py.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attention.kinds import AnyInputs, AnyWorkload, kind_of
from attention.reference import ReferenceBlock, build_gradient_reference
from attention.tensors import Inputs
from attention.workload import DType, Workload
from profiling.format import format_error
from profiling.recording import Delta, ReferenceSample

if TYPE_CHECKING:
    import torch

NAIVE_ERROR_FACTOR = 2
NAIVE_GRADIENT_FACTOR = 3  # flash-attention's own test allows gradients this much
# Rows of one head and batch entry that share a budget: few enough that causal rows are alike, a flash tile or two.
BAND_ROWS = 128
# Fewer elements than this and the naive run's error in them is luck: they are judged with the whole tensor alone.
LEAST_BAND_ELEMENTS = 4096
# The weight and the sum each round once in the accumulator; a gradient goes through as many again.
ACCUMULATOR_ROUNDINGS = 2
REFERENCE_SAMPLES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Errors over some query rows of one tensor. ``max_abs_error`` None: no finite element in a row that counts."""

    max_abs_error: float | None = None
    worst_index: tuple[int, ...] | None = None
    worst_value: float | None = None
    worst_reference: float | None = None
    naive_error: float = 0.0  # worst error of the independent run; infinite where that run is not finite
    largest_reference: float = 0.0
    rows: str = ""  # "" for the whole tensor

    def budget(self, rounding: "_Rounding") -> float:
        return (
            rounding.naive_factor * self.naive_error + rounding.epsilon * self.largest_reference + rounding.of_the_sum
        )

    def excess(self, rounding: "_Rounding") -> float:
        """How far the worst error is above the budget; 0 and below: within."""
        return -math.inf if self.max_abs_error is None else self.max_abs_error - self.budget(rounding)

    def join(self, other: "_Part") -> "_Part":
        """Both parts as one, named as this one."""
        ahead = (other.max_abs_error or 0.0) > (self.max_abs_error or 0.0) or self.max_abs_error is None
        return replace(
            other if ahead else self,
            naive_error=max(self.naive_error, other.naive_error),
            largest_reference=max(self.largest_reference, other.largest_reference),
            rows=self.rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounding:
    """``epsilon`` of the result's dtype and of its ``accumulator``; ``largest``: the largest summed element.

    ``cancelling``: as a ReferenceBlock has it, the largest so far.
    """

    epsilon: float
    accumulator: float
    largest: float
    roundings: int = ACCUMULATOR_ROUNDINGS
    naive_factor: int = NAIVE_ERROR_FACTOR
    cancelling: float = 0.0

    @property
    def of_the_sum(self) -> float:
        return self.accumulator * (self.roundings * self.largest + self.cancelling)


class _Accumulator:
    """Errors of one tensor, block by block; keeps one number of each kind, never a whole float64 tensor."""

    def __init__(self, rounding: _Rounding) -> None:
        self.rounding = rounding
        self.whole = _Part()
        self.failed = _Part()  # the band that is furthest outside a budget of its own, if one is
        self.squared_error = 0.0
        self.compared = 0
        self.nan_count = 0
        self.inf_count = 0
        self.live_non_finite = 0
        self.dead_rows = 0

    def add(self, block: ReferenceBlock, rows: "torch.Tensor") -> None:
        """Compare ``rows``, shaped as the block's ``exact``, in the workload's dtype, with ``block``."""
        import torch

        self.rounding = replace(self.rounding, cancelling=max(self.rounding.cancelling, block.cancelling))
        measured = rows.to(torch.float64)
        finite = torch.isfinite(measured)
        self.nan_count += int(torch.isnan(measured).sum())
        self.inf_count += int(torch.isinf(measured).sum())
        judged = torch.ones_like(finite) if block.live is None else block.live[..., None].expand_as(finite)
        if block.live is not None:
            self.dead_rows += int((~block.live[0]).sum())
        self.live_non_finite += int((judged & ~finite).sum())
        error = torch.where(finite & judged, (measured - block.exact).abs(), 0.0)
        self.squared_error += float(error.square().sum())
        self.compared += int((finite & judged).sum())
        naive = torch.where(judged, (block.rounded.to(torch.float64) - block.exact).abs(), 0.0)
        naive = torch.nan_to_num(naive, nan=math.inf)
        for start in range(0, block.stop - block.start, BAND_ROWS):
            band = slice(start, min(start + BAND_ROWS, block.stop - block.start))
            self._add_band(block, band, measured, error, naive, compared=int((finite & judged)[:, band].sum()))

    def _add_band(
        self,
        block: ReferenceBlock,
        band: slice,
        measured: "torch.Tensor",
        error: "torch.Tensor",
        naive: "torch.Tensor",
        *,
        compared: int,
    ) -> None:
        rows = f"rows {block.start + band.start} to {block.start + band.stop - 1}"
        part = _Part(
            naive_error=float(naive[:, band].max()) * block.rounding,
            largest_reference=float(block.exact[:, band].abs().max()),
            rows=rows if block.batch is None else f"query {rows} of batch entry {block.batch}",
        )
        if compared:
            part = _with_worst(part, block, band, measured, error)
        self.whole = self.whole.join(part)
        enough = compared >= LEAST_BAND_ELEMENTS
        if enough and part.excess(self.rounding) > max(0.0, self.failed.excess(self.rounding)):
            self.failed = part

    @property
    def told(self) -> _Part:
        """The part whose numbers are shown: the whole tensor, unless it is within budget and a band of it is not."""
        band_alone = self.failed.excess(self.rounding) > 0 >= self.whole.excess(self.rounding)
        return self.failed if band_alone else self.whole


def _with_worst(
    part: _Part, block: ReferenceBlock, band: slice, measured: "torch.Tensor", error: "torch.Tensor"
) -> _Part:
    flat = int(error[:, band].argmax())
    row_count, dim = band.stop - band.start, error.shape[2]
    head, row, column = flat // (row_count * dim), flat // dim % row_count + band.start, flat % dim
    return replace(
        part,
        max_abs_error=float(error[head, row, column]),
        worst_index=block.index(head, row, column),
        worst_value=float(measured[head, row, column]),
        worst_reference=float(block.exact[head, row, column]),
    )


def check_results(workload: AnyWorkload, inputs: AnyInputs, results: "tuple[torch.Tensor, ...]") -> tuple[Delta, ...]:
    """The output, and the gradients where the call gave them, each judged element by element."""
    output = check_output(workload, inputs, results[0])
    if len(results) == 1:
        return (output,)
    assert isinstance(workload, Workload), "attention alone gives gradients"
    assert isinstance(inputs, Inputs)
    return (output, *check_gradients(workload, inputs, results[1:]))


def check_output(workload: AnyWorkload, inputs: AnyInputs, output: "torch.Tensor") -> Delta:
    """The output, shaped as ``build_call`` gives it, judged element by element."""
    kind = kind_of(workload)
    accumulator = _Accumulator(_rounding(output, kind.find_summed(workload, inputs)))
    wanted = _sample_indices(tuple(output.shape))
    samples: list[ReferenceSample] = []
    for block in kind.build_reference(workload, inputs):
        accumulator.add(block, block.cut(output))
        samples += _take_samples(block, wanted)
    return _build_delta("output", workload, accumulator, samples)


def check_gradients(workload: Workload, inputs: Inputs, gradients: "tuple[torch.Tensor, ...]") -> tuple[Delta, ...]:
    """grad_query, grad_key and grad_value, each shaped as its tensor, judged element by element."""
    assert inputs.grad_output is not None
    measured = dict(zip(("grad_query", "grad_key", "grad_value"), gradients, strict=True))
    # Each element sums products with an element of grad_output; its size stands for the terms that may cancel.
    accumulators = {
        name: _Accumulator(_gradient_rounding(tensor, inputs.grad_output)) for name, tensor in measured.items()
    }
    wanted = {name: _sample_indices(tuple(tensor.shape)) for name, tensor in measured.items()}
    samples: dict[str, list[ReferenceSample]] = {name: [] for name in measured}
    for name, block in build_gradient_reference(workload, inputs):
        accumulators[name].add(block, block.cut(measured[name]))
        samples[name] += _take_samples(block, wanted[name])
    return tuple(_build_delta(name, workload, accumulators[name], samples[name]) for name in measured)


def _build_delta(
    tensor: str, workload: AnyWorkload, accumulator: _Accumulator, samples: list[ReferenceSample]
) -> Delta:
    told = accumulator.told
    budget = told.budget(accumulator.rounding)
    within = None
    if accumulator.live_non_finite:
        within = False
    elif told.max_abs_error is not None and math.isfinite(budget):
        within = told.max_abs_error <= budget
    return Delta(
        tensor=tensor,
        max_abs_error=told.max_abs_error,
        rms_error=(accumulator.squared_error / accumulator.compared) ** 0.5 if accumulator.compared else None,
        error_budget=budget if math.isfinite(budget) else None,
        budget_basis=_describe_budget(workload, told, accumulator),
        within_budget=within,
        nan_count=accumulator.nan_count,
        inf_count=accumulator.inf_count,
        worst_index=told.worst_index,
        worst_value=told.worst_value,
        worst_reference=told.worst_reference,
        dead_rows=accumulator.dead_rows,
        reference=kind_of(workload).reference_title,
        reference_samples=tuple(samples),
    )


def _rounding(result: "torch.Tensor", summed: "torch.Tensor") -> _Rounding:
    """``summed``: the tensor whose elements, weighted, each element of ``result`` adds up."""
    import torch

    # Half precision is summed in float32, by every kernel here.
    accumulator = torch.float64 if result.dtype == torch.float64 else torch.float32
    return _Rounding(
        epsilon=torch.finfo(result.dtype).eps,
        accumulator=torch.finfo(accumulator).eps,
        largest=float(summed.detach().abs().max()),
    )


def _gradient_rounding(gradient: "torch.Tensor", grad_output: "torch.Tensor") -> _Rounding:
    forward = _rounding(gradient, grad_output)
    return replace(forward, roundings=2 * ACCUMULATOR_ROUNDINGS, naive_factor=NAIVE_GRADIENT_FACTOR)


def _describe_budget(workload: AnyWorkload, told: _Part, accumulator: _Accumulator) -> str:
    run = f"an independent {workload.dtype} run of the formula"
    if workload.dtype is DType.FLOAT64:
        run = "an independent float32 run of the formula scaled to float64's epsilon"
    if not math.isfinite(told.naive_error):
        return f"not judged: {run} is not finite itself"
    rounding = accumulator.rounding
    cancelling = " and the products of a score's gradient, which may cancel" if rounding.cancelling else ""
    where = f" in {told.rows}, where alone it is exceeded" if told.rows else ""
    dead = "; rows that may attend to nothing are left out" if accumulator.dead_rows else ""
    return (
        f"{rounding.naive_factor} × {format_error(told.naive_error)}, the error of {run}, "
        f"+ {format_error(rounding.epsilon * told.largest_reference)}, {workload.dtype}'s epsilon × the largest "
        f"reference element, + {format_error(rounding.of_the_sum)}, the accumulator's epsilon × {rounding.roundings} × "
        f"the largest summed element{cancelling}{where}{dead}"
    )


def _sample_indices(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Indices spread over a tensor, its first and its last element among them."""
    last = REFERENCE_SAMPLES - 1
    return tuple(sorted({tuple((size - 1) * step // last for size in shape) for step in range(REFERENCE_SAMPLES)}))


def _take_samples(block: ReferenceBlock, wanted: tuple[tuple[int, ...], ...]) -> list[ReferenceSample]:
    return [
        ReferenceSample(index=index, value=float(block.exact[place]))
        for index in wanted
        if (place := block.find(index)) is not None
    ]
