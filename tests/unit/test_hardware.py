"""Occupancy against published figures of NVIDIA's own calculators, and by their rules on devices given as data."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.format import format_bytes
from profiling.hardware import NotComputed, Occupancy, estimate_occupancy, explain_artefact
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


def device(capability: tuple[int, int], threads: int, kib_per_sm: int, kib_per_block: int) -> DeviceProperties:
    """What ``deviceProperties`` of a trace holds. Source: CUDA C++ Programming Guide, compute capabilities."""
    return replace(
        H200,
        name=f"compute capability {capability[0]}.{capability[1]}",
        compute_capability=capability,
        max_threads_per_sm=threads,
        shared_memory_per_sm_bytes=kib_per_sm * 1024,
        shared_memory_per_block_optin_bytes=kib_per_block * 1024,
    )


DEVICES = {
    "7.0": device((7, 0), 2048, 96, 96),
    "7.5": device((7, 5), 1024, 64, 64),
    "8.0": device((8, 0), 2048, 164, 163),
    "8.6": device((8, 6), 1536, 100, 99),
    "8.9": device((8, 9), 1536, 100, 99),
    "9.0": H200,
    "10.0": device((10, 0), 2048, 228, 227),
    "12.0": device((12, 0), 1536, 100, 99),
}
MAX_BLOCKS = {"7.0": 32, "7.5": 16, "8.0": 32, "8.6": 16, "8.9": 24, "9.0": 32, "10.0": 32, "12.0": 24}
MI300X = replace(
    H200,
    name="AMD Instinct MI300X",
    compute_capability=(9, 4),
    max_threads_per_sm=2048,
    shared_memory_per_block_bytes=65536,
    shared_memory_per_block_optin_bytes=None,
    shared_memory_per_sm_bytes=65536,
    warp_size=64,
)


def occupancy(
    registers: int | None, shared: int | None, threads: int, properties: DeviceProperties | None = H200
) -> Occupancy | NotComputed:
    return estimate_occupancy(
        registers_per_thread=registers, shared_memory_bytes=shared, block=(threads, 1, 1), properties=properties
    )


def reason(found: Occupancy | NotComputed) -> str:
    assert isinstance(found, NotComputed)
    return found.reason


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks", "percent", "limiter"),
    [
        # CUDA C++ Best Practices Guide, "Calculating Occupancy": its two examples, which give 75 % and 63 %.
        ("7.0", 128, 37, 0, 12, 75, "registers"),
        ("7.0", 320, 37, 0, 4, 62.5, "registers"),
        # Nsight Compute's Occupancy section in published reports, theoretical occupancy and the least block limit.
        # It names every limit; with all warps resident this reader names threads alone.
        ("7.0", 128, 21, 0, 16, 100, "threads"),  # V100
        ("7.5", 256, 16, 1024, 4, 100, "threads"),  # T4, reductions
        ("7.5", 256, 30, 1024, 4, 100, "threads"),
        ("7.5", 64, 96, 272, 10, 62.5, "registers"),  # T4, cuBLAS gemv: 12,800 blocks on 40 SMs in 32 waves
        ("8.0", 512, 46, 0, 2, 50, "registers"),  # A800
        ("8.6", 256, 16, 4096, 6, 100, "threads"),  # RTX 3090
        ("8.9", 256, 202, 49152, 1, 100 / 6, "registers"),  # RTX 4090, a CUTLASS SIMT product
        ("8.9", 512, 54, 29824, 2, 200 / 3, "registers"),  # L4-class, flash attention without tensor cores
        ("8.9", 128, 80, 43776, 2, 100 / 6, "shared memory"),  # the same with tensor cores
        ("8.9", 256, 72, 33024, 3, 50, "registers and shared memory"),
        ("8.9", 1024, 56, 0, 1, 200 / 3, "threads and registers"),  # RTX 4060
        ("9.0", 128, 105, 0, 4, 25, "registers"),  # H20
        ("9.0", 128, 211, 0, 2, 12.5, "registers"),
        ("9.0", 384, 168, 232448, 1, 18.75, "registers and shared memory"),  # H20, flash attention 3
        ("10.0", 128, 255, 98432, 2, 12.5, "registers and shared memory"),  # B200, tcgen05 product
        ("12.0", 256, 40, 0, 6, 100, "threads"),  # RTX 5090
        ("12.0", 256, 37, 2048, 6, 100, "threads"),
        # Kokkos, pull request 5739: warps round up to the four partitions, which a naive division does not see.
        ("8.0", 224, 92, 0, 2, 21.875, "registers"),
    ],
)
def test_published_figures(
    capability: str, threads: int, registers: int, shared: int, blocks: int, percent: float, limiter: str
) -> None:
    found = occupancy(registers, shared, threads, DEVICES[capability])
    assert isinstance(found, Occupancy)
    assert found.share * 100 == pytest.approx(percent)
    assert (found.blocks_per_sm, found.limiter) == (blocks, limiter)


@pytest.mark.parametrize("capability", DEVICES)
def test_the_block_limit_binds_where_blocks_are_small(capability: str) -> None:
    properties = DEVICES[capability]
    found = occupancy(16, 0, 32, properties)
    assert isinstance(found, Occupancy)
    assert found.blocks_per_sm == MAX_BLOCKS[capability]
    full = properties.max_threads_per_sm == MAX_BLOCKS[capability] * 32
    assert found.limiter == ("threads" if full else "blocks")


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "expected"),
    [
        # flash: 255 registers round up to 8192 a warp, 4 warps a block: 2 blocks of the 65536.
        (255, 49152, 128, (0.125, 2, "registers")),
        # cuDNN: 134144 B fits once, and so do the registers of 12 warps.
        (168, 134144, 384, (0.1875, 1, "registers and shared memory")),
        (32, 0, 128, (1.0, 16, "threads")),
        # 49152 + 1024 reserved = 50176: four times in 233472, though 4 × 49152 alone would leave room for no more.
        (32, 49152, 128, (0.25, 4, "shared memory")),
        # 57344 + 1024 = 58368 is exactly a quarter; one byte more takes another 128 and loses a block.
        (32, 57344, 128, (0.25, 4, "shared memory")),
        (32, 57345, 128, (0.1875, 3, "shared memory")),
        # A block of 33 threads occupies two warps.
        (32, 0, 33, (1.0, 32, "threads")),
    ],
)
def test_granularities(registers: int, shared: int, threads: int, expected: tuple[float, int, str]) -> None:
    found = occupancy(registers, shared, threads)
    assert isinstance(found, Occupancy)
    assert (found.share, found.blocks_per_sm, found.limiter) == expected


def test_shared_memory_comes_in_256_bytes_and_without_a_reserve_before_8_0() -> None:
    # 64 KiB / 16 blocks of 128 threads would be 4096 B each; but 8 blocks fill the 32 warps, at 8192 B each.
    fits, over = (occupancy(16, shared, 128, DEVICES["7.5"]) for shared in (8192, 8193))
    assert isinstance(fits, Occupancy)
    assert isinstance(over, Occupancy)
    assert (fits.blocks_per_sm, over.blocks_per_sm, over.limiter) == (8, 7, "shared memory")


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (None, "does not describe this device"),
        (MI300X, "vector and accumulation registers"),
        (replace(MI300X, warp_size=None), "vector and accumulation registers"),
        (replace(H200, compute_capability=(42, 0)), "42.0 are not known"),
        (replace(H200, compute_capability=(5, 2)), "5.2 are not known"),
        (replace(H200, compute_capability=None), "lacks the device's limits"),
        (replace(H200, max_threads_per_sm=None), "lacks the device's limits"),
        (replace(H200, registers_per_sm=None), "lacks the device's limits"),
        (replace(H200, shared_memory_per_sm_bytes=None), "lacks the device's limits"),
    ],
)
def test_an_unknown_device_says_why_there_is_none(properties: DeviceProperties | None, says: str) -> None:
    assert says in reason(occupancy(32, 0, 128, properties))


def test_a_missing_launch_fact_or_an_impossible_launch_says_why_there_is_none() -> None:
    assert "lacks this launch's" in reason(occupancy(None, 0, 128))
    assert "lacks this launch's" in reason(occupancy(32, None, 128))
    blockless = estimate_occupancy(registers_per_thread=32, shared_memory_bytes=0, block=None, properties=H200)
    assert "lacks this launch's" in reason(blockless)
    assert "232,448 bytes" in reason(occupancy(32, 232449, 128))  # more than a block may opt in to
    assert "by registers" in reason(occupancy(255, 0, 1024))  # more registers than an SM has
    # 9 warps of 8 KiB registers would fit, were they not counted as 12 when the launch is checked.
    assert "by registers" in reason(occupancy(168, 0, 416))
    assert "no threads" in reason(occupancy(32, 0, 0))


def test_the_profilers_zero_is_named_where_it_is_an_artefact() -> None:
    note = explain_artefact(occupancy_reported=0.0, shared_memory_bytes=134144, properties=H200)
    assert note is not None
    assert "artefact" in note
    assert format_bytes(49152) in note
    assert format_bytes(134144) in note
    # At the default limit a 0 may be true, any other value is a value, and without the device nothing is known.
    assert explain_artefact(occupancy_reported=0.0, shared_memory_bytes=49152, properties=H200) is None
    assert explain_artefact(occupancy_reported=0.13, shared_memory_bytes=134144, properties=H200) is None
    assert explain_artefact(occupancy_reported=None, shared_memory_bytes=134144, properties=H200) is None
    assert explain_artefact(occupancy_reported=0.0, shared_memory_bytes=None, properties=H200) is None
    assert explain_artefact(occupancy_reported=0.0, shared_memory_bytes=134144, properties=None) is None


devices = st.sampled_from(sorted(DEVICES))


@given(devices, st.integers(1, 255), st.integers(0, 232448), st.integers(1, 1024))
def test_blocks_fit_and_one_more_would_not(capability: str, registers: int, shared: int, threads: int) -> None:
    properties = DEVICES[capability]
    found = occupancy(registers, shared, threads, properties)
    warps = math.ceil(threads / 32)
    per_warp = math.ceil(registers * 32 / 256) * 256
    optin, sm = properties.shared_memory_per_block_optin_bytes, properties.shared_memory_per_sm_bytes
    assert optin is not None
    assert sm is not None
    assert properties.max_threads_per_sm is not None
    max_warps = properties.max_threads_per_sm // 32
    reserved, unit = (1024, 128) if capability >= "8" or capability in ("10.0", "12.0") else (0, 256)
    if isinstance(found, NotComputed):
        # A block of at most 1,024 threads is ruled out by its registers or its shared memory alone.
        assert shared > optin or math.ceil(warps / 4) * 4 * per_warp > 65536
        return
    assert 0 < found.share <= 1
    assert found.share == found.blocks_per_sm * warps / max_warps
    assert found.blocks_per_sm * warps * 32 * registers <= 65536
    assert found.blocks_per_sm * (shared + reserved) <= sm
    more = found.blocks_per_sm + 1
    limits = {
        "threads": more * warps > max_warps,
        "registers": math.ceil(more * warps / 4) * per_warp > 65536 / 4,  # a quarter cannot lend to another
        "shared memory": more * (math.ceil((shared + reserved) / unit) * unit) > sm,
        "blocks": more > MAX_BLOCKS[capability],
    }
    assert all(limits[name] for name in found.limiter.split(" and "))
    assert any(limits.values())


@given(devices, st.integers(1, 254), st.integers(0, 200_000), st.integers(1, 1024))
def test_more_registers_never_raise_it(capability: str, registers: int, shared: int, threads: int) -> None:
    fewer, more = (occupancy(registers + extra, shared, threads, DEVICES[capability]) for extra in (0, 1))
    if isinstance(more, Occupancy):
        assert isinstance(fewer, Occupancy)
        assert more.share <= fewer.share
