"""HTML that is escaped by construction: text becomes text, and only ``element`` makes tags.

Names from a trace are anyone's text, so no module of the page joins HTML strings by hand.
"""

from collections.abc import Iterable
from html import escape

_VOID_TAGS = frozenset({"br", "col", "hr", "img", "input", "wbr"})


class Markup(str):
    """Text that already is HTML; everything else gets escaped on its way into an element."""

    __slots__ = ()


Child = Markup | str | int | None
Attribute = str | int | float | bool | None


def text(value: object) -> Markup:
    """``value`` as HTML text."""
    return value if isinstance(value, Markup) else Markup(escape(str(value), quote=True))


def join(children: Iterable[Child], separator: str = "") -> Markup:
    """All children in a row; None is left out."""
    return Markup(text(separator).join(text(child) for child in children if child is not None))


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """``<tag …>children</tag>``.

    Attribute names lose a trailing underscore (``class_``) and turn others into hyphens (``data_items``).
    An attribute that is None or False is left out; True gives the bare name.
    """
    shown = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID_TAGS:
        return Markup(f"<{tag}{shown}>")
    return Markup(f"<{tag}{shown}>{join(children)}</{tag}>")


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value), quote=True)}"'
