"""Kernel and operator names: short on the page, whole on hover and in copies."""

from ui.markup import Markup, element

SHORT_NAME_LENGTH = 40  # what fits a table column beside the numbers at 1280 px


def shorten_middle(name: str, limit: int = SHORT_NAME_LENGTH) -> str:
    """``name`` cut in its middle, because kernel names differ at both ends."""
    if len(name) <= limit:
        return name
    tail = (limit - 1) // 2
    return f"{name[: limit - 1 - tail]}…{name[-tail:]}"


def render_name(short_name: str, name: str) -> Markup:
    """The short name in monospace with the whole one on hover, and a button that copies the whole one."""
    code = element("code", shorten_middle(short_name), title=name)
    return element("span", code, render_copy_button(name, what="name"), class_="name")


def render_copy_button(content: str, *, what: str) -> Markup:
    """A button that puts ``content`` on the clipboard; its label is read out."""
    return element(
        "button",
        "copy",
        type="button",
        class_="copy-button",
        data_copy=content,
        aria_label=f"copy {what}",
        title=f"copy {what}",
    )
