"""The oracle: attention in float64 on the same rounded inputs, a block of query rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attention.backends.naive import attend, repeat_heads
from attention.cost import REFERENCE_BLOCK_ELEMENTS
from attention.inputs import allowed_rows, bias_dtype, bias_rows
from attention.tensors import Inputs
from attention.workload import Workload

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceBlock:
    """Rows ``start`` to ``stop`` of one batch entry; ``batch`` None: of a tensor ``[rows, columns]``, as one head.

    ``exact``: float64 ``[num_heads, stop - start, value_dim]``, zeros in dead rows.
    ``rounded``: the same rows computed independently in the workload's dtype, operator by operator; in float32
    where that dtype is float64, since a second float64 run would repeat the reference bit for bit.
    ``rounding``: what turns the error of ``rounded`` into the one expected of the workload's dtype: 1, or the
    ratio of the two types' units.
    ``live``: bool ``[num_heads or 1, stop - start]``, False for rows that may attend to nothing; None: all are live.
    ``cancelling``: of a gradient, a bound on the products that an element of it adds up and that may cancel.
    """

    batch: int | None
    start: int
    stop: int
    exact: "torch.Tensor"
    rounded: "torch.Tensor"
    rounding: float
    live: "torch.Tensor | None"
    cancelling: float = 0.0

    def cut(self, whole: "torch.Tensor") -> "torch.Tensor":
        """This block's rows of the whole tensor, shaped as ``exact``."""
        if self.batch is None:
            return whole[None, self.start : self.stop]
        return whole[self.batch, :, self.start : self.stop]

    def index(self, head: int, row: int, column: int) -> tuple[int, ...]:
        """Where an element of ``exact`` lies in the whole tensor."""
        place = (self.start + row, column)
        return place if self.batch is None else (self.batch, head, *place)

    def find(self, index: tuple[int, ...]) -> tuple[int, int, int] | None:
        """Where an element of the whole tensor lies in ``exact``; None: not in this block."""
        *outer, row, column = index
        batch, head = outer if outer else (None, 0)
        if batch != self.batch or not self.start <= row < self.stop:
            return None
        assert head is not None
        return head, row - self.start, column


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mask:
    """The mask over some query rows of one batch entry, each ``[1, num_heads or 1, rows, seq_len_kv]`` or None.

    Dead rows are left unmasked, so that nothing becomes NaN; ``live`` says which rows count.
    """

    masked: "torch.Tensor | None"
    bias: "torch.Tensor | None"  # float64, rounded as the call sees it
    live: "torch.Tensor | None"  # bool [num_heads or 1, rows]


def build_reference(workload: Workload, inputs: Inputs) -> Iterator[ReferenceBlock]:
    """The output, block by block; each holds about REFERENCE_BLOCK_ELEMENTS scores, whatever the workload's size."""
    import torch

    lower, rounding = lower_dtype(inputs.query.dtype)
    with torch.no_grad():
        for batch in range(workload.batch_size):
            key, value = (_entry(tensor, batch, workload.num_heads) for tensor in (inputs.key, inputs.value))
            key64, value64 = key.to(torch.float64), value.to(torch.float64)
            key, value = key.to(lower), value.to(lower)
            for rows in _row_blocks(workload):
                query = inputs.query[batch : batch + 1, :, rows]
                mask = _build_mask(workload, inputs, batch, rows)
                exact = _attend(workload, query.to(torch.float64), key64, value64, mask)
                rounded = _attend(workload, query.to(lower), key, value, mask)
                if mask.live is not None:
                    exact = torch.where(mask.live[..., None], exact, 0.0)
                yield ReferenceBlock(
                    batch=batch,
                    start=rows.start,
                    stop=rows.stop,
                    exact=exact[0],
                    rounded=rounded[0],
                    rounding=rounding,
                    live=mask.live,
                )


def build_gradient_reference(workload: Workload, inputs: Inputs) -> Iterator[tuple[str, ReferenceBlock]]:
    """Tensor name (grad_query, grad_key, grad_value) and its block: one batch entry whole, all rows live.

    Gradients come from torch.autograd over the plain formula, a block of query rows at a time; those of key and
    value are summed over the blocks in float64. Rows that may attend to nothing pass no gradient on.
    """
    import torch

    lower, rounding = lower_dtype(inputs.query.dtype)
    for batch in range(workload.batch_size):
        exact, attended = _entry_gradients(workload, inputs, batch, torch.float64)
        rounded, _ = _entry_gradients(workload, inputs, batch, lower)
        cancelling = _bound_cancelling(workload, inputs, batch, attended)
        for name in ("grad_query", "grad_key", "grad_value"):
            yield (
                name,
                ReferenceBlock(
                    batch=batch,
                    start=0,
                    stop=exact[name].shape[1],
                    exact=exact[name],
                    rounded=rounded[name],
                    rounding=rounding,
                    live=None,
                    cancelling=cancelling.get(name, 0.0),
                ),
            )


def _bound_cancelling(workload: Workload, inputs: Inputs, batch: int, attended: float) -> dict[str, float]:
    """For grad_query and grad_key, the size of the products behind a score's gradient, times what each is added with.

    A score's gradient is its weight times grad_output·value less the row's mean of it, which is all of it where a row
    attends to one key. What rounding leaves of the two adds up over the rows that attend to a key, as a walk does.
    """
    assert inputs.grad_output is not None
    query, key, value, grad_output = (
        tensor[batch].detach() for tensor in (inputs.query, inputs.key, inputs.value, inputs.grad_output)
    )
    products = _longest(grad_output) * _longest(value) * workload.softmax_scale
    return {
        "grad_query": products * float(key.abs().max()),
        "grad_key": products * float(query.abs().max()) * max(1.0, attended) ** 0.5,
    }


def _longest(rows: "torch.Tensor") -> float:
    """The largest norm of a row."""
    import torch

    return float(rows.norm(dim=-1, dtype=torch.float64).max())


def _entry_gradients(
    workload: Workload, inputs: Inputs, batch: int, dtype: "torch.dtype"
) -> "tuple[dict[str, torch.Tensor], float]":
    """Gradients of one batch entry computed in ``dtype``, float64 ``[heads, seq_len, dim]``.

    In float64 also the largest sum of the weights that one key gets from all rows; else 0.
    """
    import torch

    assert inputs.grad_output is not None
    # A column of value that is 0 changes nothing; where its grad_output is 1, its gradient is that sum.
    counts = (0, int(dtype == torch.float64))
    key, value = (tensor[batch : batch + 1].detach().to(dtype) for tensor in (inputs.key, inputs.value))
    value = torch.nn.functional.pad(value, counts)
    grad_query = []
    grad_key = torch.zeros(key.shape[1:], dtype=torch.float64, device=key.device)
    grad_value = torch.zeros(value.shape[1:], dtype=torch.float64, device=value.device)
    for rows in _row_blocks(workload):
        mask = _build_mask(workload, inputs, batch, rows)
        grad_output = inputs.grad_output[batch : batch + 1, :, rows].to(dtype)
        grad_output = torch.nn.functional.pad(grad_output, counts, value=1.0)
        if mask.live is not None:
            grad_output = torch.where(mask.live[..., None], grad_output, 0.0)
        leaves = [
            tensor.detach().requires_grad_()
            for tensor in (inputs.query[batch : batch + 1, :, rows].to(dtype), key, value)
        ]
        with torch.enable_grad():
            expanded = [repeat_heads(tensor, workload.num_heads) for tensor in leaves[1:]]
            output = _attend(workload, leaves[0], expanded[0], expanded[1], mask)
            gradients = torch.autograd.grad(output, leaves, grad_output)
        grad_query.append(gradients[0][0].to(torch.float64))
        grad_key += gradients[1][0]
        grad_value += gradients[2][0]
    attended = float(grad_value[..., workload.value_dim :].sum(dim=-1).max())
    grad_value = grad_value[..., : workload.value_dim]
    return {"grad_query": torch.cat(grad_query, dim=1), "grad_key": grad_key, "grad_value": grad_value}, attended


def lower_dtype(dtype: "torch.dtype") -> "tuple[torch.dtype, float]":
    """The type of the independent run for inputs of ``dtype``, and the factor of its error; see ReferenceBlock."""
    import torch

    if dtype == torch.float64:
        return torch.float32, torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    return dtype, 1.0


def _row_blocks(workload: Workload) -> Iterator[slice]:
    rows_per_block = max(1, REFERENCE_BLOCK_ELEMENTS // (workload.num_heads * workload.seq_len_kv))
    for start in range(0, workload.seq_len_q, rows_per_block):
        yield slice(start, min(start + rows_per_block, workload.seq_len_q))


def _entry(tensor: "torch.Tensor", batch: int, num_heads: int) -> "torch.Tensor":
    return repeat_heads(tensor[batch : batch + 1], num_heads)


def _build_mask(workload: Workload, inputs: Inputs, batch: int, rows: slice) -> _Mask:
    import torch

    device, batches = inputs.query.device.type, slice(batch, batch + 1)
    allowed = allowed_rows(workload, device, batches, rows)
    bias = bias_rows(workload, device, batches, rows)
    if bias is not None:
        bias = bias.to(bias_dtype(workload)).to(torch.float64)
    if allowed is None:
        return _Mask(masked=None, bias=bias, live=None)
    live = allowed.any(dim=-1)
    return _Mask(masked=~allowed & live[..., None], bias=bias, live=live[0])


def _attend(
    workload: Workload, query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor", mask: _Mask
) -> "torch.Tensor":
    bias = None if mask.bias is None else mask.bias.to(query.dtype)
    scale = workload.softmax_scale
    return attend(query, key, value, masked=mask.masked, bias=bias, scale=scale, in_place=True)
