"""Seeded query, key and value, and the mask in the form that the call receives."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attention.backends import BACKENDS
from attention.lookup import find
from attention.masks import mask_of
from attention.workload import MaskForm, Workload

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Tensors of one workload on one device.

    ``query`` is ``[batch_size, num_heads, seq_len_q, head_dim]``, ``key`` ``[batch_size, kv_heads, seq_len_kv,
    head_dim]``, ``value`` ``[batch_size, kv_heads, seq_len_kv, value_dim]``.
    At most one of the mask's forms is set: ``is_causal``; ``allowed``, bool ``[1, 1, seq_len_q, seq_len_kv]``,
    True where a query may attend; ``bias``, same shape in the query's dtype, 0 or -inf, added to the scores.
    """

    query: "torch.Tensor"
    key: "torch.Tensor"
    value: "torch.Tensor"
    is_causal: bool = False
    allowed: "torch.Tensor | None" = None
    bias: "torch.Tensor | None" = None

    @property
    def attn_mask(self) -> "torch.Tensor | None":
        """The mask tensor in scaled_dot_product_attention's own convention."""
        return self.allowed if self.bias is None else self.bias

    @property
    def total_bytes(self) -> int:
        """Bytes of every tensor here, the mask included."""
        tensors = (self.query, self.key, self.value, self.allowed, self.bias)
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)

    def first_batch_entry(self) -> "Inputs":
        """The same inputs cut to batch_size 1, as views: every other fact that eligibility depends on is kept."""
        return Inputs(
            query=self.query[:1],
            key=self.key[:1],
            value=self.value[:1],
            is_causal=self.is_causal,
            allowed=self.allowed,
            bias=self.bias,
        )


Tensors = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]


def draw_tensors(workload: Workload, device: str) -> "Tensors":
    """Query, key and value from the seed, the same for every device and backend.

    The numbers are drawn in float32 on the CPU, since a GPU's generator depends on its model, then rounded to
    the workload's dtype. Order: query, key, value.
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
    return query, key, value


def build_inputs(workload: Workload, device: str, tensors: "Tensors | None" = None) -> Inputs:
    """Inputs with the mask as this backend receives it; ``tensors`` reuses what ``draw_tensors`` gave."""
    query, key, value = draw_tensors(workload, device) if tensors is None else tensors
    form = mask_of(workload).resolve_form(workload)
    if form is None:
        return Inputs(query=query, key=key, value=value)
    if form is MaskForm.ADDITIVE:
        return Inputs(query=query, key=key, value=value, bias=build_bias(workload, device))
    if form is MaskForm.BOOL or find(workload.backend, BACKENDS, field="backend").takes_dense_mask:
        return Inputs(query=query, key=key, value=value, allowed=build_allowed(workload, device))
    return Inputs(query=query, key=key, value=value, is_causal=True)


def build_allowed(workload: Workload, device: str) -> "torch.Tensor | None":
    """Bool ``[1, 1, seq_len_q, seq_len_kv]``, True where a query may attend; None where every pair is allowed."""
    return allowed_rows(workload, device, 0, workload.seq_len_q)


def allowed_rows(workload: Workload, device: str, start: int, stop: int) -> "torch.Tensor | None":
    """Rows ``start`` to ``stop`` of ``build_allowed``: ``[1, 1, stop - start, seq_len_kv]``."""
    import torch

    mask_mod = mask_of(workload).build_mod(workload)
    if mask_mod is None:
        return None
    q_idx = torch.arange(start, stop, device=device)[:, None]
    kv_idx = torch.arange(workload.seq_len_kv, device=device)[None, :]
    zero = torch.zeros((), dtype=torch.int64, device=device)
    allowed: torch.Tensor = mask_mod(zero, zero, q_idx, kv_idx)
    return allowed[None, None]


def build_bias(workload: Workload, device: str) -> "torch.Tensor | None":
    """0 where a query may attend and -inf elsewhere, in the query's dtype; None where every pair is allowed."""
    import torch

    allowed = build_allowed(workload, device)
    if allowed is None:
        return None
    bias = torch.zeros(allowed.shape, dtype=getattr(torch, workload.dtype), device=device)
    return bias.masked_fill_(~allowed, float("-inf"))


def fingerprint(inputs: Inputs) -> dict[str, int]:
    """Tensor name to the exact sum of its elements' bit patterns, equal on every device for equal bits."""
    import torch

    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    tensors = {"query": inputs.query, "key": inputs.key, "value": inputs.value}
    return {
        name: int(tensor.contiguous().view(integers[tensor.element_size()]).sum(dtype=torch.int64))
        for name, tensor in tensors.items()
    }
