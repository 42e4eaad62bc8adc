"""The report for people: what was asked, what ran, what it cost, whether it was right, and how each was come by."""

import json
from collections.abc import Callable
from dataclasses import replace

from attention.backends import Decision
from attention.validation import flatten_workload
from attention.workload import Workload
from profiling.export.exporter import Exporter
from profiling.export.markdown import bullets, code, code_block, escape, table
from profiling.export.markdown_checks import CHECK_SECTIONS
from profiling.export.markdown_measurements import MEASUREMENT_SECTIONS
from profiling.format import NOT_RECORDED
from profiling.headline import BASIS_WORDS, VERDICT_WORDS, build_headline
from profiling.machine import describe_environment, describe_kernel_source, describe_machine
from profiling.measured_unlocks import list_changes
from profiling.refusal import explain_message
from profiling.report import Analysis
from profiling.report_schema import Report, RuleVerdict
from profiling.taint import describe_taint
from profiling.unlocks import describe_unlocks
from profiling.workload_flags import write_command

# A section is its heading and its text; an empty text leaves it out.
Section = tuple[str, Callable[[Report], str]]


def write_report_markdown(analysis: Analysis) -> bytes:
    report = analysis.report
    parts = [
        f"# {_title(report)}",
        f"{escape(describe_machine(report.environment, report.trace_devices))}.",
        *_taint(report),
    ]
    for heading, write in SECTIONS:
        text = write(report)
        if text:
            parts += [f"## {heading}", text]
    return ("\n\n".join(parts) + "\n").encode("utf-8", errors="replace")


def _taint(report: Report) -> tuple[str, ...]:
    """What stands above every number that comes from a trace that cannot be trusted whole."""
    taint = describe_taint(report)
    if taint is None:
        return ()
    return f"> **▲ {escape(taint.title)}.** {escape(taint.consequence)}", bullets([escape(p) for p in taint.problems])


def _title(report: Report) -> str:
    if report.workload is None:
        return "Attention trace, read by AttnScope"
    return escape(f"{report.workload.backend}: {report.workload.describe()}, {report.workload.direction}")


def _summary(report: Report) -> str:
    rows = [(fact.label, escape(fact.value), escape(fact.method)) for fact in build_headline(report)]
    return table(("", "value", "how it was come by"), rows)


def _failures(report: Report) -> str:
    parts = []
    for failure in report.failures:
        parts.append(f"**{failure.kind.replace('_', ' ')}** in stage **{failure.stage}**. {escape(failure.hint)}")
        parts.append(code_block(failure.message))
    return "\n\n".join(parts)


def _workload(report: Report) -> str:
    if report.workload is None:
        return ""
    workload = report.workload
    rows = [
        (field, NOT_GIVEN.get(field, "not given") if value is None else code(str(value)))
        for field, value in flatten_workload(workload).items()
    ]
    if not isinstance(workload, Workload):
        return table(("field", "value"), rows) + "\n\nActivations are `[tokens, hidden_size]`."
    rows += [("layout", code(workload.layout)), ("dropout_p", code(str(workload.dropout_p)))]
    return table(("field", "value"), rows) + "\n\nTensors are `[batch_size, heads, seq_len, head_dim]`."


NOT_GIVEN = {"scale": "not given: 1/√head\\_dim"}


def _environment(report: Report) -> str:
    if report.environment is None:
        return ""
    rows = [(escape(label), escape(value)) for label, value in describe_environment(report.environment)]
    return table(("fact", "value"), rows)


def _kernel_source(report: Report) -> str:
    if report.kernel_source is None:
        return ""
    rows = [(escape(label), code(value)) for label, value in describe_kernel_source(report.kernel_source)]
    return table(("fact", "value"), rows)


def _backends(report: Report) -> str:
    parts = []
    if report.observed_backend is not None:
        observed = report.observed_backend
        parts.append(
            f"Requested: {code(report.requested_backend or NOT_RECORDED)}. "
            f"Predicted: {code(report.predicted_backend or 'none')}. "
            f"Observed in the trace: {code(observed.family)} ({observed.confidence})."
        )
        parts.append(bullets([escape(line) for line in observed.evidence]))
    if report.decisions:
        rows = [
            (
                code(decision.backend),
                VERDICT_WORDS[decision.verdict],
                escape(decision.reason),
                BASIS_WORDS[decision.basis],
                _changes(decision, report),
            )
            for decision in report.decisions
        ]
        parts.append(table(("backend", "verdict", "reason", "known by", "change one thing"), rows))
    for decision in report.decisions:
        if decision.raw_message:
            parts += [f"Said about {code(decision.backend)}:", code_block(decision.raw_message)]
    return "\n\n".join(parts)


def _changes(decision: Decision, report: Report) -> str:
    changes = [code(change) for change in list_changes(decision, report.unlock_measurements)]
    if decision.untried or not changes:
        changes.append(escape(describe_unlocks(replace(decision, unlocked_by=()))))
    return ", or ".join(changes)


def _findings(report: Report) -> str:
    fired = [_finding(verdict) for verdict in report.verdicts if verdict.status == "fired"]
    clear = [escape(verdict.title) for verdict in report.verdicts if verdict.status == "clear"]
    unseen = [
        f"{escape(verdict.title)}: {escape(verdict.explanation)}"
        for verdict in report.verdicts
        if verdict.status == "not_evaluated"
    ]
    parts = [*fired] if fired else ["No rule fired."] if report.verdicts else []
    if clear:
        parts += ["### Looked for and not found", bullets(clear)]
    if unseen:
        parts += ["### Not evaluated", bullets(unseen)]
    return "\n\n".join(parts)


def _finding(verdict: RuleVerdict) -> str:
    lines = [f"### {verdict.severity}: {escape(verdict.title)}", escape(verdict.explanation)]
    if verdict.evidence:
        lines.append(bullets([escape(evidence.text) for evidence in verdict.evidence]))
    if verdict.advice:
        lines.append(f"What to do: {escape(verdict.advice)}")
    if verdict.source:
        lines.append(f"Source: {escape(verdict.source)}")
    return "\n\n".join(lines)


def _answers(report: Report) -> str:
    parts = []
    for answer in report.answers:
        parts.append(f"**{escape(answer.question)}** {escape(answer.answer)}")
        parts.append(bullets([escape(line) for line in answer.evidence]))
    return "\n\n".join(part for part in parts if part)


def _warnings(report: Report) -> str:
    parts = []
    for warning in report.warnings:
        parts += [f"{escape(warning.category)} in stage {warning.stage}:", code_block(warning.message)]
        if meaning := explain_message(warning.message, report):
            parts.append(escape(meaning))
    return "\n\n".join(parts)


def _reproduce(report: Report) -> str:
    if report.workload is None or report.environment is None:
        return ""
    parts = [code_block(write_command(report.workload, device=report.environment.device))]
    if report.inputs_fingerprint:
        parts.append(
            "`replay.py` rebuilds these inputs with torch alone and checks the stored numbers. "
            f"Sums of the inputs' bit patterns: {code(json.dumps(report.inputs_fingerprint))}."
        )
    return "\n\n".join(parts)


SECTIONS: tuple[Section, ...] = (
    ("Summary", _summary),
    ("What did not finish", _failures),
    ("Findings", _findings),
    ("Six questions", _answers),
    ("Which backend ran", _backends),
    *MEASUREMENT_SECTIONS,
    *CHECK_SECTIONS,
    ("Warnings, as PyTorch wrote them", _warnings),
    ("Workload", _workload),
    ("Environment", _environment),
    ("Where the kernel came from", _kernel_source),
    ("Run it again", _reproduce),
)

EXPORTER = Exporter(
    slug="report_markdown",
    title="The report to read or to paste into an issue",
    file_name="report.md",
    media_type="text/markdown",
    encode=write_report_markdown,
)
