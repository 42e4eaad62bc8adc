"""Are matrix products done in float32, off the tensor cores, though the tensors are of half precision?"""

from attention.workload import DType
from profiling.findings.facts import NO_DEVICE_ITEMS, TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.format import format_items, format_share
from profiling.report_schema import Evidence, KernelSummary, Report

_WIDE = (DType.FLOAT32, DType.FLOAT64)


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.device_items:
        return NotEvaluated(reason=NO_DEVICE_ITEMS)
    products = [kernel for kernel in report.kernels if kernel.role == "gemm"]
    if not products:
        return Clear(explanation="No matrix product ran as a kernel of its own.")
    slow = [kernel for kernel in products if kernel.uses_tensor_cores is False and kernel.data_type == "float32"]
    if not slow:
        if all(kernel.uses_tensor_cores is None for kernel in products):
            return NotEvaluated(reason="The names of the matrix products do not say whether they use tensor cores.")
        return Clear(
            explanation=(
                f"{format_items(len(products), 'kind')} of matrix product, none in float32 off the tensor cores."
            )
        )
    if report.workload is not None and report.workload.dtype in _WIDE:
        return Clear(
            explanation=f"{report.workload.dtype} was asked for, so its products run off the tensor cores by request."
        )
    casts = [kernel for kernel in report.kernels if kernel.role == "cast"]
    time_ns = sum(kernel.device_time_ns for kernel in slow)
    share = time_ns / facts.device_time_ns if facts.device_time_ns else 0.0
    explanation = (
        f"{facts.per_step(sum(kernel.calls for kernel in slow), 'matrix product')} in float32 on the CUDA cores: "
        f"{facts.time_per_step(time_ns)}, {format_share(share)} of device time"
    )
    if not casts:
        return Fired(
            severity="info",
            explanation=f"{explanation}. Nothing is cast, so the tensors themselves seem to be float32.",
            evidence=_show(facts, slow),
            advice="Use bfloat16 or float16, or allow TF32 (torch.set_float32_matmul_precision) where it is enough.",
        )
    cast_ns = sum(kernel.device_time_ns for kernel in casts)
    return Fired(
        severity="warning",
        explanation=(
            f"{explanation}. {facts.per_step(sum(kernel.calls for kernel in casts), 'cast')} to raise the inputs and "
            f"lower the results: {facts.time_per_step(cast_ns)}, {_share_text(cast_ns, facts)}."
        ),
        evidence=_show(facts, slow) + _show(facts, casts),
        advice="Use a fused backend, which multiplies in the inputs' own dtype on tensor cores and adds up in float32.",
    )


def _share_text(ns: int, facts: TraceFacts) -> str:
    return f"{format_share(ns / facts.device_time_ns)} of device time" if facts.device_time_ns else "no share"


def _show(facts: TraceFacts, kernels: list[KernelSummary]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            text=(
                f"{kernel.short_name} under {kernel.launched_by or 'no operator'}: "
                f"{facts.time_per_step(kernel.device_time_ns)}"
            ),
            items=kernel.items,
        )
        for kernel in kernels
    )


RULE = TraceRule(
    slug="float32_upcast",
    title="float32 off the tensor cores",
    source="Kernel names: ffma and sgemm are CUDA-core products; PyTorch's math path raises half precision to float32.",
    judge=_judge,
)
