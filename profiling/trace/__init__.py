"""A profiler trace, read without torch."""

from profiling.trace.events import Trace
from profiling.trace.link import link_trace
from profiling.trace.parse import parse_trace


def read_trace(data: bytes, label: str = "attn_fwd") -> Trace:
    """The linked trace in ``data``, plain JSON or gzip; ``label`` names the span around each step's call.

    Raises:
        InvalidTrace: the bytes are not a trace.
    """
    return link_trace(parse_trace(data), label)
