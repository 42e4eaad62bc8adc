"""Recorded runs that ship with the page, so that it shows a real GPU's work before anything ran."""

import logging
from dataclasses import dataclass
from pathlib import Path

from profiling.recording import Recording, parse_recording
from profiling.report import analyze_recording
from ui.view import Origin, RunView

SUFFIX = ".recording.json.gz"
FIRST = "tutorial_sdpa_auto"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryEntry:
    slug: str
    title: str
    recording: Recording

    def view(self) -> RunView:
        """The entry as the page shows it."""
        origin = Origin(kind="recorded", title=self.title)
        return RunView(analysis=analyze_recording(self.recording), origin=origin)


def read_gallery(folder: Path) -> tuple[GalleryEntry, ...]:
    """Every recording in ``folder``, the tutorial's first; a missing folder is an empty gallery.

    A file that is not a recording is left out with a warning in the log, so that the page still starts.
    """
    entries = []
    for path in sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: (not path.name.startswith(f"{FIRST}."), path.name)):
        try:
            recording = parse_recording(path.read_bytes())
        except (ValueError, OSError) as problem:
            _log.warning("%s is not a recording of this version and is left out: %s", path, problem)
            continue
        slug = path.name.removesuffix(SUFFIX)
        entries.append(GalleryEntry(slug=slug, title=_title(slug, recording), recording=recording))
    return tuple(entries)


def _title(slug: str, recording: Recording) -> str:
    if recording.workload is None:
        return slug
    where = f" · {recording.environment.device_name}" if recording.environment else ""
    return f"{recording.workload.backend} · {recording.workload.describe()}{where}"
