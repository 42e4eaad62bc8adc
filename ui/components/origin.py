"""Where the numbers on the page come from: the top bar and the origin line."""

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
        element("span", "runs on: ", describe_machine(environment), class_="machine"),
        duplicate,
        class_="top-bar att",
    )


def describe_machine(environment: Environment | None) -> str:
    """``NVIDIA H200 · torch 2.11.0+cu130 · CUDA 13.0``, or that it is not known yet."""
    if environment is None:
        return "not known before the first run"
    parts = [environment.device_name, f"torch {environment.torch}" if environment.torch else ""]
    parts.append(f"CUDA {environment.cuda}" if environment.cuda else "")
    return " · ".join(part for part in parts if part)


def render_origin(view: RunView) -> Markup:
    """``● recorded on NVIDIA H200, 2026-11-29`` and the workload in the field's shorthand."""
    report = view.analysis.report
    workload = report.workload
    shape = f"{workload.describe()} · {workload.direction}" if workload else ""
    return element(
        "div",
        element("span", "●", class_=f"dot {'good' if view.origin.kind == 'live' else 'calm'}", aria_hidden="true"),
        element("strong", _provenance(view, report)),
        element("span", shape, class_="shape") if shape else None,
        class_="origin att",
    )


def _provenance(view: RunView, report: Report) -> str:
    environment = report.environment
    if view.origin.kind == "opened":
        return f"opened from {view.origin.title}"
    where = environment.device_name if environment else "an unknown machine"
    date = environment.captured_at[:10] if environment and environment.captured_at else "date not recorded"
    return f"{'live' if view.origin.kind == 'live' else 'recorded'} on {where}, {date}"
