"""Do the kernels that matter run at a low occupancy by design? Tensor-core kernels trade warps for registers."""

from profiling.findings.facts import NO_DEVICE_ITEMS, TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_bytes, format_count, format_items, format_share
from profiling.report_schema import Evidence, KernelSummary, Report

# On an H200 the attention and matrix-product kernels of every backend here reach 12.5 to 25 %, and pointwise ones 48
# to 100 %: a third separates the two.
LOW_OCCUPANCY = 1 / 3
# Kernels below this share of the device time decide nothing.
COUNTS_SHARE = 0.05


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.device_items:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    known = [kernel for kernel in report.kernels if _occupancy(kernel) is not None]
    if not known:
        return NotEvaluated(
            reason=(
                "The trace gives neither an occupancy nor the registers, shared memory and device limits to compute it "
                "from; export it with export_chrome_trace from a CUDA build of PyTorch."
            )
        )
    low = [
        kernel
        for kernel in known
        if _is_built_for_tiles(kernel)
        and kernel.share_of_device_time >= COUNTS_SHARE
        and (_occupancy(kernel) or 0) < LOW_OCCUPANCY
    ]
    if not low:
        return Clear(
            explanation=(
                f"Of {format_items(len(known), 'kernel')} none is an attention or matrix-product kernel that takes "
                f"{format_share(COUNTS_SHARE)} of the device time and more at an occupancy below "
                f"{format_share(LOW_OCCUPANCY)}."
            )
        )
    first = low[0]
    return Fired(
        severity="info",
        explanation=(
            f"{first.short_name} reaches an estimated occupancy of {format_share(_occupancy(first))}, by design: "
            f"{_show_resources(first)}. More warps would not make it faster by themselves."
        ),
        evidence=tuple(
            Evidence(
                text=f"{kernel.short_name}: {format_share(_occupancy(kernel))}, {_show_resources(kernel)}",
                items=kernel.items,
            )
            for kernel in low
        ),
        advice="Do not read it as a grade: judge this kernel by its FLOP/s against the device's ceiling.",
    )


def _occupancy(kernel: KernelSummary) -> float | None:
    if kernel.occupancy_recomputed is not None:
        return kernel.occupancy_recomputed
    # A reported 0 may be the artefact that has a rule of its own.
    return kernel.occupancy_reported or None


def _is_built_for_tiles(kernel: KernelSummary) -> bool:
    return kernel.role.startswith(("attention", "gemm"))


def _show_resources(kernel: KernelSummary) -> str:
    if kernel.registers_per_thread is None or kernel.shared_memory_bytes is None:
        return "the trace does not say its registers and shared memory"
    limited = f", limited by {kernel.occupancy_limiter}" if kernel.occupancy_limiter else ""
    return (
        f"{format_count(kernel.registers_per_thread)} registers a thread and "
        f"{format_bytes(kernel.shared_memory_bytes)} of shared memory a block{limited}"
    )


RULE = TraceRule(
    slug="low_occupancy",
    title="Low occupancy by design",
    source="Recomputed from registers, shared memory and block size; FlashAttention-2 (arXiv:2307.08691) on tiles.",
    judge=_judge,
)
