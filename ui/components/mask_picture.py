"""A small picture of a mask: which keys each query may attend to, drawn as inline SVG."""

from collections.abc import Sequence

from ui.markup import Markup, element, join

_CELL = 8


def render_mask_picture(allowed: Sequence[Sequence[bool]], *, title: str) -> Markup:
    """``allowed`` is ``[seq_len_q, seq_len_kv]``; filled cells may be attended to.

    ``title`` says in words what the picture shows.
    """
    rows = len(allowed)
    columns = len(allowed[0]) if rows else 0
    cells = (
        element(
            "rect",
            x=column * _CELL,
            y=row * _CELL,
            width=_CELL - 1,
            height=_CELL - 1,
            class_="mask-allowed" if is_allowed else "mask-blocked",
        )
        for row, line in enumerate(allowed)
        for column, is_allowed in enumerate(line)
    )
    return element(
        "svg",
        element("title", title),
        join(cells),
        class_="mask-picture",
        viewBox=f"0 0 {columns * _CELL} {rows * _CELL}",
        width=columns * _CELL,
        height=rows * _CELL,
        role="img",
        aria_label=title,
    )
