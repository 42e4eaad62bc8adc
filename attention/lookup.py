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
    if name in entries:
        return entries[name]
    nearest = get_close_matches(name, entries, n=1)
    remedy = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise InvalidWorkload(field, name, "is not known", f"{remedy}choose one of {', '.join(entries)}")
