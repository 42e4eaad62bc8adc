"""One decode step over a block table, as a Triton kernel of our own and an operator that traces name.

A program owns one sequence and one key/value head: it finds each token's block in the table, reads keys and values
once, and keeps an online softmax in float32. The query heads of a group are the rows of one product. Where sequences
and heads are too few for the device, programs share the keys and a second kernel joins their parts.
Imported inside a backend's build alone: it needs Triton.
Source: Milakov and Gimelshein, 2018 (arXiv:1805.02867), the softmax; Dao et al., 2023 (flash-decoding), the split.
"""

import math
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from attention.paging import BLOCK_SIZE, dot_rows

if TYPE_CHECKING:
    from attention.paging import DecodeConfig


@triton.jit
def paged_decode_kernel(  # type: ignore[no-untyped-def]  # pointers, or what Triton makes of Python's numbers
    query,
    key_cache,
    value_cache,
    block_table,
    lengths,
    output,
    parts,
    part_logsumexp,
    scale_log2,
    query_batch_stride,
    query_head_stride,
    table_stride,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    IS_SPLIT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Grid: (batch_size × kv_heads, splits, tiles of query rows). Scores are in base 2: ``scale_log2`` has log2(e)."""
    batch = (tl.program_id(0) // KV_HEADS).to(tl.int64)
    kv_head = tl.program_id(0) % KV_HEADS
    split = tl.program_id(1)
    in_group = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    heads = kv_head * GROUP + in_group
    is_row = in_group < GROUP
    dims = tl.arange(0, HEAD_DIM)
    value_dims = tl.arange(0, VALUE_DIM)
    tokens = tl.arange(0, TOKENS)
    slots = tokens % BLOCK

    rows = tl.load(
        query + batch * query_batch_stride + heads[:, None] * query_head_stride + dims[None, :],
        mask=is_row[:, None],
        other=0.0,
    )
    length = tl.load(lengths + batch)
    steps = tl.cdiv(length, TOKENS)
    per_split = tl.cdiv(steps, tl.num_programs(1)) * TOKENS
    first = split * per_split
    end = tl.minimum(first + per_split, length)
    table_row = block_table + batch * table_stride
    # Within a block the tokens of one head lie one after the other.
    key_head = key_cache + kv_head * (BLOCK * HEAD_DIM)
    value_head = value_cache + kv_head * (BLOCK * VALUE_DIM)

    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, VALUE_DIM], tl.float32)
    # Each step finds the next one's blocks: keys and values can be fetched ahead without waiting for the table.
    blocks = tl.load(table_row + (first + tokens) // BLOCK, mask=first + tokens < end, other=0).to(tl.int64)
    for start in range(first, end, TOKENS):
        positions = start + tokens
        is_token = positions < end
        ahead = positions + TOKENS
        next_blocks = tl.load(table_row + ahead // BLOCK, mask=ahead < end, other=0).to(tl.int64)
        key_offsets = blocks * (KV_HEADS * BLOCK * HEAD_DIM) + slots * HEAD_DIM
        keys = tl.load(key_head + key_offsets[None, :] + dims[:, None], mask=is_token[None, :], other=0.0)
        scores = tl.dot(rows, keys, input_precision=PRECISION) * scale_log2
        scores = tl.where(is_token[None, :], scores, float("-inf"))
        # A step has one token at least, so that the maximum is finite from the first step on.
        raised = tl.maximum(largest, tl.max(scores, 1))
        shrink = tl.exp2(largest - raised)
        weights = tl.exp2(scores - raised[:, None])
        total = total * shrink + tl.sum(weights, 1)
        value_offsets = blocks * (KV_HEADS * BLOCK * VALUE_DIM) + slots * VALUE_DIM
        values = tl.load(value_head + value_offsets[:, None] + value_dims[None, :], mask=is_token[:, None], other=0.0)
        sums = tl.dot(weights.to(values.dtype), values, sums * shrink[:, None], input_precision=PRECISION)
        largest = raised
        blocks = next_blocks

    # An empty sequence attends to nothing: zeros, as scaled_dot_product_attention gives.
    result = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    row = batch * (KV_HEADS * GROUP) + heads
    if IS_SPLIT:
        row += split.to(tl.int64) * (tl.num_programs(0) * GROUP)
        tl.store(part_logsumexp + row, largest + tl.log2(total), mask=is_row)
        tl.store(parts + row[:, None] * VALUE_DIM + value_dims[None, :], result, mask=is_row[:, None])
    else:
        target = output + row[:, None] * VALUE_DIM + value_dims[None, :]
        tl.store(target, result.to(output.dtype.element_ty), mask=is_row[:, None])


@triton.jit
def paged_decode_reduce_kernel(  # type: ignore[no-untyped-def]  # as above
    parts, part_logsumexp, output, splits, VALUE_DIM: tl.constexpr, SPLITS: tl.constexpr
):
    """Grid: (batch_size × num_heads). ``SPLITS`` is ``splits`` rounded up to a power of two."""
    row = tl.program_id(0).to(tl.int64)
    row_count = tl.num_programs(0)
    index = tl.arange(0, SPLITS)
    value_dims = tl.arange(0, VALUE_DIM)
    part_row = index.to(tl.int64) * row_count + row
    is_part = index < splits
    logsumexp = tl.load(part_logsumexp + part_row, mask=is_part, other=float("-inf"))
    largest = tl.max(logsumexp, 0)
    weights = tl.exp2(logsumexp - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(weights, 0)
    values = tl.load(parts + part_row[:, None] * VALUE_DIM + value_dims[None, :], mask=is_part[:, None], other=0.0)
    result = tl.sum(values * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(output + row * VALUE_DIM + value_dims, result.to(output.dtype.element_ty))


def _launch(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    tokens_per_step: int,
    num_warps: int,
    num_stages: int,
    splits: int,
) -> torch.Tensor:
    batch_size, num_heads, _, head_dim = query.shape
    kv_heads, value_dim = value_cache.shape[1], value_cache.shape[3]
    group = num_heads // kv_heads
    rows = dot_rows(group)
    output = query.new_empty((batch_size, num_heads, 1, value_dim))
    is_split = splits > 1
    # One row for each (split, sequence, head), normalised by the split's own sum.
    parts = query.new_empty((splits, batch_size, num_heads, value_dim), dtype=torch.float32) if is_split else output
    logsumexp = query.new_empty((splits, batch_size, num_heads), dtype=torch.float32) if is_split else output
    paged_decode_kernel[(batch_size * kv_heads, splits, triton.cdiv(group, rows))](
        query,
        key_cache,
        value_cache,
        block_table,
        lengths,
        output,
        parts,
        logsumexp,
        scale * math.log2(math.e),
        query.stride(0),
        query.stride(1),
        block_table.stride(0),
        KV_HEADS=kv_heads,
        GROUP=group,
        ROWS=rows,
        HEAD_DIM=head_dim,
        VALUE_DIM=value_dim,
        TOKENS=tokens_per_step,
        BLOCK=BLOCK_SIZE,
        IS_SPLIT=is_split,
        # float32 is multiplied as such: TF32 would lose more than the dtype explains.
        PRECISION="ieee",
        num_warps=num_warps,
        num_stages=num_stages,
    )
    if is_split:
        paged_decode_reduce_kernel[(batch_size * num_heads,)](
            parts, logsumexp, output, splits, VALUE_DIM=value_dim, SPLITS=triton.next_power_of_2(splits)
        )
    return output


# A kernel launched from Python has no operator of its own; through the dispatcher it has one that a trace names.
_LIBRARY = torch.library.Library("attnscope", "FRAGMENT")
_LIBRARY.define(
    "paged_decode(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor lengths, float scale, "
    "int tokens_per_step, int num_warps, int num_stages, int splits) -> Tensor"
)
# The CPU serves Triton's interpreter alone.
for _device in ("CUDA", "CPU"):
    _LIBRARY.impl("paged_decode", _launch, _device)


def paged_decode(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    config: "DecodeConfig",
) -> torch.Tensor:
    """The output ``[batch_size, num_heads, 1, value_dim]`` in the query's dtype.

    ``query`` is ``[batch_size, num_heads, 1, head_dim]``, dense in its last dimension; ``key_cache`` ``[blocks,
    kv_heads, 16, head_dim]`` and ``value_cache`` ``[blocks, kv_heads, 16, value_dim]``, contiguous; ``block_table``
    int32 ``[batch_size, blocks of the longest sequence]``; ``lengths`` int32 ``[batch_size]``, in tokens.
    """
    return torch.ops.attnscope.paged_decode(
        query,
        key_cache,
        value_cache,
        block_table,
        lengths,
        scale,
        config.tokens_per_step,
        config.num_warps,
        config.num_stages,
        config.splits,
    )
