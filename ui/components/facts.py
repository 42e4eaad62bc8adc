"""Names and values in two columns."""

from collections.abc import Iterable

from ui.markup import Markup, element, join


def render_facts(rows: Iterable[tuple[str, Markup | str]]) -> Markup:
    """A definition list; values stand as they are given, already formatted."""
    return element(
        "dl", join(join((element("dt", name), element("dd", value))) for name, value in rows), class_="facts"
    )
