"""A file that a visitor brings: a profiler trace, or a recording that this app wrote."""

from profiling.recording import parse_recording
from profiling.report import Analysis, analyze_recording, analyze_trace
from profiling.trace.parse import InvalidTrace


def open_file(data: bytes) -> Analysis:
    """The analysis of a trace or of a recording.

    Raises:
        InvalidTrace: the bytes are neither.
    """
    try:
        # First, because reading a trace bounds what the file may expand to.
        return analyze_trace(data)
    except InvalidTrace as problem:
        try:
            recording = parse_recording(data)
        except (ValueError, OSError, EOFError):
            raise problem from None
        return analyze_recording(recording)
