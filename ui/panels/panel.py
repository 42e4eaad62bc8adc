"""What a panel is: values made of a view by a pure function, and the components that show them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.markup import Markup
from ui.view import RunView

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One tab.

    ``render`` gives one value a component and touches neither torch nor the browser; ``layout`` makes the
    components with their first values, None for each before there is anything to show.
    ``stays_mounted``: the tab's content listens to selections, so it must exist while the tab is closed.
    """

    slug: str
    title: str
    render: Callable[[RunView], Values]
    layout: Callable[[Values | None], tuple[gr.components.Component, ...]]
    stays_mounted: bool = False


def html_panel(slug: str, title: str, render: Callable[[RunView], Markup], *, stays_mounted: bool = False) -> Panel:
    """A panel of a single HTML block, which is most of them."""

    def layout(values: Values | None) -> tuple[gr.components.Component, ...]:
        return (gr.HTML(values[0] if values else "", elem_id=f"panel-{slug}", apply_default_css=False),)

    return Panel(
        slug=slug, title=title, render=lambda view: (render(view),), layout=layout, stays_mounted=stays_mounted
    )
