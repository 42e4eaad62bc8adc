"""Occupancy against the CUDA Occupancy Calculator's rules, on devices given as data."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.hardware import Occupancy, estimate_occupancy
from profiling.trace.events import DeviceProperties

H200 = DeviceProperties(
    index=0,
    name="NVIDIA H200",
    compute_capability=(9, 0),
    sm_count=132,
    max_threads_per_sm=2048,
    registers_per_sm=65536,
    shared_memory_per_block_bytes=49152,
    shared_memory_per_block_optin_bytes=232448,
    shared_memory_per_sm_bytes=233472,
    warp_size=32,
    total_memory_bytes=150109880320,
)
# RTX 3090: 48 warps, 16 blocks, 100 KiB an SM.
GA102 = replace(
    H200,
    name="GA102",
    compute_capability=(8, 6),
    max_threads_per_sm=1536,
    shared_memory_per_block_optin_bytes=101376,
    shared_memory_per_sm_bytes=102400,
)


def occupancy(
    registers: int | None, shared: int | None, threads: int, properties: DeviceProperties = H200
) -> Occupancy | None:
    return estimate_occupancy(
        registers_per_thread=registers, shared_memory_bytes=shared, block=(threads, 1, 1), properties=properties
    )


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "properties", "expected"),
    [
        # flash: 255 registers round up to 8192 a warp, 4 warps a block: 2 blocks of the 65536.
        (255, 49152, 128, H200, (0.125, 2, "registers")),
        # cuDNN: 134144 B fits once, and so do the registers of 12 warps.
        (168, 134144, 384, H200, (0.1875, 1, "registers and shared memory")),
        (32, 0, 128, H200, (1.0, 16, "threads")),
        (16, 0, 32, H200, (0.5, 32, "blocks")),
        (16, 0, 32, GA102, (16 / 48, 16, "blocks")),
        # 49152 + 1024 reserved = 50176: four times in 233472, though 4 × 49152 alone would leave room for no more.
        (32, 49152, 128, H200, (0.25, 4, "shared memory")),
        # 57344 + 1024 = 58368 is exactly a quarter; one byte more takes another 128 and loses a block.
        (32, 57344, 128, H200, (0.25, 4, "shared memory")),
        (32, 57345, 128, H200, (0.1875, 3, "shared memory")),
        # A block of 33 threads occupies two warps.
        (32, 0, 33, H200, (1.0, 32, "threads")),
    ],
)
def test_known_launches(
    registers: int, shared: int, threads: int, properties: DeviceProperties, expected: tuple[float, int, str]
) -> None:
    found = occupancy(registers, shared, threads, properties)
    assert found is not None
    assert (found.share, found.blocks_per_sm, found.limiter) == expected


@pytest.mark.parametrize(
    "properties",
    [
        replace(H200, compute_capability=None),
        replace(H200, compute_capability=(42, 0)),
        replace(H200, max_threads_per_sm=None),
        replace(H200, registers_per_sm=None),
        replace(H200, shared_memory_per_sm_bytes=None),
        replace(H200, warp_size=64),  # AMD
    ],
)
def test_a_missing_device_fact_gives_none(properties: DeviceProperties) -> None:
    assert occupancy(32, 0, 128, properties) is None


def test_a_missing_launch_fact_or_an_impossible_launch_gives_none() -> None:
    assert occupancy(None, 0, 128) is None
    assert occupancy(32, None, 128) is None
    assert estimate_occupancy(registers_per_thread=32, shared_memory_bytes=0, block=None, properties=H200) is None
    assert occupancy(32, 232449, 128) is None  # more than a block may opt in to
    assert occupancy(255, 0, 1024) is None  # more registers than an SM has
    assert occupancy(32, 0, 0) is None


@given(st.integers(1, 255), st.integers(0, 232448), st.integers(1, 1024))
def test_blocks_fit_and_one_more_would_not(registers: int, shared: int, threads: int) -> None:
    found = occupancy(registers, shared, threads)
    warps = -(-threads // 32)
    if found is None:
        # Within the other limits only registers rule a block out: its warps fill the four quarters evenly.
        assert -(-warps // 4) * (-(-registers * 32 // 256) * 256) > 65536 // 4
        return
    assert 0 < found.share <= 1
    assert found.share == found.blocks_per_sm * warps / 64
    assert found.blocks_per_sm * warps * 32 * registers <= 65536
    assert found.blocks_per_sm * (shared + 1024) <= 233472
    more = found.blocks_per_sm + 1
    limits = {
        "threads": more * warps > 64,
        "registers": more * warps * (-(-registers * 32 // 256) * 256) > 65536 - 4 * 8192,  # a quarter cannot lend
        "shared memory": more * (-(-(shared + 1024) // 128) * 128) > 233472,
        "blocks": more > 32,
    }
    assert all(limits[name] for name in found.limiter.split(" and "))


@given(st.integers(1, 254), st.integers(0, 200_000), st.integers(1, 1024))
def test_more_registers_never_raise_it(registers: int, shared: int, threads: int) -> None:
    fewer, more = occupancy(registers, shared, threads), occupancy(registers + 1, shared, threads)
    assert more is None or (fewer is not None and more.share <= fewer.share)
