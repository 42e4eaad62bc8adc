"""Markdown pieces in which text from a trace, a machine or PyTorch cannot act as markup."""

import re
from collections.abc import Sequence

# Inside a word an underscore is only a letter, so that names stay readable in the raw text.
_MARKUP = re.compile(r"([\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w))")
# What ends a line or is collapsed by a reader of markdown; the thin space before a unit stays.
_BLANK = re.compile(r"[\t-\r\x1c-\x20\x85\u2028\u2029]+")
# What makes a line a list item, a heading or a rule; a number with decimals does not.
_LINE_START = re.compile(r"^([-+#=](?=[-+#= ]|$)|\d+(?=[.)](?: |$)))")


def escape(text: str) -> str:
    """``text`` on one line, to be read as it is."""
    line = _MARKUP.sub(r"\\\1", _one_line(text))
    return _LINE_START.sub(_escape_start, line)


def code(text: str) -> str:
    """``text`` on one line as a code span, also where it holds backticks or the bars of a table."""
    line = _one_line(text)
    if not line:
        return ""
    fence = "`" * (_longest_backtick_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", r"\|")


def code_block(text: str) -> str:
    """``text`` whole, line by line, behind a fence longer than any inside it."""
    fence = "`" * max(3, _longest_backtick_run(text) + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> str:
    """A table of cells that are markdown already; columns named in ``right`` hold numbers."""
    lines = [
        _row(headers),
        _row(["---:" if header in right else "---" for header in headers]),
        *(_row(row) for row in rows),
    ]
    return "\n".join(lines)


def bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _one_line(text: str) -> str:
    return _BLANK.sub(" ", text).strip(" ")


def _escape_start(match: re.Match[str]) -> str:
    # A digit takes no backslash: the point behind a number does.
    return f"\\{match[1]}" if not match[1].isdigit() else f"{match[1]}\\"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
