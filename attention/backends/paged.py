"""Decoding one token a sequence over a cache of 16-token blocks: gathered first, paged FlexAttention, or one kernel.

All three read the same block table. The cache is filled from key and value before the call, which reads the query, the
cache and the table alone.
Source: Kwon et al., 2023 (arXiv:2309.06180); torch.nn.attention.experimental._paged_attention.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from attention.backends.backend import Backend
from attention.backends.compiled import fresh_compiler
from attention.backends.paged_rules import FLEX_QUERY_BLOCK, check_flex, check_gather, check_triton
from attention.paging import (
    BLOCK_SIZE,
    TABLE_ITEMSIZE,
    BlockTable,
    Paging,
    build_block_table,
    cache_bytes,
    choose_decode_config,
    count_blocks,
    dot_rows,
    gathered_bytes,
    measure_paging,
    sequence_lengths,
    widest_row,
)
from attention.workload import Workload

if TYPE_CHECKING:
    import torch

    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

_INT64 = 8
# PagedAttention keeps two int64 tables of [sequences, all blocks]; its BlockMask six int32 ones: indices of partial and
# of full blocks, and the same seen from the keys, indices and counts.
_FLEX_ENTRY_BYTES = 2 * 8 + 6 * 4

# Every CUDA device grants a block this much without asking. Source: CUDA C++ Programming Guide, compute capabilities.
_LEAST_SHARED_MEMORY = 48 * 2**10


def fill_cache(tensor: "torch.Tensor", table: BlockTable) -> "torch.Tensor":
    """Key or value ``[batch_size, kv_heads, seq_len_kv, dim]`` as blocks ``[blocks, kv_heads, 16, dim]``.

    Each (block, head) is one contiguous piece; slots that hold no token are 0.
    """
    import torch
    from torch.nn.functional import pad

    cache = tensor.new_zeros((table.blocks, tensor.shape[1], BLOCK_SIZE, tensor.shape[3]))
    for sequence, (row, length) in enumerate(zip(table.rows, table.lengths, strict=True)):
        if row:
            tokens = pad(tensor[sequence, :, :length], (0, 0, 0, len(row) * BLOCK_SIZE - length))
            blocks = tokens.unflatten(1, (len(row), BLOCK_SIZE)).transpose(0, 1)
            cache[torch.tensor(row, device=tensor.device)] = blocks
    return cache


def build_table_tensor(table: BlockTable, device: "torch.device") -> "torch.Tensor":
    """int32 ``[sequences, blocks of the longest sequence]``; entries behind a sequence's last block are 0."""
    import torch

    rows = [row + (0,) * (table.widest - len(row)) for row in table.rows]
    return torch.tensor(rows, dtype=torch.int32).to(device)


@contextmanager
def _build_gather(workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    table, device = build_block_table(workload), inputs.query.device
    heads = inputs.key.shape[1]
    # One row a (block, head), and where the rows of each (sequence, head) lie: the copies need no transposition.
    keys, values = (fill_cache(tensor, table).flatten(2).flatten(0, 1) for tensor in (inputs.key, inputs.value))
    by_head = build_table_tensor(table, device).long()[:, None] * heads + torch.arange(heads, device=device)[:, None]
    rows = by_head.flatten()
    shape = (workload.batch_size, heads, table.widest * BLOCK_SIZE)
    longest = max(table.lengths)
    options: dict[str, Any] = {"scale": workload.scale, "enable_gqa": heads != workload.num_heads}
    if _is_ragged(workload):
        lengths = torch.tensor(table.lengths, device=device)
        options["attn_mask"] = (torch.arange(shape[2], device=device) < lengths[:, None])[:, None, None]
        longest = shape[2]

    def call() -> "torch.Tensor":
        key = keys.index_select(0, rows).view(*shape, workload.head_dim)
        value = values.index_select(0, rows).view(*shape, workload.value_dim)
        return scaled_dot_product_attention(inputs.query, key[:, :, :longest], value[:, :, :longest], **options)

    yield call


def _is_ragged(workload: Workload) -> bool:
    return len(set(sequence_lengths(workload))) > 1


@contextmanager
def _build_flex(workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    import torch
    from torch.nn.attention.experimental._paged_attention import PagedAttention

    table, device = build_block_table(workload), inputs.query.device
    paged = PagedAttention(table.blocks, BLOCK_SIZE, workload.batch_size, device=str(device))
    # It hands blocks out from the end of this list, sequence by sequence.
    paged.empty_pages = [block for row in reversed(table.rows) for block in row]
    key_cache, value_cache = (
        tensor.new_zeros((1, tensor.shape[1], table.blocks * BLOCK_SIZE, tensor.shape[3]))
        for tensor in (inputs.key, inputs.value)
    )
    for sequence, length in enumerate(table.lengths):
        if length:
            entry = torch.tensor([sequence], device=device)
            paged.reserve(entry, torch.tensor([length], device=device))
            tokens = (inputs.key[sequence, None, :, :length], inputs.value[sequence, None, :, :length])
            paged.assign(entry, torch.arange(length, device=device)[None], *tokens, key_cache, value_cache)
    lengths = torch.tensor(table.lengths, dtype=torch.int32, device=device)
    block_mask = paged.convert_logical_block_mask(_logical_block_mask(lengths, table.widest), kv_len=lengths)
    with fresh_compiler():
        # torch gives it overloads, which partial cannot be typed with.
        from torch.nn.attention import flex_attention as flex

        attention: Any = flex.flex_attention
        yield partial(
            torch.compile(attention),
            inputs.query,
            key_cache,
            value_cache,
            block_mask=block_mask,
            scale=workload.scale,
            enable_gqa=inputs.key.shape[1] != workload.num_heads,
        )


def _logical_block_mask(lengths: "torch.Tensor", widest: int) -> Any:
    """Whole blocks of each sequence as such, its last block as partial where the tokens do not fill it.

    Counted, since a search would look at a dense mask of every sequence and key.
    """
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    whole = torch.div(lengths, BLOCK_SIZE, rounding_mode="floor")[:, None, None]
    every = torch.arange(widest, dtype=torch.int32, device=lengths.device).expand(len(lengths), 1, 1, widest)
    last = torch.zeros_like(every)
    last[..., 0] = whole.clamp(max=widest - 1)
    return BlockMask.from_kv_blocks(
        (lengths % BLOCK_SIZE > 0).to(torch.int32)[:, None, None],
        last,
        whole,
        every.contiguous(),
        BLOCK_SIZE=(FLEX_QUERY_BLOCK, BLOCK_SIZE),
        seq_lengths=(1, widest * BLOCK_SIZE),
    )


@contextmanager
def _build_triton(workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    import torch

    try:
        from attention.backends.paged_kernel import paged_decode
    except ImportError as error:
        # The words in which Inductor refuses for the same reason.
        raise RuntimeError(f"Cannot find a working triton installation: {error}") from error
    table, device = build_block_table(workload), inputs.query.device
    heads = inputs.key.shape[1]
    properties = torch.cuda.get_device_properties(device)
    config = choose_decode_config(
        programs=workload.batch_size * heads * -(-workload.num_heads // heads // dot_rows(workload.num_heads // heads)),
        longest=max(table.lengths),
        token_bytes=(workload.head_dim + workload.value_dim) * workload.dtype.itemsize,
        sm_count=properties.multi_processor_count,
        shared_memory_bytes=getattr(properties, "shared_memory_per_block_optin", _LEAST_SHARED_MEMORY),
    )
    yield partial(
        paged_decode,
        inputs.query,
        fill_cache(inputs.key, table),
        fill_cache(inputs.value, table),
        build_table_tensor(table, device),
        torch.tensor(table.lengths, dtype=torch.int32, device=device),
        workload.softmax_scale,
        config,
    )


def _gather_table_bytes(workload: Workload) -> int:
    entries = workload.batch_size * workload.presented_kv_heads * widest_row(workload)
    mask = workload.batch_size * widest_row(workload) * BLOCK_SIZE if _is_ragged(workload) else 0
    return entries * _INT64 + mask


def _flex_table_bytes(workload: Workload) -> int:
    # Besides the tables one int64 capacity, one int32 length and two int32 counts of blocks a sequence.
    return workload.batch_size * (count_blocks(workload) * _FLEX_ENTRY_BYTES + _INT64 + 3 * 4)


def _kernel_table_bytes(workload: Workload) -> int:
    return workload.batch_size * (widest_row(workload) + 1) * TABLE_ITEMSIZE


def _measure(count_table_bytes: Callable[[Workload], int], copies: bool, workload: Workload) -> Paging:
    extra = 2 * gathered_bytes(workload) if copies else 0  # written, and read again
    return measure_paging(workload, table_bytes=count_table_bytes(workload), gather_extra_bytes=extra)


PAGED_GATHER = Backend(
    slug="paged_gather",
    title="paged decode: blocks gathered, then SDPA",
    source="torch.Tensor.index_select and torch.nn.functional.scaled_dot_product_attention",
    families=("paged_gather",),
    check=check_gather,
    build=_build_gather,
    builds_mask=True,
    measure_paging=partial(_measure, _gather_table_bytes, True),
    held_bytes=lambda workload: cache_bytes(workload) + _gather_table_bytes(workload) + gathered_bytes(workload),
)
PAGED_FLEX = Backend(
    slug="paged_flex",
    title="paged decode: FlexAttention over pages",
    source="torch.nn.attention.experimental._paged_attention.PagedAttention",
    families=("flex",),
    check=check_flex,
    build=_build_flex,
    builds_mask=True,
    compile_mode="default",
    measure_paging=partial(_measure, _flex_table_bytes, False),
    held_bytes=lambda workload: cache_bytes(workload) + _flex_table_bytes(workload),
)
PAGED_TRITON = Backend(
    slug="paged_triton",
    title="paged decode: one Triton kernel",
    source="attention.backends.paged_kernel, in the manner of vLLM's Triton backend",
    families=("paged_triton",),
    check=check_triton,
    build=_build_triton,
    builds_mask=True,
    measure_paging=partial(_measure, _kernel_table_bytes, False),
    held_bytes=lambda workload: cache_bytes(workload) + _kernel_table_bytes(workload),
)
