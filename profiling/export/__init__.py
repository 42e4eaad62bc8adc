"""Downloads: one file a kind, listed in the order in which they are offered."""

from profiling.export import (
    bundle,
    chrome_trace,
    kernels_csv,
    recording_json,
    replay_script,
    report_json,
    report_markdown,
)
from profiling.export.exporter import Exporter

_FILES: tuple[Exporter, ...] = (
    chrome_trace.EXPORTER,
    report_json.EXPORTER,
    report_markdown.EXPORTER,
    kernels_csv.EXPORTER,
    replay_script.EXPORTER,
    recording_json.EXPORTER,
)

EXPORTERS: tuple[Exporter, ...] = (*_FILES, bundle.build_bundle(_FILES))

__all__ = ["EXPORTERS", "Exporter"]
