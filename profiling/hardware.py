"""Theoretical occupancy of a kernel launch from its resources and the device's limits."""

import math
from dataclasses import dataclass

from profiling.trace.events import DeviceProperties

# Resident blocks an SM. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_MAX_BLOCKS_PER_SM = {
    (5, 0): 32,
    (5, 2): 32,
    (5, 3): 32,
    (6, 0): 32,
    (6, 1): 32,
    (6, 2): 32,
    (7, 0): 32,
    (7, 2): 32,
    (7, 5): 16,
    (8, 0): 32,
    (8, 6): 16,
    (8, 7): 16,
    (8, 9): 24,
    (9, 0): 32,
    (10, 0): 32,
    (10, 3): 32,
    (11, 0): 24,
    (12, 0): 24,
    (12, 1): 24,
}
# Source: NVIDIA's cuda_occupancy.h, allocation granularities: registers are given out to whole warps in units of 256,
# each quarter of an SM from its own quarter of the register file (half on 6.0).
_REGISTER_ALLOCATION = 256
_THREADS_PER_WARP = 32
# Source: CUDA C++ Programming Guide, shared memory of compute capability 8.x and later: 1 KiB of each block's
# share is kept for the system.
_RESERVED_SHARED_MEMORY_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Resident warps over the SM's limit, 0-1, the blocks that stands for, and which resources stop one more.

    ``limiter`` is of threads, registers, shared memory, blocks; several are joined by "and".
    """

    share: float
    blocks_per_sm: int
    limiter: str


def estimate_occupancy(
    *,
    registers_per_thread: int | None,
    shared_memory_bytes: int | None,
    block: tuple[int, int, int] | None,
    properties: DeviceProperties,
) -> Occupancy | None:
    """Theoretical occupancy of one launch; None when a fact is missing or the launch could not run on this device.

    ``shared_memory_bytes`` is static plus dynamic, as traces write it. The grid is not looked at: a launch with fewer
    blocks than the device can hold reaches less.

    Source: NVIDIA's cuda_occupancy.h (the CUDA Occupancy Calculator).
    """
    capability = properties.compute_capability
    max_threads = properties.max_threads_per_sm
    registers = properties.registers_per_sm
    shared_memory = properties.shared_memory_per_sm_bytes
    if block is None or registers_per_thread is None or shared_memory_bytes is None or capability is None:
        return None
    if max_threads is None or registers is None or shared_memory is None:
        return None
    # An AMD device also writes a "compute capability", of another meaning; its wavefronts have 64 threads.
    if capability not in _MAX_BLOCKS_PER_SM or properties.warp_size != _THREADS_PER_WARP:
        return None
    optin = properties.shared_memory_per_block_optin_bytes
    threads = math.prod(block)
    if threads < 1 or registers_per_thread < 0 or shared_memory_bytes < 0 or (optin and shared_memory_bytes > optin):
        return None
    warps = _round_up(threads, _THREADS_PER_WARP) // _THREADS_PER_WARP
    max_warps = max_threads // _THREADS_PER_WARP
    limits = {
        "threads": max_warps // warps,
        "registers": _blocks_by_registers(registers_per_thread, warps, registers, capability),
        "shared memory": _blocks_by_shared_memory(shared_memory_bytes, shared_memory, capability),
        "blocks": _MAX_BLOCKS_PER_SM[capability],
    }
    blocks = min(limits.values())
    if not blocks:
        return None
    share = blocks * warps / max_warps
    # With every warp resident nothing but threads is short, whatever else would stop a block that cannot come.
    limiter = "threads" if share == 1 else " and ".join(name for name, limit in limits.items() if limit == blocks)
    return Occupancy(share=share, blocks_per_sm=blocks, limiter=limiter)


def _blocks_by_registers(per_thread: int, warps: int, registers: int, capability: tuple[int, int]) -> int:
    if not per_thread:
        return _MAX_BLOCKS_PER_SM[capability]
    partitions = 2 if capability == (6, 0) else 4
    per_warp = _round_up(per_thread * _THREADS_PER_WARP, _REGISTER_ALLOCATION)
    return registers // partitions // per_warp * partitions // warps


def _blocks_by_shared_memory(used: int, shared_memory: int, capability: tuple[int, int]) -> int:
    modern = capability >= (8, 0)
    reserved = _RESERVED_SHARED_MEMORY_BYTES if modern else 0
    # Source: cuda_occupancy.h, shared memory granularity: 128 bytes from 8.0 on, 256 before.
    per_block = _round_up(used + reserved, 128 if modern else 256)
    return shared_memory // per_block if per_block else _MAX_BLOCKS_PER_SM[capability]


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
