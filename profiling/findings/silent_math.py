"""Did SDPA land on its math path without saying so? It is always correct and often the slowest by far."""

from attention.backends import Decision
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_bytes, format_count, format_duration
from profiling.observed import score_copy
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace

FUSED_BACKENDS = ("sdpa_flash", "sdpa_efficient", "sdpa_cudnn")


def _judge(report: Report, trace: Trace | None) -> Outcome:
    observed = report.observed_backend
    if observed is None:
        return NotEvaluated(reason="No trace was recorded, so what SDPA chose is not known.")
    if observed.confidence == "unknown":
        return NotEvaluated(reason=f"The trace names no single backend: {observed.evidence[0]}.")
    if observed.family != "math":
        return Clear(explanation=f"The math path did not run; {observed.family} did.")
    requested = report.workload.backend if report.workload else None
    if requested == "sdpa_math":
        return Clear(explanation="The math path ran because sdpa_math was asked for by name.")
    refused = [
        decision
        for decision in report.decisions
        if decision.backend in FUSED_BACKENDS and decision.verdict == "rejected"
    ]
    asked = (
        f"{requested} was asked for and SDPA took its math path"
        if requested
        else "SDPA took its math path; the trace does not say whether it was asked for by name"
    )
    # A brought trace does not tell what was printed.
    quietly = ", with no warning from PyTorch" if report.workload is not None and not report.warnings else ""
    return Fired(
        severity="warning",
        explanation=f"{asked}: {_price(report)}{quietly}.",
        evidence=(
            *(Evidence(text=text) for text in observed.evidence),
            *(Evidence(text=f"{decision.backend} did not run: {decision.reason}") for decision in refused),
        ),
        advice=_advice(refused),
    )


def _price(report: Report) -> str:
    parts = []
    if report.device_items_per_step is not None:
        parts.append(f"{format_count(report.device_items_per_step.kernels)} kernels a step")
    if report.device_time_per_step_ns is not None:
        parts.append(f"{format_duration(report.device_time_per_step_ns)} of device time a step")
    if report.workload is not None:
        copy_bytes, dtype = score_copy("math", report.workload)
        parts.append(f"a score matrix of {format_bytes(copy_bytes)} in {dtype} in memory")
    return ", ".join(parts) if parts else "many operators and a score matrix in memory"


def _advice(refused: list[Decision]) -> str:
    changes = [f"{change} (unlocks {decision.backend})" for decision in refused for change in decision.unlocked_by]
    if changes:
        return f"Change one thing: {changes[0]}."
    return (
        "Pin a fused backend to read PyTorch's own refusal, then change one of dtype, mask or head_dim and try again."
    )


RULE = Rule(
    slug="silent_math",
    title="Silent math fallback",
    source="pytorch/pytorch#181528: SDPA falls back to math with no hint (23.1 ms against 7.5 ms measured there).",
    judge=_judge,
)
