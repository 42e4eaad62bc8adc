"""What one download is: its name, its type, what it needs, and its bytes."""

from collections.abc import Callable
from dataclasses import dataclass

from profiling.report import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """One kind of file that can be made of an analysis, without torch and without a GPU.

    ``needs`` answers why the analysis has not what ``encode`` needs, or None when it has.
    """

    slug: str
    title: str
    file_name: str
    media_type: str
    encode: Callable[[Analysis], bytes]
    needs: Callable[[Analysis], str | None] = lambda analysis: None

    def lacks(self, analysis: Analysis) -> str | None:
        """Why this file cannot be made of ``analysis``, as one sentence; None when it can."""
        return self.needs(analysis)

    def write(self, analysis: Analysis) -> bytes | None:
        """The file's bytes; None when the analysis lacks what it needs."""
        return self.encode(analysis) if self.lacks(analysis) is None else None
