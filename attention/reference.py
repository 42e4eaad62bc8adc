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
    """Query rows ``start`` to ``stop`` of one batch entry.

    ``exact``: float64 ``[num_heads, stop - start, value_dim]``, zeros in dead rows.
    ``rounded``: the same rows computed independently in the workload's dtype, operator by operator; in float32
    where that dtype is float64, since a second float64 run would repeat the reference bit for bit.
    ``rounding``: what turns the error of ``rounded`` into the one expected of the workload's dtype: 1, or the
    ratio of the two types' units.
    ``live``: bool ``[num_heads or 1, stop - start]``, False for rows that may attend to nothing; None: all are live.
    """

    batch: int
    start: int
    stop: int
    exact: "torch.Tensor"
    rounded: "torch.Tensor"
    rounding: float
    live: "torch.Tensor | None"


def build_reference(workload: Workload, inputs: Inputs) -> Iterator[ReferenceBlock]:
    """Every block in order; each holds about REFERENCE_BLOCK_ELEMENTS scores, whatever the workload's size."""
    import torch

    device = inputs.query.device.type
    lower, rounding = inputs.query.dtype, 1.0
    if lower == torch.float64:
        lower = torch.float32
        rounding = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    rows_per_block = max(1, REFERENCE_BLOCK_ELEMENTS // (workload.num_heads * workload.seq_len_kv))
    scale = workload.softmax_scale
    for batch in range(workload.batch_size):
        key = repeat_heads(inputs.key[batch : batch + 1], workload.num_heads)
        value = repeat_heads(inputs.value[batch : batch + 1], workload.num_heads)
        key64, value64 = key.to(torch.float64), value.to(torch.float64)
        key, value = key.to(lower), value.to(lower)
        for start in range(0, workload.seq_len_q, rows_per_block):
            stop = min(start + rows_per_block, workload.seq_len_q)
            query = inputs.query[batch : batch + 1, :, start:stop]
            batches, rows = slice(batch, batch + 1), slice(start, stop)
            allowed = allowed_rows(workload, device, batches, rows)
            masked = None if allowed is None else ~allowed
            bias = bias_rows(workload, device, batches, rows)
            if bias is not None:
                bias = bias.to(bias_dtype(workload)).to(torch.float64)  # as the call sees it
            exact = attend(
                query.to(torch.float64), key64, value64, masked=masked, bias=bias, scale=scale, in_place=True
            )
            rounded = attend(
                query.to(lower),
                key,
                value,
                masked=masked,
                bias=None if bias is None else bias.to(lower),
                scale=scale,
                in_place=True,
            )
            live = None
            if allowed is not None:
                live = allowed.any(dim=-1)[0]
                exact = torch.where(live[..., None], exact, 0.0)
            yield ReferenceBlock(
                batch=batch, start=start, stop=stop, exact=exact[0], rounded=rounded[0], rounding=rounding, live=live
            )
