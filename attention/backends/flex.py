"""FlexAttention: the mask's predicate as a block mask and its bias as a score_mod, compiled into one kernel, or eager.

The eager form computes the whole score matrix operator by operator and is PyTorch's reference for the compiled one.
Source: torch.nn.attention.flex_attention.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from attention.backends.backend import Backend
from attention.backends.compiled import compiler_refusals, decide_compiled, fresh_compiler
from attention.backends.decision import Decision, DeviceFacts
from attention.masks import mask_of
from attention.workload import Direction, DType, Workload

if TYPE_CHECKING:
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

_TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
# The template multiplies with tl.dot. Source: torch/_inductor/kernel/flex/flex_attention.py.
_LEAST_HEAD_DIM = 16
# A block mask is found from a dense bool mask of this many elements at most; for larger ones the search is compiled,
# which keeps the dense mask out of memory.
_DENSE_SEARCH_MOST = 2**28


def _check(workload: Workload, device: DeviceFacts) -> Decision:
    reasons = compiler_refusals(workload, device)
    if workload.dtype not in _TYPES:
        reasons.append(f"takes {', '.join(_TYPES[:-1])} or {_TYPES[-1]}, this is {workload.dtype}")
    smallest = min(workload.head_dim, workload.value_dim)
    if device.kind == "cuda" and smallest < _LEAST_HEAD_DIM:
        reasons.append(f"takes head_dim from {_LEAST_HEAD_DIM} on, this is {smallest}")
    return decide_compiled("flex", reasons + _backward_refusals(workload, device), device)


def _check_eager(workload: Workload, device: DeviceFacts) -> Decision:
    reasons = _backward_refusals(workload, device)
    if reasons:
        return Decision(backend="flex_eager", verdict="rejected", reason="; ".join(reasons))
    reason = "plain operators take every dtype, shape and mask; reference only"
    return Decision(backend="flex_eager", verdict="accepted", reason=reason)


def _backward_refusals(workload: Workload, device: DeviceFacts) -> list[str]:
    if device.kind == "cuda" or workload.direction is Direction.FORWARD:
        return []
    return [f"takes no backward pass on a {device.kind}, this is {workload.direction}"]


def build_block_mask(workload: Workload, device: "torch.device") -> "BlockMask":
    """Which blocks of the score matrix are computed, and which of them cell by cell.

    Without a mask every block is whole; said once here, or each call would find it out again.
    """
    from torch.nn.attention.flex_attention import create_block_mask, noop_mask

    mask = mask_of(workload)
    search: Any = create_block_mask
    if workload.seq_len_q * workload.seq_len_kv > _DENSE_SEARCH_MOST:
        import torch

        search = torch.compile(create_block_mask)
    found: BlockMask = search(
        mask.build_mod(workload) or noop_mask,
        workload.batch_size if mask.varies_by_batch else None,
        workload.num_heads if mask.varies_by_head else None,
        workload.seq_len_q,
        workload.seq_len_kv,
        device=device,
    )
    return found


def build_score_mod(workload: Workload) -> Callable[..., Any] | None:
    """score_mod(score, batch, head, q_idx, kv_idx) -> the score with the mask's bias, or None where it has none."""
    bias_mod = mask_of(workload).build_bias(workload)
    if bias_mod is None:
        return None

    def add_bias(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score + bias_mod(batch, head, q_idx, kv_idx)

    return add_bias


@contextmanager
def _build(is_compiled: bool, workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    import torch

    with fresh_compiler():
        # torch gives it overloads, which neither its own decorator nor partial can be typed with.
        from torch.nn.attention import flex_attention as flex

        attention: Any = flex.flex_attention
        yield partial(
            torch.compile(attention) if is_compiled else attention,
            inputs.query,
            inputs.key,
            inputs.value,
            score_mod=build_score_mod(workload),
            block_mask=build_block_mask(workload, inputs.query.device),
            scale=workload.scale,
            enable_gqa=workload.presented_kv_heads != workload.num_heads,
        )


FLEX = Backend(
    slug="flex",
    title="FlexAttention under torch.compile",
    source="torch.nn.attention.flex_attention.flex_attention, create_block_mask",
    families=("flex",),
    check=_check,
    build=partial(_build, True),
    builds_mask=True,
    compile_mode="default",
)
FLEX_EAGER = Backend(
    slug="flex_eager",
    title="FlexAttention, not compiled: reference only",
    source="torch.nn.attention.flex_attention.flex_attention without torch.compile",
    families=("flex_eager",),
    check=_check_eager,
    build=partial(_build, False),
    builds_mask=True,
    score_matrices=4,  # 3.3 of them on a CPU, 3.6 with a bias
    score_itemsize=4,
    # Dynamo traces it and runs its operators one by one: no code is generated.
    compile_mode="eager: traced, no code generated",
)
