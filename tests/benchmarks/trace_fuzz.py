"""Twenty thousand damaged traces, each analyzed whole.

``python -m tests.benchmarks.trace_fuzz [--count N] [--first SEED]``

The sources are the traces of tests/data/traces and the hand-written ones of tests/data/quirks; the damage is that of
tests/unit/trace_mutations.py: byte flips, JSON's own signs, cuts, repeated pieces, swapped types, huge numbers, deep
nesting, repeated keys, moved times, and damaged gzip around it. A seed names a case for good.

A process of its own reads them, so that a crash or a hang is seen from outside: when it says nothing for ``LONGEST_S``
after taking a case, it is killed. Exits 1 when a case crashed, hung, or raised anything but InvalidTrace.
"""

import argparse
import gzip
import json
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

from profiling.report import analyze_trace
from profiling.trace.problems import InvalidTrace
from tests.conftest import TRACES
from tests.unit.trace_mutations import mutate

COUNT = 20_000
LONGEST_S = 2.0
START_UP_S = 30.0


def load_sources() -> list[bytes]:
    recorded = [gzip.decompress(path.read_bytes()) for path in sorted(TRACES.glob("*.json.gz"))]
    return [*recorded, *(path.read_bytes() for path in sorted((TRACES.parent / "quirks").iterdir()))]


def read_cases(first: int, last: int) -> None:
    """The child: a line before each case, a line after it. It ends with the first that raises anything else."""
    sources = load_sources()
    for seed in range(first, last):
        data = mutate(sources[seed % len(sources)], seed)
        _say(seed=seed, took=len(data))
        began = time.monotonic()
        try:
            health = analyze_trace(data).report.trace_health
            outcome: str = "no health" if health is None else health.status
        except InvalidTrace:
            outcome = "refused"
        _say(seed=seed, outcome=outcome, seconds=time.monotonic() - began)


def _say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def watch_cases(first: int, last: int) -> Iterator[dict[str, object]]:
    """One record a case: its outcome, and the seconds that it took."""
    while first < last:
        words = [sys.executable, "-m", "tests.benchmarks.trace_fuzz", "--child", f"{first}:{last}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as child:
            taken, hung = None, False
            for line in _lines(child):
                if line is None:
                    hung = True
                    break
                record = json.loads(line)
                taken = int(record["seed"])
                if "outcome" in record:
                    yield record
                    first, taken = taken + 1, None
            if hung:
                child.kill()
            errors = child.stderr.read().decode() if child.stderr else ""
        if first < last:
            if taken is None:
                raise RuntimeError(f"the reading process ended before it took case {first}: {errors[-2000:]}")
            outcome = "hung" if hung else f"ended the process with {child.returncode}"
            yield {"seed": taken, "outcome": outcome, "text": errors[-2000:]}
            first = taken + 1


def _lines(child: "subprocess.Popen[bytes]") -> Iterator[bytes | None]:
    """Lines of the child; None when it says nothing for too long."""
    assert child.stdout is not None
    pending = b""
    patience_s = START_UP_S
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(patience_s):
                yield None
                return
            piece = os.read(child.stdout.fileno(), 65536)
            if not piece:
                return
            *lines, pending = (pending + piece).split(b"\n")
            yield from lines
            if lines:
                patience_s = LONGEST_S


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        first, last = map(int, options.child.split(":"))
        read_cases(first, last)
        return 0
    outcomes: Counter[str] = Counter()
    slowest = (0.0, -1)
    bad = []
    for record in watch_cases(options.first, options.first + options.count):
        outcome = str(record["outcome"])
        outcomes[outcome] += 1
        slowest = max(slowest, (float(str(record.get("seconds", 0))), int(str(record["seed"]))))
        if outcome not in ("ok", "suspect", "unusable", "refused"):
            bad.append(record)
            print(f"case {record['seed']} {outcome}: {record.get('text', '')}", flush=True)
    print(
        f"{sum(outcomes.values()):,} damaged traces: {', '.join(f'{n:,} {name}' for name, n in outcomes.most_common())}"
    )
    print(f"slowest {slowest[0]:.2f} s (case {slowest[1]}), limit {LONGEST_S} s; {len(bad)} faults")
    return 1 if bad or slowest[0] > LONGEST_S else 0


if __name__ == "__main__":
    sys.exit(main())
