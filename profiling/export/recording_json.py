"""The recording itself, so that this run can be opened again: every report is built from it alone."""

from profiling.export.exporter import Exporter
from profiling.recording import write_recording
from profiling.report import Analysis


def write_recording_json(analysis: Analysis) -> bytes:
    return write_recording(analysis.recording)


EXPORTER = Exporter(
    slug="recording",
    title="The whole recording, to open again in the app",
    file_name="recording.json.gz",
    media_type="application/gzip",
    encode=write_recording_json,
)
