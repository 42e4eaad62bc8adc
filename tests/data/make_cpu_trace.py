"""Record the CPU traces of tests/data/traces: ``python tests/data/make_cpu_trace.py``. Needs torch, no GPU.

One workload (B1 H4 S256 D64 float32 causal, no_grad), schedule wait 1 / warmup 1 / active 3, each step labelled
``attn_fwd``: ``cpu_flash.json.gz`` is SDPA as it chooses on a CPU, ``cpu_naive.json.gz`` masks out of place.
"""

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

TRACES = Path(__file__).parent / "traces"
WARM_UP_CALLS = 10


def record(call: Callable[[], object], path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    for _ in range(WARM_UP_CALLS):
        call()
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3)) as profiler:
        for _ in range(5):
            with record_function("attn_fwd"):
                call()
            profiler.step()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(raw))
        document = json.loads(raw.read_bytes())
    for name in ("traceName", "host_name"):  # what they say of the recording machine is no part of the test
        document.pop(name, None)
    path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))


def main() -> None:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 4, 256, 64, generator=generator) for _ in range(3))
    hidden = torch.ones(256, 256, dtype=torch.bool).triu(1)

    def naive() -> torch.Tensor:
        scores = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
        return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ value

    with torch.no_grad():
        record(lambda: scaled_dot_product_attention(query, key, value, is_causal=True), TRACES / "cpu_flash.json.gz")
        record(naive, TRACES / "cpu_naive.json.gz")


if __name__ == "__main__":
    main()
