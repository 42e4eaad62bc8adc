"""Which kernels do the work of several operators, and of which? What is fused is neither launched nor stored apart."""

from profiling.findings.facts import NO_DEVICE_ITEMS, TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_count, format_share
from profiling.report_schema import Evidence, KernelSummary, Report
from profiling.trace.inductor_kernels import read_inductor_name
from profiling.trace.kernel_pattern import FUSED_ATTENTION

_ATTENTION_PARTS = "QKᵀ, scale, mask, softmax and PV"


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.device_items:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    fused = [(kernel, parts) for kernel in report.kernels if (parts := _read_parts(kernel))]
    if not fused:
        return Clear(explanation=f"None of {format_count(len(report.kernels))} kinds of device item is a fused kernel.")
    share = sum(kernel.share_of_device_time for kernel, _ in fused)
    return Fired(
        severity="info",
        explanation=(
            f"{facts.per_step(sum(kernel.calls for kernel, _ in fused), 'fused kernel')}, {format_share(share)} of the "
            f"device time: {'; '.join(dict.fromkeys(f'{kernel.short_name} fuses {parts}' for kernel, parts in fused))}."
        ),
        evidence=tuple(
            Evidence(text=f"{kernel.short_name} fuses {parts}", items=kernel.items) for kernel, parts in fused
        ),
        advice="Compare its time with the sum of the kernels that it replaces, not with one of them.",
    )


def _read_parts(kernel: KernelSummary) -> str | None:
    if kernel.role.startswith("attention"):
        if not kernel.description.startswith(FUSED_ATTENTION):
            return None
        return f"{_ATTENTION_PARTS}, backward" if kernel.role == "attention_backward" else _ATTENTION_PARTS
    # One name alone is one operator's kernel, written by the compiler.
    parts = read_inductor_name(kernel.name).fused if kernel.name.startswith("triton_") else ()
    return ", ".join(parts) if len(parts) > 1 else None


RULE = TraceRule(
    slug="fused_kernels",
    title="Fused kernels",
    source="Kernel names: fused attention by library, and Inductor's names of what it fused.",
    judge=_judge,
)
