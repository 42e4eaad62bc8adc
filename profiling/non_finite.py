"""Where a result holds NaN or infinite values, and whether those rows count: NaN of a padded row alone harms nobody."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from attention.inputs import allowed_rows
from attention.workload import Workload
from profiling.check_records import NonFiniteRows, RowRange

if TYPE_CHECKING:
    import torch

TENSORS = ("output", "grad_query", "grad_key", "grad_value")
RANGES_MOST = 16
# Elements of the dense mask that are looked at together to find the dead rows.
MASK_BLOCK_ELEMENTS = 2**26


def find_non_finite(workload: Workload, results: "tuple[torch.Tensor, ...]") -> tuple[NonFiniteRows, ...]:
    """One a tensor that holds such values. ``results``: the output, or output and gradients, as ``build_call`` gives.

    Rows of the output may be dead; every row of a gradient counts, since a dead row's gradient is zero.
    """
    found = []
    for name, tensor in zip(TENSORS, results, strict=False):
        rows = _count_rows(tensor)
        if rows is not None:
            found.append(_locate(name, rows, _dead_rows(workload, tensor) if name == "output" else None))
    return tuple(found)


def _count_rows(tensor: "torch.Tensor") -> "torch.Tensor | None":
    """Values that are not finite, ``[batch_size, heads, rows]`` on the CPU; None where all are finite."""
    import torch

    per_row = (~torch.isfinite(tensor.detach())).sum(dim=-1)
    return per_row.cpu() if bool(per_row.any()) else None


def _dead_rows(workload: Workload, output: "torch.Tensor") -> "torch.Tensor | None":
    """Bool ``[batch_size, heads or 1, seq_len_q]`` on the CPU, True where a row may attend to nothing; None: no row."""
    import torch

    device, step = output.device.type, max(1, MASK_BLOCK_ELEMENTS // (workload.num_heads * workload.seq_len_kv))
    entries = []
    for batch in range(workload.batch_size):
        blocks = []
        for start in range(0, workload.seq_len_q, step):
            rows = slice(start, min(start + step, workload.seq_len_q))
            allowed = allowed_rows(workload, device, slice(batch, batch + 1), rows)
            if allowed is None:
                return None
            blocks.append(~allowed[0].any(dim=-1))
        entries.append(torch.cat(blocks, dim=-1).cpu())
    return torch.stack(entries)


def _locate(name: str, rows: "torch.Tensor", dead: "torch.Tensor | None") -> NonFiniteRows:
    import torch

    is_dead = torch.zeros_like(rows, dtype=torch.bool) if dead is None else dead.expand_as(rows)
    # A row of several heads is told once, and counts where it counts in one of them.
    ranges = list(_join(rows.any(dim=1).tolist(), is_dead.all(dim=1).tolist()))
    return NonFiniteRows(
        tensor=name,
        in_live_rows=int(rows[~is_dead].sum()),
        in_dead_rows=int(rows[is_dead].sum()),
        ranges=tuple(ranges[:RANGES_MOST]),
        ranges_left_out=max(0, len(ranges) - RANGES_MOST),
    )


def _join(holds_one: list[list[bool]], is_dead: list[list[bool]]) -> Iterator[RowRange]:
    """Neighbouring rows of one batch entry and kind as one range; both arguments are ``[batch_size, rows]``."""
    for batch, (marks, dead_marks) in enumerate(zip(holds_one, is_dead, strict=True)):
        start = 0
        for (holds, dead), group in groupby(zip(marks, dead_marks, strict=True)):
            stop = start + len(list(group))
            if holds:
                yield RowRange(batch=batch, start=start, stop=stop, dead=dead)
            start = stop
