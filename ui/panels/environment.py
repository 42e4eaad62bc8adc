"""Environment: the machine, taken in the process that ran the workload, and how to run the same again."""

from profiling.machine import describe_environment, describe_kernel_source
from profiling.report_schema import Report
from profiling.workload_flags import write_command
from ui.components.facts import render_facts
from ui.components.names import render_copy_button
from ui.markup import Markup, element
from ui.panels.panel import html_panel
from ui.view import RunView


def render(view: RunView) -> Markup:
    """Machine, flags, the kernel's source, schedule, and the command that repeats the run."""
    report = view.analysis.report
    return element(
        "div",
        element("h3", "Machine"),
        render_facts(describe_environment(report.environment)) if report.environment else element("p", _missing(view)),
        _render_kernel_source(report),
        _render_protocol(report),
        _render_command(report),
        class_="att",
    )


def _missing(view: RunView) -> str:
    devices = view.analysis.report.trace_devices
    if devices:
        return f"The trace names its device: {', '.join(devices)}. Nothing else is known."
    return "The machine was not recorded."


def _render_kernel_source(report: Report) -> Markup | None:
    if report.kernel_source is None:
        return None
    facts = render_facts(describe_kernel_source(report.kernel_source))
    return element("section", element("h3", "Where the kernel came from"), facts)


def _render_protocol(report: Report) -> Markup | None:
    schedule = report.schedule
    if schedule is None:
        return None
    steps = (
        f"wait {schedule.wait}, warm-up {schedule.warmup}, active {schedule.active}; {report.steps_recorded} recorded"
    )
    return element("section", element("h3", "Profiler schedule, in steps"), element("p", steps))


def _render_command(report: Report) -> Markup | None:
    if report.workload is None:
        return None
    command = write_command(report.workload)
    return element(
        "section",
        element("h3", "The same run on the command line"),
        element("pre", command, class_="raw"),
        element("p", render_copy_button(command, what="command")),
    )


PANEL = html_panel("environment", "Environment", render)
