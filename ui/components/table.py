"""A table that sorts in place and scrolls inside itself.

Each cell carries its raw value, so that sorting compares numbers and not their text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from profiling.format import format_count
from ui.markup import Markup, element, join

# A kernel of a long trace has thousands of calls; a selection of the first ones is all that a screen can show.
MAX_SELECTED = 500
# A row takes 1.4 KB of HTML; a trace may have a hundred thousand names.
MAX_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading. ``help`` is read out and shown on hover; numbers align right in tabular figures."""

    title: str
    kind: Literal["text", "number"] = "text"
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """``sort_key`` None sorts last in either direction: it was not recorded."""

    content: Markup | str
    sort_key: float | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``items`` are indices into ``Trace.device_items``: selecting the row highlights them on the timeline."""

    cells: tuple[Cell, ...]
    items: tuple[int, ...] = ()


def render_table(
    columns: Sequence[Column], rows: Sequence[Row], *, caption: str, pin_first: bool = False, left_out: int = 0
) -> Markup:
    """The table as HTML; ``caption`` names it for screen readers, ``pin_first`` keeps the first column in sight.

    ``left_out``: how many rows there are beyond these, because a table shows ``MAX_ROWS``.
    """
    head = element("tr", *(_heading(index, column) for index, column in enumerate(columns)))
    body = join(_row(columns, row) for row in rows)
    table = element(
        "table",
        element("caption", caption, class_="visually-hidden"),
        element("thead", head),
        element("tbody", body),
        class_="data-table pinned" if pin_first else "data-table",
    )
    scrolled = element("div", table, class_="table-scroll", tabindex=0, role="region", aria_label=caption)
    if left_out <= 0:
        return scrolled
    note = f"The first {format_count(len(rows))} of {format_count(len(rows) + left_out)} rows; the downloads have all."
    return join((element("p", note, class_="quiet"), scrolled))


def number(content: Markup | str, value: float | None) -> Cell:
    """A cell that sorts by ``value``."""
    return Cell(content=content, sort_key=value)


def words(content: str) -> Cell:
    """A cell of plain text that sorts by itself."""
    return Cell(content=content, sort_key=content)


def join_items(items: Sequence[int]) -> str:
    """Item indices as the page's script reads them."""
    return " ".join(map(str, items[:MAX_SELECTED]))


def _heading(index: int, column: Column) -> Markup:
    button = element(
        "button", column.title, type="button", class_="sort-button", data_column=index, title=column.help or None
    )
    return element("th", button, scope="col", class_=column.kind)


def _row(columns: Sequence[Column], row: Row) -> Markup:
    cells = (
        element(
            "td",
            cell.content,
            class_=column.kind,
            data_sort="" if cell.sort_key is None else str(cell.sort_key),
        )
        for column, cell in zip(columns, row.cells, strict=True)
    )
    if not row.items:
        return element("tr", *cells)
    return element(
        "tr", *cells, class_="selectable", tabindex=0, data_items=join_items(row.items), aria_selected="false"
    )
