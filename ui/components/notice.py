"""Refusals and failures, calm and complete: what happened, PyTorch's own words, and what to do."""

from attention.backends import Decision
from profiling.measured_unlocks import list_changes
from profiling.recording import Failure
from ui.markup import Markup, element, join
from ui.view import RunView

_TITLES = {
    "refused": "{backend} did not run",
    "out_of_memory": "The device ran out of memory",
    "invalid": "This does not fit this device",
    "stopped": "Stopped",
    "timeout": "The run took too long and was ended",
    "crashed": "The process that runs the workload died",
    "quota": "No GPU time is left for now",
    "unavailable": "Something this run needs is not here",
    "error": "A stage failed",
}


def render_notices(view: RunView) -> Markup:
    """One notice a failure, in the order of the stages; empty where nothing failed."""
    report = view.analysis.report
    decision = next((entry for entry in report.decisions if entry.backend == report.requested_backend), None)
    changes = () if decision is None else list_changes(decision, report.unlock_measurements)
    return join(_render_failure(failure, report.requested_backend, decision, changes) for failure in report.failures)


def render_message(title: str, message: str, *, hint: str = "", calm: bool = False) -> Markup:
    """A notice about something that is not a recording's failure, such as a file that is not a trace.

    ``calm``: the visitor asked for it.
    """
    return element(
        "section",
        element("h3", title),
        element("p", message),
        element("p", f"→ {hint}") if hint else None,
        class_="notice att" if calm else "notice bad-edge att",
        role="status",
    )


def _render_failure(
    failure: Failure, backend: str | None, decision: Decision | None, changes: tuple[str, ...]
) -> Markup:
    refused = failure.kind == "refused"
    title = _TITLES[failure.kind].format(backend=backend or "The backend")
    body: list[Markup | None] = [element("h3", title)]
    raw = failure.message
    if refused and decision is not None:
        body.append(element("p", decision.reason))
        raw = decision.raw_message or failure.message
    if refused:
        body += [element("p", "PyTorch said:", class_="quiet"), element("pre", raw, class_="raw")]
    else:
        body += [
            element("p", f"In stage “{failure.stage}”. What was recorded before it stands below.", class_="quiet"),
            element("pre", raw, class_="raw"),
        ]
    for change in changes if refused else ():
        body.append(element("p", f"Change one thing: {change}"))
    if failure.hint:
        body.append(element("p", f"→ {failure.hint}"))
    if refused:
        button = element("button", "every backend's verdict", type="button", class_="plain", data_open_tab="backends")
        body.append(element("p", button))
    calm = failure.kind in ("refused", "stopped", "quota", "invalid", "unavailable")
    return element("section", *body, class_=f"notice att{'' if calm else ' bad-edge'}", role="status")
