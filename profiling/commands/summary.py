"""A report as text for a terminal: the headline first, then what supports it."""

from profiling.commands.text import align, clean, quote, shorten, wrap
from profiling.format import format_count, format_duration, format_share
from profiling.headline import BASIS_WORDS, VERDICT_MARKS, VERDICT_WORDS, build_headline
from profiling.machine import describe_machine
from profiling.measured_unlocks import describe_changes
from profiling.refusal import explain_message
from profiling.report_schema import KernelSummary, OperatorSummary, Report, RuleVerdict
from profiling.taint import describe_taint

NAME_WIDTH = 52
MOST_ROWS = 15
SEVERITY_MARKS = {"error": "■", "warning": "▲", "info": "ℹ", None: "·"}


def render_report(report: Report) -> str:
    """Everything that a reader needs to judge the run; whole tables and raw messages are in the files."""
    sections = (
        _title(report),
        _taint(report),
        _headline(report),
        _failures(report),
        _refusal(report),
        _findings(report),
        _kernels(report),
        _operators(report),
        _decisions(report),
        _warnings(report),
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def render_eligibility(report: Report) -> str:
    """Every backend's verdict on the workload."""
    sections = (_title(report), _failures(report), _decisions(report), "PyTorch's own messages: --json -")
    return "\n\n".join(section for section in sections if section) + "\n"


def _refusal(report: Report) -> str:
    """PyTorch's own words about the backend that was asked for and did not run, and what unlocks it."""
    decision = next((entry for entry in report.decisions if entry.backend == report.requested_backend), None)
    if decision is None or not any(failure.kind == "refused" for failure in report.failures):
        return ""
    said = f"PYTORCH SAID\n{quote(decision.raw_message)}\n" if decision.raw_message else ""
    changes = describe_changes(decision, report.unlock_measurements)
    return f"{said}CHANGE ONE THING\n{wrap(clean(changes), indent='    ')}"


def _failures(report: Report) -> str:
    """What did not finish, in which stage, and what to do."""
    return "\n\n".join(
        f"{failure.kind.replace('_', ' ').upper()} in stage {failure.stage}\n"
        f"{quote(failure.message)}\n{wrap(failure.hint, indent='    ')}"
        for failure in report.failures
    )


def _title(report: Report) -> str:
    lines = [clean(describe_machine(report.environment, report.trace_devices))]
    if report.workload is not None:
        workload = report.workload
        lines.insert(0, f"{workload.backend} · {workload.describe()} · {workload.direction}")
    return "\n".join(lines)


def _taint(report: Report) -> str:
    """What stands above every number that comes from a trace that cannot be trusted whole."""
    taint = describe_taint(report)
    if taint is None:
        return ""
    problems = (wrap(f"- {problem}", indent="    ") for problem in taint.problems)
    return "\n".join((f"▲ {taint.title.upper()}", wrap(taint.consequence, indent="    "), *problems))


def _headline(report: Report) -> str:
    facts = build_headline(report)
    width = max(len(fact.label) for fact in facts) + 2
    lines = []
    for fact in facts:
        lines.append(f"{fact.label:<{width}}{clean(fact.value)}")
        if fact.method:
            lines.append(wrap(fact.method, indent=" " * (width + 2)))
    return "\n".join(lines)


def _findings(report: Report) -> str:
    if not report.verdicts:
        return ""
    fired = [verdict for verdict in report.verdicts if verdict.status == "fired"]
    clear = sum(verdict.status == "clear" for verdict in report.verdicts)
    skipped = sum(verdict.status == "not_evaluated" for verdict in report.verdicts)
    lines = ["FINDINGS", *map(_finding, fired)]
    lines.append(f"✓ {format_count(clear)} checks clear, {format_count(skipped)} not evaluated")
    return "\n".join(lines)


def _finding(verdict: RuleVerdict) -> str:
    parts = [f"{SEVERITY_MARKS[verdict.severity]} {clean(verdict.title)}", wrap(verdict.explanation, indent="    ")]
    if verdict.advice:
        parts.append(wrap(f"→ {verdict.advice}", indent="    "))
    return "\n".join(parts)


def _kernels(report: Report) -> str:
    if not report.kernels:
        return ""
    rows: list[tuple[str, ...]] = [("KERNEL", "ROLE", "A STEP", "MEAN", "DEVICE TIME", "SHARE")]
    rows += [_kernel(kernel) for kernel in report.kernels[:MOST_ROWS]]
    return _limited(align(rows, right=(2, 3, 4, 5)), len(report.kernels))


def _kernel(kernel: KernelSummary) -> tuple[str, ...]:
    return (
        shorten(kernel.short_name, NAME_WIDTH),
        kernel.role,
        format_count(kernel.calls_per_step),
        format_duration(kernel.mean_ns),
        format_duration(kernel.device_time_ns),
        format_share(kernel.share_of_device_time),
    )


def _operators(report: Report) -> str:
    if not report.operators:
        return ""
    with_device = any(operator.device_time_ns is not None for operator in report.operators)
    device_headers = ("DEVICE TIME", "SELF DEVICE") if with_device else ()
    rows = [("OPERATOR", "CALLS", "CPU TIME", "SELF CPU", *device_headers)]
    rows += [_operator(operator, with_device=with_device) for operator in report.operators[:MOST_ROWS]]
    return _limited(align(rows, right=range(1, len(rows[0]))), len(report.operators))


def _operator(operator: OperatorSummary, *, with_device: bool) -> tuple[str, ...]:
    cells = (
        shorten(operator.name, NAME_WIDTH),
        format_count(operator.calls),
        format_duration(operator.cpu_time_ns),
        format_duration(operator.self_cpu_time_ns),
    )
    if not with_device:
        return cells
    return (*cells, format_duration(operator.device_time_ns), format_duration(operator.self_device_time_ns))


def _limited(table: str, row_count: int) -> str:
    left_out = row_count - MOST_ROWS
    return f"{table}\n… and {format_count(left_out)} more in report.json" if left_out > 0 else table


def _decisions(report: Report) -> str:
    if not report.decisions:
        return ""
    rows = [("BACKEND", "VERDICT", "KNOWN BY", "REASON")]
    rows += [
        (
            decision.backend,
            f"{VERDICT_MARKS[decision.verdict]} {VERDICT_WORDS[decision.verdict]}",
            BASIS_WORDS[decision.basis],
            clean(decision.reason),
        )
        for decision in report.decisions
    ]
    unlocked = [
        wrap(clean(f"{decision.backend}: change one thing: {describe_changes(decision, report.unlock_measurements)}"))
        for decision in report.decisions
        if decision.unlocked_by or decision.untried
    ]
    return "\n".join((align(rows), *unlocked))


def _warnings(report: Report) -> str:
    lines = []
    for warning in report.warnings:
        lines.append(f"{warning.category} in stage {warning.stage}\n{quote(warning.message)}")
        if meaning := explain_message(warning.message, report):
            lines.append(wrap(f"→ {meaning}", indent="    "))
    return "\n".join(("WARNINGS, AS PYTORCH WROTE THEM", *lines)) if lines else ""
