"""Did SDPA land on its math path without saying so? It is always correct and often the slowest by far."""

from attention.backends import Decision
from attention.workload import Workload
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_bytes, format_count, format_duration
from profiling.measured_unlocks import list_changes
from profiling.observed import score_copy
from profiling.report_schema import Evidence, MeasuredUnlock, Report
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
        # Without the request the path alone is known, and what it costs has rules of its own.
        severity="warning" if requested else "info",
        explanation=f"{asked}: {_price(report)}{quietly}.",
        evidence=(
            *(Evidence(text=text) for text in observed.evidence),
            *(Evidence(text=f"{decision.backend} did not run: {decision.reason}") for decision in refused),
        ),
        advice=_advice(refused, report.unlock_measurements),
    )


def _price(report: Report) -> str:
    parts = []
    if report.device_items_per_step is not None:
        parts.append(f"{format_count(report.device_items_per_step.kernels)} kernels a step")
    if report.device_time_per_step_ns is not None:
        parts.append(f"{format_duration(report.device_time_per_step_ns)} of device time a step")
    if isinstance(report.workload, Workload):
        copy_bytes, dtype = score_copy("math", report.workload)
        parts.append(f"a score matrix of {format_bytes(copy_bytes)} in {dtype} in memory")
    return ", ".join(parts) if parts else "many operators and a score matrix in memory"


def _advice(refused: list[Decision], measured: tuple[MeasuredUnlock, ...]) -> str:
    changes: dict[str, str] = {}  # by the change alone: one that unlocks several backends is told once
    for decision in refused:
        for change, told in zip(decision.unlocked_by, list_changes(decision, measured), strict=True):
            changes.setdefault(change, f"{told} (unlocks {decision.backend})")
    if changes:
        return f"Change one thing: {'; or '.join(changes.values())}."
    return (
        "Pin a fused backend to read PyTorch's own refusal, then change one of dtype, mask or head_dim and try again."
    )


RULE = Rule(
    slug="silent_math",
    title="Silent math fallback",
    source="pytorch/pytorch#181528: SDPA falls back to math with no hint (23.1 ms against 7.5 ms measured there).",
    judge=_judge,
    of_attention=True,
)
