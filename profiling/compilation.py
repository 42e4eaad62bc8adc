"""What torch.compile did in a run: how long it compiled, where its graph broke, and whether it compiled again.

Dynamo keeps counters for the whole process, so a run is what they gained since its start. They are private to torch
and read where they exist; one that is missing is None, never 0.
Source: torch._dynamo.utils of torch 2.8 to 2.14.
"""

import sys
from dataclasses import dataclass
from typing import Any

from profiling.format import format_count, format_duration
from profiling.recording import Compilation

# Dynamo's timer around the compilation of one frame, the code generation of Inductor included.
_FRAME_TIMER = "_compile.compile_inner"
_METHOD = (
    "gains of Dynamo's own counters over this run; compile time is its timer around each frame that it compiled up to "
    "the end of the first call; code that Inductor had on disk is not generated again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Dynamo's counters at one moment; None where this torch lacks one."""

    frames: int | None
    graph_breaks: int | None
    cached_graphs: int | None
    compile_s: float | None


class CompilerWatch:
    """Reads the counters at a run's start, after its first call and at its end."""

    def __init__(self, mode: str) -> None:
        """``mode``: how torch.compile is asked; empty for a backend that does not compile."""
        self.mode = mode
        self._start = _read_counts() if mode else None
        self._first: _Counts | None = None

    def read(self) -> Compilation | None:
        """What was compiled so far; the first reading is that of the first call. None: this backend compiles nothing,
        or Dynamo counted nothing of it."""
        if self._start is None:
            return None
        now = _read_counts()
        self._first = self._first or now
        if not _gain(self._start.frames, self._first.frames):
            return None
        compile_s = _gain(self._start.compile_s, self._first.compile_s)
        graph_breaks = _gain(self._start.graph_breaks, now.graph_breaks)
        cached = _gain(self._start.cached_graphs, now.cached_graphs)
        recompiles = _gain(self._first.frames, now.frames)
        return Compilation(
            mode=self.mode,
            compile_ns=None if compile_s is None else round(compile_s * 1e9),
            graph_breaks=None if graph_breaks is None else int(graph_breaks),
            recompiles=None if recompiles is None else int(recompiles),
            cached_graphs=None if cached is None else int(cached),
            method=_METHOD,
        )


def describe_compilation(compilation: Compilation) -> tuple[tuple[str, str], ...]:
    """Names and values, for a reader."""
    return (
        ("torch.compile mode", compilation.mode),
        ("compiling, in the first call", format_duration(compilation.compile_ns)),
        ("graph breaks", format_count(compilation.graph_breaks)),
        ("recompiles after the first call", format_count(compilation.recompiles)),
        ("graphs with code from the disk cache", format_count(compilation.cached_graphs)),
    )


def _gain(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _read_counts() -> _Counts:
    # Before the first compilation of a process Dynamo is not loaded, and its counters are at zero.
    if "torch._dynamo" not in sys.modules:
        return _Counts(frames=0, graph_breaks=0, cached_graphs=0, compile_s=0.0)
    import torch._dynamo.utils as dynamo

    counters: Any = getattr(dynamo, "counters", None)
    timers: Any = getattr(dynamo, "compilation_time_metrics", None)
    return _Counts(
        frames=None if counters is None else counters["frames"]["total"],
        graph_breaks=None if counters is None else sum(counters["graph_break"].values()),
        cached_graphs=None if counters is None else counters["inductor"]["fxgraph_cache_hit"],
        compile_s=None if timers is None else float(sum(timers.get(_FRAME_TIMER, ()))),
    )
