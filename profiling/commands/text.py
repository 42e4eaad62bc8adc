"""Plain text for a terminal: aligned columns, wrapped paragraphs, and no control characters from a trace."""

import re
import textwrap
from collections.abc import Sequence

WIDTH = 110
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """``text`` without characters that would move a cursor, colour a terminal or reverse what is read."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def shorten(text: str, width: int) -> str:
    """``text`` on one line, its middle left out where it is wider than ``width``: both ends tell kernels apart."""
    line = clean(" ".join(text.split()))
    if len(line) <= width:
        return line
    head = width // 2
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def align(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns two spaces apart; those at the positions ``right`` hold numbers. The first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def wrap(text: str, *, indent: str = "") -> str:
    """One paragraph, filled to the width."""
    return textwrap.fill(
        clean(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,  # a kernel's name stays one word to search for
        break_on_hyphens=False,
    )


def quote(text: str, *, indent: str = "    ") -> str:
    """``text`` line by line as it is, indented."""
    return textwrap.indent(clean(text.strip()), indent)
