"""Is a reported occupancy of 0 % real? The profiler estimates against the default shared memory limit of a block."""

from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_bytes, format_count, format_items, format_share
from profiling.report_schema import Evidence, KernelSummary, Report
from profiling.trace.events import Trace

# A kernel may opt in to more, but the estimate divides by this and finds room for no block at all.
# Source: CUDA C++ Programming Guide, compute capabilities: 48 KiB a block unless the kernel opts in.
DEFAULT_SHARED_MEMORY_BYTES = 48 * 1024


def _judge(report: Report, trace: Trace | None) -> Outcome:
    reported = [kernel for kernel in report.kernels if kernel.occupancy_reported is not None]
    if not reported:
        return NotEvaluated(reason="The trace reports no occupancy for any kernel.")
    zeros = [kernel for kernel in reported if kernel.occupancy_reported == 0 and _needs_opt_in(kernel)]
    artefacts = [kernel for kernel in zeros if kernel.occupancy_recomputed]
    if zeros and not artefacts:
        return NotEvaluated(reason="The trace lacks the device limits or registers from which occupancy is recomputed.")
    if not artefacts:
        opted_in = sum(map(_needs_opt_in, reported))
        return Clear(
            explanation=(
                f"Of {format_items(len(reported), 'kernel')} with a reported occupancy {format_count(opted_in)} take "
                "more than 48 KiB of shared memory a block, and none of these reads 0 %."
            )
        )
    first = artefacts[0]
    limiter = f", limited by {first.occupancy_limiter}" if first.occupancy_limiter else ""
    return Fired(
        severity="info",
        explanation=(
            f"{format_items(len(artefacts), 'kernel')} of {format_count(len(reported))} with an occupancy of 0 %, an "
            "artefact of the profiler's estimate: "
            f"{first.short_name} can reach {format_share(first.occupancy_recomputed)}{limiter}."
        ),
        evidence=tuple(
            Evidence(
                text=(
                    f"{kernel.short_name}: {format_bytes(kernel.shared_memory_bytes)} of shared memory a block, "
                    f"reported {format_share(kernel.occupancy_reported)}, "
                    f"recomputed {format_share(kernel.occupancy_recomputed)}"
                ),
                items=kernel.items,
            )
            for kernel in artefacts
        ),
        advice=(
            "Read the recomputed value; low occupancy is a design choice of attention and matrix-product kernels and "
            "not a grade."
        ),
    )


def _needs_opt_in(kernel: KernelSummary) -> bool:
    # At or below the limit a 0 may be true: a grid of one block fills almost nothing of a large device.
    return kernel.shared_memory_bytes is not None and kernel.shared_memory_bytes > DEFAULT_SHARED_MEMORY_BYTES


RULE = Rule(
    slug="occupancy_artefact",
    title="Occupancy artefact",
    source="Recomputed from registers, shared memory and block size with the device limits in the trace's head.",
    judge=_judge,
)
