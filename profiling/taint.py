"""What stands above every number of a trace that cannot be trusted whole: one wording for page, text and markdown."""

from dataclasses import dataclass

from profiling.format import format_count
from profiling.report_schema import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """``consequence`` says which numbers are affected and what to do; ``problems`` one line each."""

    title: str
    consequence: str
    problems: tuple[str, ...]


def describe_taint(report: Report) -> Taint | None:
    """None: there is no trace, or nothing is wrong with it that any number depends on."""
    health = report.trace_health
    if health is None or health.status == "ok":
        return None
    if health.status == "unusable":
        title = "The trace is unusable"
        consequence = "Nothing that is counted or summed from it can be relied on; record it again."
    else:
        title = "The trace is suspect"
        consequence = (
            "Counts and times taken from it may be too small, or hold something twice. The un-profiled clocks, memory "
            "and correctness do not depend on it."
            if report.workload is not None
            else "Counts and times taken from it may be too small, or hold something twice."
        )
    problems = tuple(
        f"{problem.kind}, {format_count(problem.count)}×: {problem.example}" for problem in health.problems
    )
    return Taint(title=title, consequence=consequence, problems=problems)
