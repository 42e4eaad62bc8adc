"""How long a trace takes to read, against decoding its JSON alone.

``python -m tests.benchmarks.trace_reading [FILE…]``

For each trace the median of repeated runs in this process: ``orjson.loads`` of the decompressed bytes, then
``read_trace`` (decompress, parse, link), health and every statistic of the report. Exits 1 when a trace of
tests/data/traces takes ``LIMIT_MS`` or more. ``--large N`` repeats the events of math.json.gz N times, for scale.
"""

import argparse
import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter_ns

import orjson

from profiling.statistics import (
    build_activity,
    build_kernel_summaries,
    build_operator_summaries,
    count_items_per_step,
    device_time_per_step_ns,
)
from profiling.trace import read_trace
from profiling.trace.health import build_health

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
LIMIT_MS = 50  # a whole recording of six backends then opens within a third of a second


def read_whole(data: bytes) -> None:
    trace = read_trace(data)
    build_health(trace, expected_steps=None)
    build_kernel_summaries(trace)
    build_operator_summaries(trace)
    build_activity(trace)
    count_items_per_step(trace)
    device_time_per_step_ns(trace)


def measure_ms(work: Callable[[bytes], object], data: bytes, runs: int) -> float:
    samples = []
    for _ in range(runs):
        start = perf_counter_ns()
        work(data)
        samples.append(perf_counter_ns() - start)
    return median(samples) / 1e6


def repeat_events(data: bytes, times: int) -> bytes:
    """The trace with its events ``times`` over, each copy later in time and with correlations of its own."""
    document = orjson.loads(gzip.decompress(data))
    events = document["traceEvents"]
    span = max(e["ts"] + e.get("dur", 0) for e in events) - min(e["ts"] for e in events)
    copies = []
    for copy in range(times):
        for event in events:
            moved = {**event, "ts": round(event["ts"] + copy * span, 3)}
            if "correlation" in event.get("args", {}):
                moved["args"] = {**event["args"], "correlation": event["args"]["correlation"] + copy * 1_000_000}
            copies.append(moved)
    return orjson.dumps({**document, "traceEvents": copies})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=101)
    parser.add_argument("--large", type=int, metavar="N")
    options = parser.parse_args()
    cases = {path.name: path.read_bytes() for path in options.files or sorted(TRACES.glob("*.json.gz"))}
    if options.large:
        cases = {f"math × {options.large}": repeat_events((TRACES / "math.json.gz").read_bytes(), options.large)}
    slow = False
    print(f"{'trace':<22}{'JSON bytes':>12}{'orjson ms':>11}{'read ms':>10}{'ratio':>7}   median of {options.runs}")
    for name, data in cases.items():
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        decode = measure_ms(orjson.loads, text, options.runs)
        whole = measure_ms(read_whole, data, options.runs)
        slow |= whole >= LIMIT_MS and not options.large and not options.files
        print(f"{name:<22}{len(text):>12,}{decode:>11.3f}{whole:>10.2f}{whole / decode:>7.1f}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
