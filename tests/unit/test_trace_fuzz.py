"""Two thousand damaged traces, each analyzed whole: a report or the one typed error, and no hang."""

import gzip
import time
from functools import cache

import pytest

from profiling.report import analyze_trace
from profiling.trace.problems import InvalidTrace
from tests.conftest import TRACES
from tests.unit.trace_builder import H200, two_steps, write
from tests.unit.trace_mutations import mutate

BATCHES, BATCH = 20, 100
LONGEST_S = 2.0


@cache
def sources() -> tuple[bytes, ...]:
    recorded = (gzip.decompress((TRACES / f"{name}.json.gz").read_bytes()) for name in ("flex", "cpu_flash"))
    quirks = [path.read_bytes() for path in sorted((TRACES.parent / "quirks").iterdir())]
    return (write(two_steps(), deviceProperties=[H200]), *recorded, *quirks)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_damaged_trace_gives_a_report_or_the_typed_error(batch: int) -> None:
    read = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        data = mutate(sources()[seed % len(sources())], seed)
        began = time.process_time()
        refusal = "not refused"
        try:
            analysis = analyze_trace(data)
        except InvalidTrace as error:
            refusal = str(error)
        else:
            read += 1
            assert analysis.report.trace_health is not None, seed
        assert refusal.strip(), seed
        assert "\n" not in refusal, seed
        assert time.process_time() - began < LONGEST_S, seed
    assert 0 < read < BATCH  # neither all of it harmless nor all of it refused
