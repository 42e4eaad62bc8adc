"""How long a trace takes to become a whole report, against decoding its JSON and against HolisticTraceAnalysis.

``python -m tests.benchmarks.trace_reading [--quick] [--hta-python PYTHON]``

The large traces are tiled: copies of the six GPU traces in tests/data/traces (naive, math, efficient, flash, cudnn,
flex), one after the other in time until there are as many events as wanted. Each copy is moved later by whole
microseconds, and its correlations, its External ids and its steps get numbers of their own; nothing else is touched,
and times are written with three decimals as the profiler writes them.

Measured is CPU time of the process, which others on the machine do not stretch as they do a wall clock; each the best
of several runs, and a ratio only of numbers of this one run:
1. ``analyze_trace`` (reading, linking, health, statistics, findings, answers) against ``orjson.loads`` of the same
   bytes in the same process, with Python's garbage collector on, as a process has it, and off;
2. against HolisticTraceAnalysis 0.5 (load and kernel breakdown), each in a process of its own from the same file, with
   the peak of memory. Its cost goes with events times steps (a minute for this trace), so that for a fair comparison
   the steps of all copies but the first lose their names there. PYTHON is an interpreter that can import ``hta``;
   without one this part says so and is left out;
3. three sizes up to a million events: time an event, and peak memory.

Exits 1 when a limit is passed.
"""

import argparse
import gc
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import orjson

from profiling.report import analyze_trace

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
TILES = ("naive", "math", "efficient", "flash", "cudnn", "flex")
FIRST_US = Decimal(5_106_114_787_377)  # as of a machine that has been up for two months
EVENTS = 216_000
SIZES = (108_000, 216_000, 1_000_000)
LARGEST_RATIO_TO_ORJSON = 2.0
LARGEST_RATIO_TO_HTA = 0.4
LARGEST_MILLION_S = 8.0
LARGEST_MILLION_BYTES = 2 * 10**9
LARGEST_GROWTH_AN_EVENT = 1.5  # of the largest size against the smallest: linear but for caches and memory
SMALL_LIMIT_S = 0.05  # one shared trace; a recording of six backends then opens within a third of a second

# Not resource.getrusage: what it calls a process's peak may be its parent's.
PEAK = """
def peak_kb():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
"""
OURS = """
import sys, json, time
from pathlib import Path
from profiling.report import analyze_trace
started_kb = peak_kb()
began = time.process_time()
analysis = analyze_trace(Path(sys.argv[1]).read_bytes())
seconds = time.process_time() - began
items = len(analysis.trace.device_items)
print(json.dumps({"seconds": seconds, "started_kb": started_kb, "peak_kb": peak_kb(), "kernels": items}))
"""
THEIRS = """
import sys, json, time, logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
started_kb = peak_kb()
began = time.process_time()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
seconds = time.process_time() - began
print(json.dumps({"seconds": seconds, "started_kb": started_kb, "peak_kb": peak_kb(), "kernels": len(kernels)}))
"""


def build_tiled_trace(events: int, *, few_steps: bool = False) -> bytes:
    """A trace of about ``events`` events; see the head of this file. ``few_steps``: only those of the first copy."""
    tiles = [_load_tile(name) for name in TILES]
    head = {key: value for key, value in tiles[0].items() if key != "traceEvents"}
    parts: list[bytes] = []
    start = Decimal(0)
    while len(parts) < events:
        for tile in tiles:
            copy = len(parts)  # larger with each copy, and by more than a copy has events
            moved, start = _move(tile["traceEvents"], start or FIRST_US, copy)
            if few_steps and copy:
                moved = [event.replace(b'"ProfilerStep#', b'"step ') for event in moved]
            parts.extend(moved)
    return json.dumps(head, default=str).encode()[:-1] + b', "traceEvents": [\n' + b",\n".join(parts) + b"\n]}"


def _load_tile(name: str) -> Any:
    return json.loads(gzip.decompress((TRACES / f"{name}.json.gz").read_bytes()), parse_float=Decimal)


def _move(events: list[Any], start: Decimal, copy: int) -> tuple[list[bytes], Decimal]:
    first = min(event["ts"] for event in events)
    last = max(event["ts"] + event.get("dur", 0) for event in events)
    shift = start - first
    moved = []
    for event in events:
        args = {
            key: value + copy if key in ("correlation", "External id") else _plain(value)
            for key, value in event.get("args", {}).items()
        }
        name = event["name"]
        if name.startswith("ProfilerStep#"):
            name = f"ProfilerStep#{copy + int(name.partition('#')[2])}"
        fields = {key: value for key, value in event.items() if key not in ("ts", "dur", "args", "name")}
        text = json.dumps({**fields, "name": name, **({"args": args} if args else {})}, default=str)
        times = f', "ts": {event["ts"] + shift:.3f}' + (f', "dur": {event["dur"]:.3f}' if "dur" in event else "")
        moved.append((text[:-1] + times + "}").encode())
    return moved, start + int(last - first) + 1000


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def best_s(work: Callable[[], object], runs: int) -> float:
    """The shortest of several runs: others on the machine only ever add to one, through its caches."""
    samples = []
    for _ in range(runs):
        began = process_time()
        result = work()
        samples.append(process_time() - began)
        del result
    return min(samples)


def compare_with_orjson(data: bytes, runs: int) -> Iterator[str]:
    """Prints the first part; yields what passes a limit."""
    for collector in (True, False):
        gc.enable() if collector else gc.disable()
        decode, whole = best_s(lambda: orjson.loads(data), runs), best_s(lambda: analyze_trace(data), runs)
        ratio = whole / decode
        print(
            f"  collector {'on ' if collector else 'off'}  orjson.loads {decode:.3f} s   analyze_trace {whole:.3f} s   "
            f"ratio {ratio:.2f} (limit {LARGEST_RATIO_TO_ORJSON})"
        )
        if ratio > LARGEST_RATIO_TO_ORJSON and collector:
            yield f"{ratio:.2f} × orjson.loads"
    gc.enable()


def measure_apart(python: str, program: str, path: Path, runs: int) -> dict[str, float] | None:
    """The fastest of several processes that run ``program`` on ``path``; None: it has not what it imports."""
    found: list[dict[str, float]] = []
    for _ in range(runs):
        done = subprocess.run([python, "-c", PEAK + program, str(path)], capture_output=True, text=True, check=False)
        if "No module named 'hta'" in done.stderr:
            return None
        if done.returncode:
            raise RuntimeError(f"{python} failed with {done.returncode}: {done.stderr[-2000:]}")
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(found, key=lambda one: float(one["seconds"]))


def compare_with_hta(path: Path, python: str, runs: int) -> Iterator[str]:
    """Prints the second part; yields what passes a limit."""
    theirs = measure_apart(python, THEIRS, path, runs)
    if theirs is None:
        print(f"  left out: {python} cannot import hta; pip install HolisticTraceAnalysis==0.5.0 somewhere and name it")
        return
    ours = measure_apart(sys.executable, OURS, path, runs)
    assert ours is not None
    for name, one in (("HolisticTraceAnalysis", theirs), ("analyze_trace", ours)):
        grown = one["peak_kb"] - one["started_kb"]
        print(
            f"  {name:<22} {one['seconds']:.2f} s   peak {one['peak_kb'] / 1024:.0f} MiB, "
            f"{grown / 1024:.0f} more than before"
        )
    ratio = ours["seconds"] / theirs["seconds"]
    print(f"  ratio of times {ratio:.2f} (limit {LARGEST_RATIO_TO_HTA})")
    if ratio > LARGEST_RATIO_TO_HTA:
        yield f"{ratio:.2f} × HolisticTraceAnalysis"
    if ours["peak_kb"] > theirs["peak_kb"]:
        yield "more memory than HolisticTraceAnalysis"


def measure_growth(folder: Path, sizes: tuple[int, ...], runs: int) -> Iterator[str]:
    """Prints the third part; yields what passes a limit."""
    an_event = []
    for size in sizes:
        path = folder / f"{size}.json"
        path.write_bytes(build_tiled_trace(size))
        found = measure_apart(sys.executable, OURS, path, runs)
        assert found is not None
        an_event.append(found["seconds"] / size)
        print(
            f"  {size:>9,} events {path.stat().st_size / 1e6:7.1f} MB   {found['seconds']:.2f} s   "
            f"{an_event[-1] * 1e6:.2f} µs an event   peak {found['peak_kb'] / 1024:.0f} MiB"
        )
        if size >= 1_000_000 and found["seconds"] > LARGEST_MILLION_S:
            yield f"{found['seconds']:.1f} s for {size:,} events"
        if size >= 1_000_000 and found["peak_kb"] * 1024 > LARGEST_MILLION_BYTES:
            yield f"{found['peak_kb'] / 1024:.0f} MiB for {size:,} events"
        path.unlink()
    if an_event[-1] > LARGEST_GROWTH_AN_EVENT * an_event[0]:
        yield f"an event costs {an_event[-1] / an_event[0]:.2f} × as much in the largest trace"


def measure_small() -> Iterator[str]:
    """Prints the time of each trace that is shared; yields what passes a limit."""
    for path in sorted(TRACES.glob("*.json.gz")):
        data = path.read_bytes()
        text = gzip.decompress(data)
        decode, whole = best_s(partial(orjson.loads, text), 30), best_s(partial(analyze_trace, data), 30)
        print(f"  {path.name:<20} {len(text):>9,} bytes   orjson {decode * 1e3:6.2f} ms   report {whole * 1e3:6.2f} ms")
        if whole > SMALL_LIMIT_S:
            yield f"{whole * 1e3:.0f} ms for {path.name}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="without HolisticTraceAnalysis and the sizes")
    parser.add_argument("--hta-python", default=sys.executable, metavar="PYTHON")
    options = parser.parse_args()
    passed: list[str] = []
    print("Each shared trace, from gzip to the whole report:")
    passed += measure_small()
    data = build_tiled_trace(EVENTS)
    count = len(orjson.loads(data)["traceEvents"])
    print(f"{count:,} events, tiled, {len(data) / 1e6:.1f} MB:")
    passed += compare_with_orjson(data, options.runs)
    if not options.quick:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = folder / "tiled.json"
            path.write_bytes(build_tiled_trace(EVENTS, few_steps=True))
            print("As many events and few steps, from a file, each in a process of its own:")
            passed += compare_with_hta(path, options.hta_python, min(options.runs, 2))
            path.unlink()
            print("Growth:")
            passed += measure_growth(folder, SIZES, min(options.runs, 3))
    for limit in passed:
        print(f"LIMIT PASSED: {limit}")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
