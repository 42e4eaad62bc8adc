"""Seeded query, key and value in the workload's layout, and the mask in the form that the call receives."""

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from attention.backends import BACKENDS
from attention.lookup import find
from attention.masks import mask_of
from attention.tensors import Inputs
from attention.workload import Direction, Layout, MaskForm, Workload

if TYPE_CHECKING:
    import torch

# Query, key, value, and the output's gradient where the direction needs one.
Tensors = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor", "torch.Tensor | None"]


def draw_tensors(workload: Workload, device: str) -> "Tensors":
    """Query, key, value and grad_output from the seed, the same for every device and backend, in the workload's layout.

    The numbers are drawn in float32 on the CPU, since a GPU's generator depends on its model, then rounded to
    the workload's dtype. Order: query, key, value, grad_output, each ``[batch_size, heads, seq_len, dim]``; the
    layout changes where they lie and never what they are.
    """
    import torch

    generator = torch.Generator().manual_seed(workload.seed)
    dtype = getattr(torch, workload.dtype)

    def draw(heads: int, length: int, dim: int) -> "torch.Tensor":
        values = torch.randn((workload.batch_size, heads, length, dim), generator=generator, dtype=torch.float32)
        return values.to(dtype).to(device)

    query = draw(workload.num_heads, workload.seq_len_q, workload.head_dim)
    key = draw(workload.kv_heads, workload.seq_len_kv, workload.head_dim)
    value = draw(workload.kv_heads, workload.seq_len_kv, workload.value_dim)
    grad_output = None
    if workload.direction is Direction.FORWARD_BACKWARD:
        grad_output = draw(workload.num_heads, workload.seq_len_q, workload.value_dim)
    if workload.layout is Layout.TRANSPOSED:
        return _transpose(query), _transpose(key), _transpose(value), grad_output
    if workload.layout is Layout.EXPANDED_KV:
        return query, _expand(key, workload.num_heads), _expand(value, workload.num_heads), grad_output
    return query, key, value, grad_output


def _transpose(tensor: "torch.Tensor") -> "torch.Tensor":
    """The same values as a view of ``[batch_size, seq_len, heads, dim]``."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def _expand(tensor: "torch.Tensor", num_heads: int) -> "torch.Tensor":
    """Key or value with the query's heads: a view of stride 0 for one head, a copy for more."""
    if tensor.shape[1] == 1:
        return tensor.expand(-1, num_heads, -1, -1)
    return tensor.repeat_interleave(num_heads // tensor.shape[1], dim=1)


def build_inputs(workload: Workload, device: str, tensors: "Tensors | None" = None) -> Inputs:
    """Inputs with the mask as this backend receives it; ``tensors`` reuses what ``draw_tensors`` gave."""
    query, key, value, grad_output = draw_tensors(workload, device) if tensors is None else tensors
    if grad_output is not None:
        query, key, value = (tensor.detach().requires_grad_() for tensor in (query, key, value))
    inputs = Inputs(query=query, key=key, value=value, grad_output=grad_output)
    backend = find(workload.backend, BACKENDS, field="backend")
    form = mask_of(workload).resolve_form(workload)
    if form is None or backend.builds_mask:
        return inputs
    if form in (MaskForm.ADDITIVE, MaskForm.ADDITIVE_FLOAT32):
        return replace(inputs, bias=build_bias(workload, device))
    if form is MaskForm.BOOL or backend.takes_dense_mask:
        return replace(inputs, allowed=build_allowed(workload, device))
    return replace(inputs, is_causal=True)


def build_allowed(workload: Workload, device: str) -> "torch.Tensor | None":
    """Bool ``[batch_size or 1, num_heads or 1, seq_len_q, seq_len_kv]``; None where every pair is allowed."""
    allowed = allowed_rows(workload, device, slice(0, workload.batch_size), slice(0, workload.seq_len_q))
    # A GPU's kernels ask for a dense last dimension, which a predicate of the query's position alone lacks.
    return allowed if allowed is None or allowed.stride(-1) == 1 else allowed.contiguous()


def build_bias(workload: Workload, device: str) -> "torch.Tensor":
    """The mask as a tensor to add to the scores, -inf where a query may not attend, same shape as ``build_allowed``.

    In the query's dtype, or in float32 for that form.
    """
    import torch

    rows = slice(0, workload.seq_len_q)
    batches = slice(0, workload.batch_size)
    dtype = bias_dtype(workload)
    bias = bias_rows(workload, device, batches, rows)
    allowed = allowed_rows(workload, device, batches, rows)
    if bias is None:
        assert allowed is not None
        bias = torch.zeros(allowed.shape, dtype=dtype, device=device)
    bias = bias.to(dtype)
    return bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))


def bias_dtype(workload: Workload) -> "torch.dtype":
    """The type in which the call sees the mask's bias: the tensor's, or float32 where the kernel computes it."""
    import torch

    form = mask_of(workload).resolve_form(workload)
    builds_mask = find(workload.backend, BACKENDS, field="backend").builds_mask
    if builds_mask or form is MaskForm.ADDITIVE_FLOAT32:
        # A float64 kernel computes in float64.
        return torch.promote_types(torch.float32, getattr(torch, workload.dtype)) if builds_mask else torch.float32
    dtype: torch.dtype = getattr(torch, workload.dtype)
    return dtype


def allowed_rows(workload: Workload, device: str, batches: slice, rows: slice) -> "torch.Tensor | None":
    """``build_allowed`` for some batch entries and query rows."""
    mask = mask_of(workload)
    mask_mod = mask.build_mod(workload)
    if mask_mod is None:
        return None
    allowed: torch.Tensor = mask_mod(*_indices(workload, device, batches, rows))
    return allowed.expand(*_shape(workload, batches), rows.stop - rows.start, workload.seq_len_kv)


def bias_rows(workload: Workload, device: str, batches: slice, rows: slice) -> "torch.Tensor | None":
    """What the mask adds to the scores, float64, not yet rounded, as ``allowed_rows``; None where it adds nothing."""
    import torch

    bias_mod = mask_of(workload).build_bias(workload)
    if bias_mod is None:
        return None
    bias: torch.Tensor = bias_mod(*_indices(workload, device, batches, rows))
    return bias.to(torch.float64).expand(*_shape(workload, batches), rows.stop - rows.start, workload.seq_len_kv)


def _shape(workload: Workload, batches: slice) -> tuple[int, int]:
    mask = mask_of(workload)
    return (
        batches.stop - batches.start if mask.varies_by_batch else 1,
        workload.num_heads if mask.varies_by_head else 1,
    )


def _indices(workload: Workload, device: str, batches: slice, rows: slice) -> "tuple[torch.Tensor, ...]":
    """Batch, head, query and key index, each int64 of four dimensions, to broadcast against each other."""
    import torch

    batch_count, head_count = _shape(workload, batches)
    batch = torch.arange(batches.start, batches.start + batch_count, device=device)
    head = torch.arange(head_count, device=device)
    q_idx = torch.arange(rows.start, rows.stop, device=device)
    kv_idx = torch.arange(workload.seq_len_kv, device=device)
    return (
        batch[:, None, None, None],
        head[None, :, None, None],
        q_idx[None, None, :, None],
        kv_idx[None, None, None, :],
    )


class Named(Protocol):
    """Inputs of any call."""

    @property
    def named(self) -> "dict[str, torch.Tensor]": ...


def fingerprint(inputs: Named) -> dict[str, int]:
    """Tensor name to the exact sum of its elements' bit patterns, equal on every device for equal bits."""
    import torch

    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return {
        name: int(tensor.detach().contiguous().view(integers[tensor.element_size()]).sum(dtype=torch.int64))
        for name, tensor in inputs.named.items()
    }
