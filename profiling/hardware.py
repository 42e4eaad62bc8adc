"""Theoretical occupancy of a kernel launch from its resources and the device's limits, and the profiler's false 0 %."""

import math
from dataclasses import dataclass

from profiling.format import format_bytes
from profiling.trace.events import DeviceProperties

# Resident blocks an SM. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
# Left out: 5.x and 6.2, where NVIDIA's spreadsheet and header disagree on what a block may take.
_MAX_BLOCKS_PER_SM = {
    (6, 0): 32,
    (6, 1): 32,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NotComputed:
    """Why there is no theoretical occupancy of a launch."""

    reason: str


def estimate_occupancy(
    *,
    registers_per_thread: int | None,
    shared_memory_bytes: int | None,
    block: tuple[int, int, int] | None,
    properties: DeviceProperties | None,
) -> Occupancy | NotComputed:
    """Theoretical occupancy of one launch, or why it is not known.

    ``shared_memory_bytes`` is static plus dynamic, as traces write it. The grid is not looked at: a launch with fewer
    blocks than the device can hold reaches less. Neither are clusters: one whose blocks find no common place reaches
    less too.

    Source: NVIDIA's cuda_occupancy.h (the CUDA Occupancy Calculator).
    """
    if properties is None:
        return NotComputed(reason="the trace does not describe this device")
    if unknown := _why_not_this_device(properties):
        return NotComputed(reason=unknown)
    if block is None or registers_per_thread is None or shared_memory_bytes is None:
        return NotComputed(reason="the trace lacks this launch's block, registers or shared memory")
    capability, max_threads = properties.compute_capability, properties.max_threads_per_sm
    registers, shared_memory = properties.registers_per_sm, properties.shared_memory_per_sm_bytes
    if capability is None or max_threads is None or registers is None or shared_memory is None:
        return NotComputed(reason="the trace lacks the device's limits of threads, registers or shared memory")
    optin = properties.shared_memory_per_block_optin_bytes
    threads = math.prod(block)
    if threads < 1 or registers_per_thread < 0 or shared_memory_bytes < 0:
        return NotComputed(reason="the trace's launch has no threads, or resources below zero")
    if optin and shared_memory_bytes > optin:
        return NotComputed(
            reason=f"a block may take {optin:,} bytes of shared memory here, this one {shared_memory_bytes:,}"
        )
    warps = _round_up(threads, _THREADS_PER_WARP) // _THREADS_PER_WARP
    max_warps = max_threads // _THREADS_PER_WARP
    bounds = {
        "threads": max_warps // warps,
        "registers": _blocks_by_registers(registers_per_thread, warps, registers, capability),
        "shared memory": _blocks_by_shared_memory(shared_memory_bytes, shared_memory, capability),
        "blocks": _MAX_BLOCKS_PER_SM[capability],
    }
    limits = {name: bound for name, bound in bounds.items() if bound is not None}
    blocks = min(limits.values())
    stopping = " and ".join(name for name, limit in limits.items() if limit == blocks)
    if not blocks:
        return NotComputed(reason=f"no block of this launch fits an SM of this device, by {stopping}")
    share = blocks * warps / max_warps
    # With every warp resident nothing but threads is short, whatever else would stop a block that cannot come.
    return Occupancy(share=share, blocks_per_sm=blocks, limiter="threads" if share == 1 else stopping)


def _why_not_this_device(properties: DeviceProperties) -> str | None:
    # AMD writes a compute capability too, of another meaning, and its traces hold no registers: what bounds a compute
    # unit's wavefronts there are vector, scalar and accumulation registers. Source: AMD Instinct MI300 ISA guide.
    if properties.warp_size not in (None, _THREADS_PER_WARP) or "AMD" in properties.name:
        return "AMD's occupancy hangs on vector and accumulation registers, which a trace does not hold"
    capability = properties.compute_capability
    if capability is not None and capability not in _MAX_BLOCKS_PER_SM:
        return f"the limits of compute capability {capability[0]}.{capability[1]} are not known here"
    return None


def explain_artefact(
    *,
    occupancy_reported: float | None,
    shared_memory_bytes: int | None,
    properties: DeviceProperties | None,
) -> str | None:
    """Why a reported occupancy of 0 % is none; None: it is not 0, or may be true.

    The profiler's estimate divides by the default limit of a block, and finds no room for a kernel that opted in to
    more. At or below the limit a 0 may be true: a grid of one block fills almost nothing of a large device.
    Source: libkineto, CuptiActivity's occupancy by cudaOccMaxActiveBlocksPerMultiprocessor with the default limit.
    """
    default = properties.shared_memory_per_block_bytes if properties is not None else None
    if occupancy_reported != 0 or shared_memory_bytes is None or default is None or shared_memory_bytes <= default:
        return None
    return (
        f"the reported 0 % is an artefact: the profiler allows a block the default {format_bytes(default)} of shared "
        f"memory, and this one opted in to {format_bytes(shared_memory_bytes)}"
    )


def _blocks_by_registers(per_thread: int, warps: int, registers: int, capability: tuple[int, int]) -> int | None:
    if not per_thread:
        return None
    partitions = 2 if capability == (6, 0) else 4
    per_warp = _round_up(per_thread * _THREADS_PER_WARP, _REGISTER_ALLOCATION)
    # A launch is refused when its warps, filled up to all partitions, take more than a block may: all of an SM's.
    if per_warp * _round_up(warps, partitions) > registers:
        return 0
    return registers // partitions // per_warp * partitions // warps


def _blocks_by_shared_memory(used: int, shared_memory: int, capability: tuple[int, int]) -> int | None:
    modern = capability >= (8, 0)
    reserved = _RESERVED_SHARED_MEMORY_BYTES if modern else 0
    # Source: cuda_occupancy.h, shared memory granularity: 128 bytes from 8.0 on, 256 before.
    per_block = _round_up(used + reserved, 128 if modern else 256)
    return shared_memory // per_block if per_block else None


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
