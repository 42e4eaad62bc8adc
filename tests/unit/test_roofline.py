from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.workload import DType
from profiling.report_schema import Cost, LatencySummary
from profiling.roofline import PEAKS, build_roofline, find_peaks
from tests.conftest import CPU_ENVIRONMENT, H200_ENVIRONMENT

# The tutorial's case: 17.2 GFLOP over four tensors of 16 MiB.
COST = Cost(
    flops=17_196_646_400,
    bytes_min=64 * 2**20,
    score_matrix_bytes=256 * 2**20,
    arithmetic_intensity=17_196_646_400 / (64 * 2**20),
    assumptions=(),
)


def clock(median_ns: int) -> LatencySummary:
    return LatencySummary(
        median_ns=median_ns, p10_ns=median_ns, p90_ns=median_ns, iqr_ns=0, count=5, method="graph replay"
    )


def test_rates_come_from_the_median_device_time() -> None:
    roofline = build_roofline(COST, clock(57_500), H200_ENVIRONMENT, DType.BFLOAT16)
    assert roofline is not None
    assert roofline.achieved_flops_per_s == pytest.approx(299.07e12, rel=1e-4)
    assert roofline.achieved_bytes_per_s == pytest.approx(1.16711e12, rel=1e-4)
    # 256 FLOP/byte × 4.8 TB/s is above the tensor cores' 989.5 TFLOP/s.
    assert roofline.bound == "compute"
    assert roofline.share_of_ceiling == pytest.approx(299.07 / 989.5, rel=1e-4)


def test_low_intensity_is_bound_by_memory() -> None:
    decode = replace(COST, flops=67_108_864, arithmetic_intensity=1.0)
    roofline = build_roofline(decode, clock(20_000), H200_ENVIRONMENT, DType.BFLOAT16)
    assert roofline is not None
    assert roofline.bound == "memory"
    assert roofline.share_of_ceiling == pytest.approx(67_108_864 / 20e-6 / 4.8e12)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_dtypes_with_several_published_rates_have_no_ceiling(dtype: DType) -> None:
    roofline = build_roofline(COST, clock(57_500), H200_ENVIRONMENT, dtype)
    assert roofline is not None
    assert roofline.achieved_flops_per_s > 0
    assert (roofline.ceiling_source, roofline.share_of_ceiling, roofline.bound) == (None, None, None)


@pytest.mark.parametrize("name", ["NVIDIA H200 NVL", "NVIDIA A100-PCIE-40GB", "a GPU of next year"])
def test_other_boards_have_no_ceiling(name: str) -> None:
    environment = replace(H200_ENVIRONMENT, device_name=name)
    roofline = build_roofline(COST, clock(57_500), environment, DType.BFLOAT16)
    assert roofline is not None
    assert roofline.share_of_ceiling is None


def test_mig_slice_has_no_ceiling_of_the_whole_card() -> None:
    roofline = build_roofline(COST, clock(57_500), replace(H200_ENVIRONMENT, mig=True), DType.BFLOAT16)
    assert roofline is not None
    assert roofline.share_of_ceiling is None


def test_t4_has_no_bfloat16() -> None:
    environment = replace(H200_ENVIRONMENT, device_name="Tesla T4")
    for dtype, known in ((DType.BFLOAT16, False), (DType.FLOAT16, True)):
        roofline = build_roofline(COST, clock(57_500), environment, dtype)
        assert roofline is not None
        assert (roofline.share_of_ceiling is not None) is known


def test_nothing_without_a_device_or_its_clock() -> None:
    assert build_roofline(COST, clock(57_500), CPU_ENVIRONMENT, DType.FLOAT32) is None
    assert build_roofline(COST, clock(57_500), None, DType.FLOAT32) is None
    assert build_roofline(COST, None, H200_ENVIRONMENT, DType.BFLOAT16) is None


def test_each_peak_names_its_source_and_its_boards_once() -> None:
    names = [name for peaks in PEAKS for name in peaks.device_names]
    assert len(names) == len(set(names))
    assert all("data sheet" in peaks.source for peaks in PEAKS)
    assert all(find_peaks(name) is not None for name in names)


@given(st.integers(1, 10**10))
def test_twice_the_time_is_half_the_rate_and_half_the_share(time_ns: int) -> None:
    once = build_roofline(COST, clock(time_ns), H200_ENVIRONMENT, DType.BFLOAT16)
    twice = build_roofline(COST, clock(2 * time_ns), H200_ENVIRONMENT, DType.BFLOAT16)
    assert once is not None
    assert twice is not None
    assert once.achieved_flops_per_s == pytest.approx(2 * twice.achieved_flops_per_s)
    assert once.share_of_ceiling == pytest.approx(2 * (twice.share_of_ceiling or 0))
