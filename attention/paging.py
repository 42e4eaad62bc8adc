"""The key/value cache of decoding in blocks of 16 tokens: which physical block holds which tokens, as plain data.

Each sequence has as many blocks as its length needs. A seeded permutation hands the physical blocks out, so that
neighbours in a sequence are no neighbours in memory, as after a server has freed and reused its blocks for a while.
Source: Kwon et al., 2023 (arXiv:2309.06180), section 4.
"""

import random
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from attention.masks.padding import PADDING, entry_lengths
from attention.workload import Workload

BLOCK_SIZE = 16  # tokens; vLLM's default
TABLE_ITEMSIZE = 4  # int32

# What one loop step of the kernel loads of keys and values. With one step on its way, three programs on an H200's
# multiprocessor have 96 KiB in flight; 4.8 TB/s at a latency of some 800 ns ask for 30 KiB of each of the 132.
STEP_BYTES = 32 * 2**10
TOKENS_MOST = 128
# One less is the number of steps on their way. On an H200 (B64, 32 and 8 heads, D128, 8192 tokens, bfloat16, 64 tokens
# a step, 4 warps) 2 stages take 487 µs, 3 556 and 4 487; with 2 the most programs fit.
STAGES_MOST = 2
WARPS = 4
# Shared memory for the query rows, the weights and the softmax's reductions, above what Triton 3.8 used for them.
RESERVED_BYTES = 20 * 2**10
# Programs for each multiprocessor below which the keys are split: fewer leave some idle while the last ones run.
PROGRAMS_PER_SM = 3
# A split of fewer steps spends more on its start and on the reduction than it gains.
STEPS_PER_SPLIT_LEAST = 2
SPLITS_MOST = 128
# Rows of tl.dot's left side: 16 is the least that a tensor core takes, and more than 64 leave too few registers.
DOT_ROWS_LEAST, DOT_ROWS_MOST = 16, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """What a block table costs. Shares are 0-1; bytes are the device's."""

    block_size: int  # tokens
    sequences: int
    blocks: int
    table_bytes: int  # what the backend keeps to find the tokens: its form of the table, and the lengths or their mask
    cache_bytes: int  # keys and values, the empty slots of the last blocks included
    share_of_empty_slots: float  # internal fragmentation: slots of allocated blocks that hold no token
    share_of_scattered_blocks: float | None  # of consecutive logical blocks, not neighbours in memory; None: no two are
    gather_extra_bytes: int  # what one call writes as contiguous copies and reads again; 0 where it reads in place

    @property
    def kept_bytes(self) -> int:
        """What stays on the device between calls, beside the inputs."""
        return self.cache_bytes + self.table_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTable:
    """``rows[sequence]`` lists the sequence's physical blocks in the order of its tokens; ``lengths`` are tokens."""

    lengths: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def blocks(self) -> int:
        return sum(map(len, self.rows))

    @property
    def widest(self) -> int:
        """Blocks of the longest sequence."""
        return max(map(len, self.rows))


def sequence_lengths(workload: Workload) -> tuple[int, ...]:
    """Tokens of each sequence: what the padding mask says, else ``seq_len_kv``."""
    if workload.mask.name == PADDING.slug:
        return tuple(entry_lengths(workload))
    return (workload.seq_len_kv,) * workload.batch_size


def blocks_of(tokens: int) -> int:
    return -(-tokens // BLOCK_SIZE)


def count_blocks(workload: Workload) -> int:
    """Physical blocks of the whole cache, by formula."""
    return sum(map(blocks_of, sequence_lengths(workload)))


def widest_row(workload: Workload) -> int:
    """Blocks of the longest sequence, by formula."""
    return blocks_of(max(sequence_lengths(workload)))


def build_block_table(workload: Workload) -> BlockTable:
    """The table of the workload's lengths and seed: equal for every backend."""
    return _deal_blocks(sequence_lengths(workload), workload.seed)


@lru_cache(maxsize=1)  # the run that fills a cache by it also reports on it
def _deal_blocks(lengths: tuple[int, ...], seed: int) -> BlockTable:
    counts = [blocks_of(length) for length in lengths]
    physical = list(range(sum(counts)))
    random.Random(seed).shuffle(physical)
    rows, dealt = [], 0
    for count in counts:
        rows.append(tuple(physical[dealt : dealt + count]))
        dealt += count
    return BlockTable(lengths=lengths, rows=tuple(rows))


def token_bytes(workload: Workload) -> int:
    """Bytes of one token's key and value, all heads that the call receives."""
    return workload.presented_kv_heads * (workload.head_dim + workload.value_dim) * workload.dtype.itemsize


def cache_bytes(workload: Workload) -> int:
    return count_blocks(workload) * BLOCK_SIZE * token_bytes(workload)


def gathered_bytes(workload: Workload) -> int:
    """Contiguous copies of keys and values: each sequence as wide as the longest one."""
    return workload.batch_size * widest_row(workload) * BLOCK_SIZE * token_bytes(workload)


def measure_paging(workload: Workload, *, table_bytes: int, gather_extra_bytes: int) -> Paging:
    """The facts of the workload's table, counted from the table itself."""
    table = build_block_table(workload)
    slots = table.blocks * BLOCK_SIZE
    pairs = [pair for row in table.rows for pair in pairwise(row)]
    scattered = sum(after != before + 1 for before, after in pairs)
    return Paging(
        block_size=BLOCK_SIZE,
        sequences=len(table.rows),
        blocks=table.blocks,
        table_bytes=table_bytes,
        cache_bytes=cache_bytes(workload),
        share_of_empty_slots=1 - sum(table.lengths) / slots,
        share_of_scattered_blocks=scattered / len(pairs) if pairs else None,
        gather_extra_bytes=gather_extra_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """How the Triton kernel is launched: tokens of one loop step, and programs that share the keys of one head."""

    tokens_per_step: int
    num_warps: int
    num_stages: int
    splits: int


def dot_rows(group: int) -> int:
    """Query heads of one program, padded to what ``tl.dot`` takes, for ``group`` query heads a key/value head."""
    return min(max(_power_of_two_from(group), DOT_ROWS_LEAST), DOT_ROWS_MOST)


def choose_decode_config(
    *, programs: int, longest: int, token_bytes: int, sm_count: int, shared_memory_bytes: int
) -> DecodeConfig:
    """The launch for ``programs`` (sequence, key/value head, tile of query rows) triples without a split.

    ``longest``: tokens of the longest sequence. ``token_bytes``: one token's key and value of one head.
    ``shared_memory_bytes``: what one program may use at most.
    """
    tokens = TOKENS_MOST
    while tokens > BLOCK_SIZE and tokens * token_bytes > STEP_BYTES:
        tokens //= 2
    in_flight = max(0, shared_memory_bytes - RESERVED_BYTES) // (tokens * token_bytes)
    stages = min(STAGES_MOST, 1 + in_flight)
    steps = -(-longest // tokens)
    splits = min(-(-PROGRAMS_PER_SM * sm_count // programs), SPLITS_MOST, max(1, steps // STEPS_PER_SPLIT_LEAST))
    return DecodeConfig(
        tokens_per_step=tokens, num_warps=WARPS, num_stages=stages, splits=_even_splits(steps, max(1, splits))
    )


def _even_splits(steps: int, splits: int) -> int:
    """As many splits as are not empty when each takes the same whole number of steps."""
    return -(-steps // -(-steps // splits))


def _power_of_two_from(number: int) -> int:
    return 1 << (number - 1).bit_length()
