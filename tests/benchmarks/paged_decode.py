"""How fast one decode step over a block table is, against the device's own copy rate.

    python -m tests.benchmarks.paged_decode [--sweep] [--batch-size 64 --seq-len-kv 8192 …]

Bars, for B64, 32 query and 8 key/value heads, D128, 8192 tokens, bfloat16: paged_triton reads keys and values, counted
once, at 80 % or more of the rate at which a device-to-device copy reads and writes, measured in the same run; and it is
2.5 times as fast as paged_gather or more. ``--sweep`` tries launches of the kernel and prints a table of them.
"""

import argparse
import gc
import itertools
import statistics
import sys
from dataclasses import replace

from attention.backends import BACKENDS
from attention.backends.paged import build_table_tensor, fill_cache
from attention.call import build_call
from attention.inputs import build_inputs
from attention.lookup import find
from attention.paging import DecodeConfig, build_block_table, sequence_lengths, token_bytes
from attention.validation import parse_workload
from attention.workload import Workload
from profiling.correctness import check_results
from profiling.timing import measure_device

COPY_SHARE_BAR = 0.80
SPEED_BAR = 2.5
COPY_BYTES = 2 * 2**30  # far beyond any L2 cache
TOKENS, WARPS, STAGES, SPLITS = (32, 64, 128), (2, 4, 8), (2, 3, 4, 5), (1, 2, 4)


def parse_shape() -> tuple[Workload, bool]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (
        ("batch_size", 64),
        ("num_heads", 32),
        ("kv_heads", 8),
        ("seq_len_kv", 8192),
        ("head_dim", 128),
    ):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--mask-lengths", help="tokens of each sequence, as 8192,4096,…; left out all are full")
    parser.add_argument("--sweep", action="store_true", help="try launches of the Triton kernel")
    options = vars(parser.parse_args())
    sweep = options.pop("sweep")
    mask = "padding" if options["mask_lengths"] else "none"
    return parse_workload(options | {"backend": "paged_triton", "seq_len_q": 1, "mask": mask}), sweep


def draw(workload: Workload):
    """Tensors drawn on the device: the seed's own numbers take a CPU half a minute at this size."""
    import torch

    torch.manual_seed(workload.seed)
    heads = {"query": workload.num_heads, "key": workload.kv_heads, "value": workload.kv_heads}
    lengths = {"query": 1, "key": workload.seq_len_kv, "value": workload.seq_len_kv}
    query, key, value = (
        torch.randn(
            (workload.batch_size, heads[name], lengths[name], workload.head_dim),
            dtype=getattr(torch, workload.dtype),
            device="cuda",
        )
        for name in heads
    )
    return query, key, value, None


def device_ns(call) -> float:
    """Median device time of ``call`` by CUDA graph replay."""
    import torch

    call()
    torch.cuda.synchronize()
    # As if a call took 0.2 ms: ten of them in a replay, so that the events around it do not weigh.
    return statistics.median(measure_device(call, 200_000).samples_ns)


def copy_bytes_per_s() -> float:
    """Bytes read and written a second by a device-to-device copy: the faster of cudaMemcpy and a copy kernel."""
    import torch

    source = torch.zeros(COPY_BYTES // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copies = {
        "cudaMemcpy": lambda: (target.copy_(source),),
        "a kernel (torch.neg)": lambda: (torch.neg(source, out=target),),
    }
    rates = {name: 2 * COPY_BYTES / (device_ns(copy) / 1e9) for name, copy in copies.items()}
    print("copies, read and write:", ", ".join(f"{name} {rate / 1e12:.2f} TB/s" for name, rate in rates.items()))
    return max(rates.values())


def measure(slug: str, workload: Workload, tensors) -> tuple[float, str]:
    """Device time of one call in ns, and the worst error against float64 as a share of its budget."""
    import torch

    workload = replace(workload, backend=slug)
    inputs = build_inputs(workload, "cuda", tensors)
    with build_call(find(slug, BACKENDS, field="backend"), workload, inputs) as call:
        time_ns = device_ns(call)
        (delta,) = check_results(workload, inputs, call())
    gc.collect()
    torch.cuda.empty_cache()
    share = float("nan") if delta.max_abs_error is None else delta.max_abs_error / delta.error_budget
    return time_ns, f"worst error {share:.2f} of its budget" + ("" if delta.within_budget else ": WRONG")


def compare(workload: Workload, tensors, copy_rate: float, read_bytes: int) -> int:
    """Print one line a backend; 0 where the bars are met."""
    times = {}
    for slug in ("paged_triton", "paged_gather", "paged_flex"):
        times[slug], verdict = measure(slug, workload, tensors)
        rate = read_bytes / (times[slug] / 1e9)
        print(
            f"{slug:13} {times[slug] / 1e3:9.1f} µs  {rate / 1e12:5.2f} TB/s of keys and values read once, "
            f"{rate / copy_rate:6.1%} of the copy rate; {verdict}"
        )
        if "WRONG" in verdict:
            return 1
    share = read_bytes / (times["paged_triton"] / 1e9) / copy_rate
    ratio = times["paged_gather"] / times["paged_triton"]
    met = {True: "met", False: "MISSED"}
    print(f"share of the copy rate {share:.1%}, bar {COPY_SHARE_BAR:.0%}: {met[share >= COPY_SHARE_BAR]}")
    print(f"paged_gather takes {ratio:.2f} × the time, bar {SPEED_BAR}: {met[ratio >= SPEED_BAR]}")
    return 0 if share >= COPY_SHARE_BAR and ratio >= SPEED_BAR else 1


def sweep_launches(workload: Workload, tensors, copy_rate: float, read_bytes: int) -> None:
    """A table of launches, the fastest first; those that do not fit the device are named at its end."""
    import torch
    from triton.runtime.errors import OutOfResources

    from attention.backends.paged_kernel import paged_decode

    query, key, value, _ = tensors
    table = build_block_table(workload)
    caches = fill_cache(key, table), fill_cache(value, table)
    rows = build_table_tensor(table, query.device)
    lengths = torch.tensor(table.lengths, dtype=torch.int32, device=query.device)
    found, refused = [], []
    for tokens, warps, stages, splits in itertools.product(TOKENS, WARPS, STAGES, SPLITS):
        config = DecodeConfig(tokens_per_step=tokens, num_warps=warps, num_stages=stages, splits=splits)

        def call(config=config):
            return (paged_decode(query, *caches, rows, lengths, workload.softmax_scale, config),)

        try:
            found.append((device_ns(call), config))
        except OutOfResources as error:
            refused.append(f"{config}: {error}")
    print("     time   TB/s  of copy  tokens  warps  stages  splits")
    for time_ns, config in sorted(found, key=lambda pair: pair[0]):
        rate = read_bytes / (time_ns / 1e9)
        print(
            f"{time_ns / 1e3:6.1f} µs  {rate / 1e12:5.2f}  {rate / copy_rate:7.1%}  {config.tokens_per_step:6}"
            f"  {config.num_warps:5}  {config.num_stages:6}  {config.splits:6}"
        )
    print(f"{len(refused)} launches do not fit the device", *refused[:5], sep="\n  ")


def main() -> int:
    import torch

    workload, sweep = parse_shape()
    if not torch.cuda.is_available():
        sys.exit("this measures an NVIDIA GPU; torch sees none here.")
    with torch.no_grad():
        copy_rate = copy_bytes_per_s()
        torch.cuda.empty_cache()
        read_bytes = sum(sequence_lengths(workload)) * token_bytes(workload)
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {workload.describe()}")
        print(f"keys and values: {read_bytes / 2**30:.2f} GiB")
        tensors = draw(workload)
        if sweep:
            sweep_launches(workload, tensors, copy_rate, read_bytes)
            return 0
        return compare(workload, tensors, copy_rate, read_bytes)


if __name__ == "__main__":
    sys.exit(main())
