"""Whether the answer was right: every element against the float64 reference, with a derived budget.

Budget: an independent run of the same formula in the workload's dtype, operator by operator, loses some
accuracy against float64. A backend may lose twice that, plus one unit in the last place of the largest
reference element; for float64, where the reference has the same type, the run is made in float32 and its
error scaled by the ratio of the types' units. "Fused error at most twice the naive error" is flash-attention's
own test.
Source: Dao-AILab/flash-attention, tests/test_flash_attn.py.
"""

from typing import TYPE_CHECKING

from attention.inputs import Inputs
from attention.reference import ReferenceBlock, build_reference
from attention.workload import DType, Workload
from profiling.recording import Delta, ReferenceSample

if TYPE_CHECKING:
    import torch

NAIVE_ERROR_FACTOR = 2
REFERENCE_SAMPLES = 16
REFERENCE_NAME = "float64 attention on the same rounded inputs, in blocks of query rows"


class _Accumulator:
    """Errors of one tensor, block by block; keeps one number of each kind, never a whole float64 tensor."""

    def __init__(self) -> None:
        self.max_abs_error: float | None = None
        self.worst_index: tuple[int, ...] | None = None
        self.worst_value: float | None = None
        self.worst_reference: float | None = None
        self.squared_error = 0.0
        self.compared = 0
        self.nan_count = 0
        self.inf_count = 0
        self.live_non_finite = 0
        self.dead_rows = 0
        self.largest_reference = 0.0
        self.naive_error = 0.0

    def add(self, block: ReferenceBlock, rows: "torch.Tensor") -> None:
        """Compare ``rows``, ``[num_heads, stop - start, value_dim]`` in the workload's dtype, with ``block``."""
        import torch

        measured = rows.to(torch.float64)
        finite = torch.isfinite(measured)
        self.nan_count += int(torch.isnan(measured).sum())
        self.inf_count += int(torch.isinf(measured).sum())
        judged = torch.ones_like(finite) if block.live is None else block.live[:, None].expand_as(finite)
        if block.live is not None:
            self.dead_rows += int((~block.live).sum())
        self.live_non_finite += int((judged & ~finite).sum())
        error = torch.where(finite & judged, (measured - block.exact).abs(), 0.0)
        self.squared_error += float(error.square().sum())
        self.compared += int((finite & judged).sum())
        naive = torch.where(judged, (block.rounded.to(torch.float64) - block.exact).abs(), 0.0)
        self.naive_error = max(self.naive_error, float(naive.max()) * block.rounding)
        self.largest_reference = max(self.largest_reference, float(block.exact.abs().max()))
        self._keep_worst(block, measured, error)

    def _keep_worst(self, block: ReferenceBlock, measured: "torch.Tensor", error: "torch.Tensor") -> None:
        if self.compared == 0:
            return
        flat = int(error.argmax())
        worst = float(error.flatten()[flat])
        if self.max_abs_error is not None and worst <= self.max_abs_error:
            return
        row_count, dim = error.shape[1], error.shape[2]
        head, row, column = flat // (row_count * dim), flat // dim % row_count, flat % dim
        self.max_abs_error = worst
        self.worst_index = (block.batch, head, block.start + row, column)
        self.worst_value = float(measured[head, row, column])
        self.worst_reference = float(block.exact[head, row, column])


def check_output(workload: Workload, inputs: Inputs, output: "torch.Tensor") -> Delta:
    """The output, ``[batch_size, num_heads, seq_len_q, value_dim]``, judged element by element."""
    import torch

    accumulator = _Accumulator()
    wanted = _sample_indices(workload)
    samples: list[ReferenceSample] = []
    for block in build_reference(workload, inputs):
        accumulator.add(block, output[block.batch, :, block.start : block.stop])
        for index in wanted:
            batch, head, row, column = index
            if batch == block.batch and block.start <= row < block.stop:
                value = float(block.exact[head, row - block.start, column])
                samples.append(ReferenceSample(index=index, value=value))
    unit = torch.finfo(output.dtype).eps * accumulator.largest_reference
    budget = NAIVE_ERROR_FACTOR * accumulator.naive_error + unit
    within = None
    if accumulator.max_abs_error is not None:
        within = accumulator.max_abs_error <= budget and accumulator.live_non_finite == 0
    elif accumulator.live_non_finite:
        within = False
    return Delta(
        tensor="output",
        max_abs_error=accumulator.max_abs_error,
        rms_error=(accumulator.squared_error / accumulator.compared) ** 0.5 if accumulator.compared else None,
        error_budget=budget,
        budget_basis=_describe_budget(workload, accumulator, unit),
        within_budget=within,
        nan_count=accumulator.nan_count,
        inf_count=accumulator.inf_count,
        worst_index=accumulator.worst_index,
        worst_value=accumulator.worst_value,
        worst_reference=accumulator.worst_reference,
        dead_rows=accumulator.dead_rows // workload.batch_size,
        reference=REFERENCE_NAME,
        reference_samples=tuple(samples),
    )


def _describe_budget(workload: Workload, accumulator: _Accumulator, unit: float) -> str:
    run = f"an independent {workload.dtype} run of the formula"
    if workload.dtype is DType.FLOAT64:
        run = "an independent float32 run of the formula scaled to float64's unit"
    dead = "; rows that may attend to nothing are left out" if accumulator.dead_rows else ""
    return (
        f"{NAIVE_ERROR_FACTOR} × {accumulator.naive_error:.2e}, the error of {run}, "
        f"+ {unit:.1e}, one unit in the last place of the largest reference element{dead}"
    )


def _sample_indices(workload: Workload) -> tuple[tuple[int, int, int, int], ...]:
    """Indices spread over the output, the last row of the last head among them."""
    shape = (workload.batch_size, workload.num_heads, workload.seq_len_q, workload.value_dim)
    last = REFERENCE_SAMPLES - 1
    spread = {tuple((size - 1) * step // last for size in shape) for step in range(REFERENCE_SAMPLES)}
    return tuple((batch, head, row, column) for batch, head, row, column in sorted(spread))
