"""Runs that the page may still be asked about: the gallery's, and the latest that were run or opened."""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable

from profiling.recording import Recording
from profiling.report import analyze_recording
from ui.gallery import GalleryEntry
from ui.view import Origin, RunView

# A run's trace is some 50 kB; one that someone opened may be as large as an upload.
MOST_BYTES = 512 * 2**20
MOST_RUNS = 1000


class KeptRuns:
    """Key -> run, for the page's own state: a key is short, and no visitor can name another's.

    The oldest go first when there are too many. Recordings are kept and not their analyses, which take some twenty
    times as much memory and are made again in milliseconds.
    """

    def __init__(self, gallery: Iterable[GalleryEntry]) -> None:
        self._gallery = {entry.slug: entry for entry in gallery}
        self._runs: OrderedDict[str, tuple[Recording, Origin]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, view: RunView) -> str:
        """The key under which ``find`` answers this run."""
        key = uuid.uuid4().hex
        with self._lock:
            self._runs[key] = (view.analysis.recording, view.origin)
            while len(self._runs) > MOST_RUNS or (len(self._runs) > 1 and self._count_bytes() > MOST_BYTES):
                self._runs.popitem(last=False)
        return key

    def find(self, key: str) -> RunView | None:
        """The run of ``key``, a gallery entry's slug or one that ``keep`` gave; None: it is no longer kept."""
        if key in self._gallery:
            return self._gallery[key].view()
        with self._lock:
            found = self._runs.get(key)
        if found is None:
            return None
        recording, origin = found
        return RunView(analysis=analyze_recording(recording), origin=origin)

    def _count_bytes(self) -> int:
        return sum(len(recording.trace_gz or b"") for recording, _ in self._runs.values())
