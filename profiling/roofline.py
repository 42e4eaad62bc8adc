"""Achieved rates from measured device time, and how far below the published peaks they are.

The ceilings are modelled from data sheets, not measured by hardware counters.
"""

from dataclasses import dataclass

from attention.workload import DType
from profiling.recording import Environment
from profiling.report_schema import Cost, LatencySummary, Roofline


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Published peaks of one GPU: dense 16-bit tensor-core rate and memory bandwidth. None: not offered in hardware."""

    device_names: tuple[str, ...]  # as the driver reports them
    float16_flops_per_s: float
    bfloat16_flops_per_s: float | None
    bytes_per_s: float
    source: str


# Data sheets star most tensor-core figures "with sparsity"; the dense rate is half of those. float32 and float64 have
# no row: several published rates apply to them (CUDA cores, TF32, FP64 tensor cores) and the kernel decides which, so
# one ceiling would give shares above 100 %. A GPU is listed only under the names of the board of its data sheet.
PEAKS: tuple[Peaks, ...] = (
    Peaks(
        device_names=("NVIDIA H200",),
        float16_flops_per_s=989.5e12,
        bfloat16_flops_per_s=989.5e12,
        bytes_per_s=4.8e12,
        source="NVIDIA H200 data sheet, SXM: 1,979 TFLOPS with sparsity, 4.8 TB/s (nvidia.com/en-us/data-center/h200)",
    ),
    Peaks(
        device_names=("NVIDIA H100 80GB HBM3",),
        float16_flops_per_s=989.5e12,
        bfloat16_flops_per_s=989.5e12,
        bytes_per_s=3.35e12,
        source="NVIDIA H100 data sheet, SXM: 1,979 TFLOPS with sparsity, 3.35 TB/s (nvidia.com/en-us/data-center/h100)",
    ),
    Peaks(
        device_names=("NVIDIA A100-SXM4-80GB",),
        float16_flops_per_s=312e12,
        bfloat16_flops_per_s=312e12,
        bytes_per_s=2.039e12,
        source="NVIDIA A100 data sheet (nvidia-1758950-r4), 80GB SXM: 312 TFLOPS dense, 2,039 GB/s",
    ),
    Peaks(
        device_names=("NVIDIA L40S",),
        float16_flops_per_s=362.05e12,
        bfloat16_flops_per_s=362.05e12,
        bytes_per_s=864e9,
        source="NVIDIA L40S data sheet: 362.05 TFLOPS dense, 864 GB/s (nvidia.com/en-us/data-center/l40s)",
    ),
    Peaks(
        device_names=("NVIDIA L4",),
        float16_flops_per_s=121e12,
        bfloat16_flops_per_s=121e12,
        bytes_per_s=300e9,
        source="NVIDIA L4 data sheet: 242 TFLOPS with sparsity, 300 GB/s (nvidia.com/en-us/data-center/l4)",
    ),
    Peaks(
        device_names=("Tesla T4", "NVIDIA T4"),
        float16_flops_per_s=65e12,
        bfloat16_flops_per_s=None,
        bytes_per_s=320e9,
        source="NVIDIA T4 data sheet: 65 TFLOPS FP16, 320 GB/s (nvidia.com/en-us/data-center/tesla-t4)",
    ),
)


def build_roofline(
    cost: Cost, device_time: LatencySummary | None, environment: Environment | None, dtype: DType
) -> Roofline | None:
    """Rates of one call, from the median device time; None on a CPU or where device time was not measured.

    The ceiling at the workload's arithmetic intensity is ``min(peak FLOP/s, intensity × peak byte/s)``; ``bound`` says
    which of the two it is. It is None for a GPU or dtype whose peak is not in PEAKS, and for a MIG slice.

    Source: Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009.
    """
    if environment is None or environment.device != "cuda" or device_time is None or device_time.median_ns <= 0:
        return None
    seconds = device_time.median_ns / 1e9
    flops_per_s = cost.flops / seconds
    peaks = None if environment.mig else find_peaks(environment.device_name)
    peak_flops_per_s = None if peaks is None else _peak_rate(peaks, dtype)
    if peaks is None or peak_flops_per_s is None:
        return Roofline(
            achieved_flops_per_s=flops_per_s,
            achieved_bytes_per_s=cost.bytes_min / seconds,
            ceiling_source=None,
            share_of_ceiling=None,
            bound=None,
        )
    memory_ceiling = cost.arithmetic_intensity * peaks.bytes_per_s
    return Roofline(
        achieved_flops_per_s=flops_per_s,
        achieved_bytes_per_s=cost.bytes_min / seconds,
        ceiling_source=peaks.source,
        share_of_ceiling=flops_per_s / min(peak_flops_per_s, memory_ceiling),
        bound="memory" if memory_ceiling < peak_flops_per_s else "compute",
    )


def find_peaks(device_name: str) -> Peaks | None:
    """The published peaks of the GPU with exactly this name: variants of one chip differ by a third and more."""
    return next((peaks for peaks in PEAKS if device_name in peaks.device_names), None)


def _peak_rate(peaks: Peaks, dtype: DType) -> float | None:
    if dtype == DType.FLOAT16:
        return peaks.float16_flops_per_s
    return peaks.bfloat16_flops_per_s if dtype == DType.BFLOAT16 else None
