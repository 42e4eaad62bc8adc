"""What stands above a panel's numbers: that its trace is suspect, and what the file does not hold for it."""

from profiling.lacking import Topic, find_lacks
from profiling.taint import describe_taint
from ui.markup import Markup, element
from ui.view import RunView

# Panels with numbers that come from the trace.
TAINTED_PANELS = frozenset({"summary", "kernels", "operators", "timeline", "compare_traces"})
# What each panel needs of a file; the ones that a trace alone cannot fill need more than a trace.
NEEDS: dict[str, tuple[Topic, ...]] = {
    "summary": ("steps", "label", "device"),
    "kernels": ("device", "steps", "properties"),
    "operators": ("operators", "steps", "shapes"),
    "timeline": ("steps", "label", "device"),
    "latency": ("clocks",),
    "correctness": ("values",),
    "memory": ("memory",),
    "backends": ("call",),
    "environment": ("machine",),
}


def render_banner(view: RunView) -> Markup:
    """The whole warning, for the page's head; empty where the trace is sound."""
    taint = describe_taint(view.analysis.report)
    if taint is None:
        return Markup("")
    return element(
        "section",
        element("h3", f"▲ {taint.title}"),
        element("p", taint.consequence),
        element("ul", *(element("li", problem) for problem in taint.problems)),
        class_="notice bad-edge att taint",
        role="status",
    )


def render_panel_note(view: RunView, slug: str) -> Markup:
    """The lines above one panel; empty where its trace is sound and whole."""
    lines = []
    taint = describe_taint(view.analysis.report)
    if taint is not None and slug in TAINTED_PANELS:
        lines.append(element("p", f"▲ {taint.title}. {taint.consequence}", class_="warn taint"))
    lines += [
        element("p", f"ℹ {lack.sentence}") for lack in find_lacks(view.analysis) if lack.topic in NEEDS.get(slug, ())
    ]
    return element("div", *lines, class_="att panel-note") if lines else Markup("")
