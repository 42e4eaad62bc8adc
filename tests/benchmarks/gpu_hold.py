"""How long a run holds the GPU, and how our device clock compares with Triton's, on the tutorial's case.

    python -m tests.benchmarks.gpu_hold

Each line is measured in this one process after one warm-up run. Bars: one run at most 1.0 s, six backends in one
entry at most 4 s.
"""

import statistics
import sys
import time

from attention.backends import BACKENDS
from attention.inputs import build_inputs
from attention.validation import default_fields, parse_workload
from profiling.recorder import record, warm_up
from profiling.recording import Recording, RunRequest

SIX = ("naive", "naive_inplace", "sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
ONE_RUN_BAR_S, SIX_BAR_S = 1.0, 4.0


def workload(backend: str):
    return parse_workload(default_fields("cuda") | {"backend": backend})


def run(*backends: str) -> list[Recording]:
    request = RunRequest(workloads=tuple(workload(backend) for backend in backends))
    return [item for item in record(request) if isinstance(item, Recording)]


def do_bench_cudagraph_ns(backend: str) -> float:
    import torch
    from triton.testing import do_bench_cudagraph

    entry = next(entry for entry in BACKENDS if entry.slug == backend)
    call_context = entry.build(workload(backend), build_inputs(workload(backend), "cuda"))
    with torch.no_grad(), call_context as call, torch.cuda.stream(torch.cuda.Stream()):
        return do_bench_cudagraph(call, return_mode="median") * 1e6


def main() -> None:
    began = time.perf_counter()
    environment = warm_up()
    if environment.device != "cuda":
        sys.exit("this measures an NVIDIA GPU; torch sees none here.")
    print(f"warm-up {time.perf_counter() - began:.2f} s on {environment.device_name}, torch {environment.torch}")
    for backend in BACKENDS:
        if not backend.is_probed and not backend.slug.startswith("flex"):
            continue  # compiling and capturing have tests of their own, and no bar
        cold = run(backend.slug)[0]
        if cold.latency.device is None:  # refused, such as decoding for 1024 query rows
            print(f"{backend.slug:15} {cold.failures[0].message}")
            continue
        warm = run(backend.slug)[0]
        stages = " ".join(f"{entry.stage} {entry.wall_ns / 1e6:.0f}" for entry in warm.ledger)
        device_ns = statistics.median(warm.latency.device.samples_ns)
        theirs_ns = do_bench_cudagraph_ns(backend.slug)
        print(
            f"{backend.slug:15} first {cold.gpu_seconds:.2f} s, warm {warm.gpu_seconds:.2f} s "
            f"({warm.gpu_seconds / ONE_RUN_BAR_S:.2f} of the bar); device {device_ns / 1e3:.1f} µs, "
            f"{device_ns / theirs_ns:.3f} × do_bench_cudagraph {theirs_ns / 1e3:.1f} µs; stages in ms: {stages}"
        )
    began = time.perf_counter()
    recordings = run(*SIX)
    seconds = time.perf_counter() - began
    held = sum(recording.gpu_seconds for recording in recordings)
    print(f"six backends in one entry: {seconds:.2f} s wall, {held:.2f} s held ({seconds / SIX_BAR_S:.2f} of the bar)")


if __name__ == "__main__":
    main()
