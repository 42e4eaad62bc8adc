"""Find a named entry in an explicit catalogue, or say what the valid names are."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Protocol, TypeVar

from attention.workload import InvalidWorkload


class Named(Protocol):
    @property
    def slug(self) -> str: ...


EntryT = TypeVar("EntryT", bound=Named)


def find(name: str, catalogue: Iterable[EntryT], *, field: str) -> EntryT:
    """The entry of ``catalogue`` whose slug is exactly ``name``.

    Raises:
        InvalidWorkload: no entry has this slug; the message lists the valid ones and the nearest.
    """
    entries = {entry.slug: entry for entry in catalogue}
    return entries[find_name(name, entries, field=field)]


def find_name(name: object, names: Iterable[str], *, field: str) -> str:
    """``name`` itself where it is one of ``names``.

    Raises:
        InvalidWorkload: it is not; the message lists the valid ones and the nearest.
    """
    valid = tuple(names)
    if isinstance(name, str) and name in valid:
        return str(name)
    nearest = get_close_matches(name, valid, n=1) if isinstance(name, str) else []
    remedy = f"did you mean {nearest[0]}? choose" if nearest else "choose"
    raise InvalidWorkload(field, name, "is not known", f"{remedy} one of {', '.join(valid)}")
