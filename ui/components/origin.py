"""Where the numbers on the page come from: the top bar and the origin line."""

from profiling.machine import describe_versions
from profiling.recording import Environment
from profiling.report_schema import Report
from ui.markup import Markup, element
from ui.view import RunView

PURPOSE = "what this attention call really ran, what it cost, and whether the answer was right"


def render_top_bar(environment: Environment | None, *, space_id: str | None) -> Markup:
    """Name, purpose, the machine that live runs use, and Duplicate on a Space."""
    duplicate = None
    if space_id:
        duplicate = element(
            "a",
            "Duplicate this Space",
            href=f"https://huggingface.co/spaces/{space_id}?duplicate=true",
            target="_blank",
            rel="noopener",
        )
    return element(
        "header",
        element("h1", "AttnScope"),
        element("span", PURPOSE, class_="purpose"),
        element("span", "runs on: ", _describe_host(environment), class_="machine"),
        duplicate,
        class_="top-bar att",
    )


def _describe_host(environment: Environment | None) -> str:
    if environment is None:
        return "not known before the first run"
    return f"{environment.device_name} · {describe_versions(environment)}"


def render_origin(view: RunView) -> Markup:
    """``● recorded on NVIDIA H200, 2026-11-29``, the workload in the field's shorthand, and the versions."""
    report = view.analysis.report
    workload = report.workload
    shape = f"{workload.describe()} · {workload.direction}" if workload else ""
    dot = element("span", "● ", class_=f"dot {'good' if view.origin.kind == 'live' else 'calm'}", aria_hidden="true")
    return element(
        "div",
        element("strong", dot, _provenance(view, report)),
        element("span", shape, class_="shape") if shape else None,
        element("span", describe_versions(report.environment), class_="quiet") if report.environment else None,
        class_="origin att",
    )


def _provenance(view: RunView, report: Report) -> str:
    environment, trace = report.environment, view.analysis.trace
    where = environment.device_name if environment else "an unknown machine"
    date = environment.captured_at[:10] if environment and environment.captured_at else "date not recorded"
    if view.origin.kind == "live":
        return f"live on {where}, {date}"
    recorded = f"recorded on {where}, {date}"
    if view.origin.kind == "recorded":
        return recorded
    if environment is None and trace is not None and trace.devices:
        recorded = f"recorded on {', '.join(device.name for device in trace.devices)}"
    return f"opened from {view.origin.title}, {recorded}"
