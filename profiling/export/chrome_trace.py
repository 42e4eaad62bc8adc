"""The trace, byte for byte as the profiler wrote it, for Perfetto and chrome://tracing.

A trace that someone brought uncompressed is compressed, so that the file is what its name says.
"""

import gzip

from profiling.export.exporter import Exporter
from profiling.report import Analysis

_GZIP_MAGIC = b"\x1f\x8b"


def _needs(analysis: Analysis) -> str | None:
    if analysis.recording.trace_gz is None:
        return "No trace was recorded: the run ended before its profiled steps."
    return None


def write_chrome_trace(analysis: Analysis) -> bytes:
    trace_gz = analysis.recording.trace_gz
    assert trace_gz is not None, "Exporter.write asks first"
    return trace_gz if trace_gz.startswith(_GZIP_MAGIC) else gzip.compress(trace_gz, mtime=0)


EXPORTER = Exporter(
    slug="chrome_trace",
    title="Trace as the profiler wrote it, for Perfetto",
    file_name="trace.json.gz",
    media_type="application/gzip",
    encode=write_chrome_trace,
    needs=_needs,
)
