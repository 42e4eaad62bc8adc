"""A profiler trace, read without torch."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from profiling.trace.events import Trace
from profiling.trace.link import link_trace
from profiling.trace.parse import parse_trace
from profiling.trace.problems import ProblemLog


def read_trace(data: bytes, label: str = "attn_fwd") -> Trace:
    """The linked trace in ``data``, plain JSON or gzip; ``label`` names the span around each step's call.

    Where the trace has no ``ProfilerStep#N`` spans, each outermost span of that label is a step.

    Raises:
        InvalidTrace: the bytes are not a trace.
    """
    with _collector_paused():
        log = ProblemLog()
        return link_trace(parse_trace(data, log), label, log)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without Python's cyclic garbage collector: reading makes many objects and no cycle, and each of its walks over
    all that the process holds finds nothing.

    Who finds the collector off leaves it off, so that uses may nest. Of two threads the first to end turns it on again,
    and the other then reads with it: slower, and right all the same.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
