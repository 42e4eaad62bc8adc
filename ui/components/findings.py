"""The findings: what fired first, by severity, then what was looked at and found clear, then what could not be seen."""

from profiling.report_schema import Evidence, RuleVerdict
from ui.components.table import join_items
from ui.markup import Markup, element
from ui.view import RunView

# A shape as well as a colour, so that neither is needed to read the other.
_SEVERITY = {"error": ("■", "bad", "error"), "warning": ("▲", "warn", "warning"), "info": ("ℹ", "calm", "note")}
_SEVERITY_ORDER = ("error", "warning", "info", None)


def render_findings(view: RunView) -> Markup:
    """The findings block; empty where nothing was evaluated."""
    verdicts = view.analysis.report.verdicts
    if not verdicts or view.was_refused:
        return Markup("")
    fired = sorted(
        (verdict for verdict in verdicts if verdict.status == "fired"),
        key=lambda verdict: _SEVERITY_ORDER.index(verdict.severity),
    )
    clear = [verdict for verdict in verdicts if verdict.status == "clear"]
    blind = [verdict for verdict in verdicts if verdict.status == "not_evaluated"]
    return element(
        "section",
        element("h3", "Findings"),
        element("ul", *(_render_fired(verdict) for verdict in fired), class_="findings") if fired else None,
        _render_checks(clear, blind),
        class_="att",
        aria_label="findings",
    )


def _render_fired(verdict: RuleVerdict) -> Markup:
    severity = verdict.severity or "info"
    mark, tone, word = _SEVERITY[severity]
    said = element("span", element("span", f"{verdict.title}. ", class_="title"), verdict.explanation)
    evidence = [_render_evidence(entry) for entry in verdict.evidence]
    basis = (
        element("ul", *evidence) if evidence else None,
        element("div", f"→ {verdict.advice}") if verdict.advice else None,
        element("div", verdict.source, class_="quiet") if verdict.source else None,
    )
    # What calls for no action keeps to one line until it is asked for: the tabs must stay in sight.
    body = (
        element("details", element("summary", said), *basis)
        if severity == "info" and any(basis)
        else element("div", said, *basis)
    )
    return element("li", element("span", mark, class_=f"mark {tone}", role="img", aria_label=word), body)


def _render_evidence(evidence: Evidence) -> Markup:
    button = None
    if evidence.items or evidence.operators:
        button = element(
            "button",
            "show on timeline",
            type="button",
            class_="plain",
            # The items are what took the time; where there are none, the operators are.
            data_show_items=join_items(evidence.items) if evidence.items else None,
            data_show_operators=None if evidence.items else join_items(evidence.operators),
        )
    return element("li", evidence.text, " " if button else None, button)


def _render_checks(clear: list[RuleVerdict], blind: list[RuleVerdict]) -> Markup:
    summary = f"✓ {len(clear)} {'check' if len(clear) == 1 else 'checks'} clear · {len(blind)} not evaluated"
    return element(
        "details",
        element("summary", summary),
        element(
            "ul",
            *(element("li", f"✓ {verdict.title}: {verdict.explanation}") for verdict in clear),
            *(element("li", f"– {verdict.title}, not evaluated: {verdict.explanation}") for verdict in blind),
        ),
        class_="checks",
    )
