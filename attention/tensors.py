"""The tensors of one attention call, as a backend receives them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Tensors of one workload on one device.

    ``query`` is ``[batch_size, num_heads, seq_len_q, head_dim]``, ``key`` ``[batch_size, kv_heads, seq_len_kv,
    head_dim]``, ``value`` ``[batch_size, kv_heads, seq_len_kv, value_dim]``; with layout expanded_kv key and value
    have ``num_heads`` heads. Strides are the layout's.
    At most one of the mask's forms is set: ``is_causal``; ``allowed``, bool ``[batch_size or 1, num_heads or 1,
    seq_len_q, seq_len_kv]``, True where a query may attend; ``bias``, same shape, in the query's dtype or float32,
    added to the scores, -inf where a query may not attend. None is set for a backend that builds the mask itself.
    ``grad_output``, shaped as the output, is there with direction forward_backward alone; then query, key and value
    require gradients.
    """

    query: "torch.Tensor"
    key: "torch.Tensor"
    value: "torch.Tensor"
    is_causal: bool = False
    allowed: "torch.Tensor | None" = None
    bias: "torch.Tensor | None" = None
    grad_output: "torch.Tensor | None" = None

    @property
    def attn_mask(self) -> "torch.Tensor | None":
        """The mask tensor in scaled_dot_product_attention's own convention."""
        return self.allowed if self.bias is None else self.bias

    @property
    def named(self) -> "dict[str, torch.Tensor]":
        """The tensors that identify the inputs."""
        return {"query": self.query, "key": self.key, "value": self.value}

    @property
    def total_bytes(self) -> int:
        """Bytes of every storage here, the mask included; a view of stride 0 takes no more than its storage."""
        tensors = (self.query, self.key, self.value, self.allowed, self.bias, self.grad_output)
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors if tensor is not None)

    def first_batch_entry(self) -> "Inputs":
        """The same inputs cut to batch_size 1, as views: every other fact that eligibility depends on is kept."""
        return replace(
            self,
            query=self.query[:1],
            key=self.key[:1],
            value=self.value[:1],
            allowed=None if self.allowed is None else self.allowed[:1],
            bias=None if self.bias is None else self.bias[:1],
            grad_output=None if self.grad_output is None else self.grad_output[:1],
        )
