"""Quotes that stand bare inside a JSON string, as in ``"name": "model["layer"]"``.

What a string is in (a key, a member of an object, an element of a list) says what must follow the quote that ends it;
every quote before that one belongs to the text. Where a quote might end its string and what comes after it is no JSON,
there is more than one reading, and nothing is repaired; nor in keys, which are the profiler's own.
"""

import re
from dataclasses import dataclass

_MARK = re.compile(r'["{}\[\],:]')
_ESCAPE_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Follows:
    """What stands behind the quote that ends a string, and what might."""

    surely: re.Pattern[str]
    maybe: re.Pattern[str]


_KEY = _Follows(re.compile(r"\s*:"), re.compile(""))
_MEMBER = _Follows(re.compile(r'\s*(?:\}|,\s*"(?:[^"\\]|\\.)*"\s*:)', re.DOTALL), re.compile(r"\s*[,}]"))
_ELEMENT = _Follows(re.compile(r"\s*[,\]]"), re.compile(r"\s*[,\]]"))


def find_bare_quotes(text: str) -> list[int]:
    """Positions of the bare quotes in the JSON value that ``text`` starts with; empty when it is not sure."""
    bare: list[int] = []
    around: list[str] = []
    is_key = False
    position = 0
    while mark := _MARK.search(text, position):
        position = mark.end()
        match mark[0]:
            case '"':
                in_object = bool(around) and around[-1] == "{"
                end = _find_end(text, position, _KEY if is_key else _MEMBER if in_object else _ELEMENT, bare)
                if end is None:
                    return []
                position = end
            case "{" | "[":
                around.append(mark[0])
                is_key = mark[0] == "{"
            case "}" | "]":
                if len(around) < 2:
                    return bare
                around.pop()
                is_key = False
            case ",":
                is_key = bool(around) and around[-1] == "{"
            case ":":
                is_key = False
    return bare


def _find_end(text: str, position: int, follows: _Follows, bare: list[int]) -> int | None:
    """Where the string that begins at ``position`` ends, its bare quotes added to ``bare``; None: not sure."""
    for quote in _ESCAPE_OR_QUOTE.finditer(text, position):
        if quote[0] != '"':
            continue
        if follows.surely.match(text, quote.end()):
            return quote.end()
        if follows.maybe.match(text, quote.end()):
            return None
        bare.append(quote.start())
    return None
