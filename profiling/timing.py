"""The un-profiled clocks: device time by CUDA-graph replay, submission and wall time on the host.

An event window around one eager call measures the slower of host and device, so device time is taken where the
host cannot be the limit: the call is captured into a CUDA graph and replayed.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from profiling.recording import Samples

if TYPE_CHECKING:
    import torch

    AttentionCall = Callable[[], tuple[torch.Tensor, ...]]

# Enough samples for a quartile; few enough that six backends stay within seconds.
SAMPLES_MOST = 30
SAMPLES_LEAST = 5
# A clock stops taking samples after this long, once it has SAMPLES_LEAST.
CLOCK_LIMIT_S = 0.1
CPU_CLOCK_LIMIT_S = 0.6
# One replay lasts about this long, so that the events around it and its start, 8 µs together on an H200, weigh
# under 1 %.
REPLAY_LEAST_NS = 2_000_000
CALLS_PER_REPLAY_MOST = 64
# The tutorial's three, so that lazy set-up of the first calls stays out of every clock.
WARMUP_CALLS = 3
# Before capture: lazy workspaces must exist, and a capture may not create them.
CAPTURE_WARMUP_CALLS = 2


def measure_host_clocks(call: "AttentionCall", device: str) -> tuple[Samples | None, Samples]:
    """Submission time (None on a CPU, where the call itself is the work) and wall time, from the same calls."""
    synchronize = _synchronizer(device)
    submission: list[int] = []
    wall: list[int] = []
    limit_ns = int((CPU_CLOCK_LIMIT_S if device == "cpu" else CLOCK_LIMIT_S) * 1e9)
    began = time.perf_counter_ns()
    while len(wall) < SAMPLES_MOST:
        synchronize()
        start = time.perf_counter_ns()
        output = call()
        returned = time.perf_counter_ns()
        synchronize()
        end = time.perf_counter_ns()
        del output
        submission.append(returned - start)
        wall.append(end - start)
        if len(wall) >= SAMPLES_LEAST and end - began > limit_ns:
            break
    wall_samples = Samples(
        samples_ns=tuple(wall), method="host clock from the call to the end of its work, idle device"
    )
    if device == "cpu":
        return None, Samples(samples_ns=tuple(wall), method="host clock around the call")
    method = "host clock until the call returns, idle device"
    return Samples(samples_ns=tuple(submission), method=method), wall_samples


def measure_device(call: "AttentionCall", wall_ns: int, *, holds_graph: bool = False) -> Samples:
    """Device time of one call; ``wall_ns`` is a first guess of it, to choose how many calls one replay holds.

    With ``holds_graph`` the call replays a CUDA graph itself, which no other graph can capture: as many calls in a
    row stand for the one replay, and a host that is slower than the device shows in their time.

    Raises:
        RuntimeError: the call cannot be captured into a CUDA graph.
    """
    import torch

    calls = max(1, min(CALLS_PER_REPLAY_MOST, REPLAY_LEAST_NS // max(1, wall_ns)))
    replay = (lambda: [call() for _ in range(calls)]) if holds_graph else _capture(call, calls).replay
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    replay()
    torch.cuda.synchronize()
    samples: list[int] = []
    began = time.perf_counter_ns()
    while len(samples) < SAMPLES_MOST:
        start.record()
        replay()
        end.record()
        end.synchronize()
        samples.append(round(start.elapsed_time(end) * 1e6 / calls))
        if len(samples) >= SAMPLES_LEAST and time.perf_counter_ns() - began > CLOCK_LIMIT_S * 1e9:
            break
    method = f"CUDA graph replay, {calls} calls a replay, CUDA events"
    if holds_graph:
        method = f"{calls} calls in a row, each a replay of the backend's own CUDA graph, CUDA events"
    return Samples(samples_ns=tuple(samples), method=method, l2="warm")


@cache
def _capture_stream() -> "torch.cuda.Stream":
    """One for the life of the process: cuBLAS keeps a workspace of 32 MiB for every stream that it met."""
    import torch

    return torch.cuda.Stream()


def _capture(call: "AttentionCall", calls: int) -> "torch.cuda.CUDAGraph":
    import torch

    stream = _capture_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(CAPTURE_WARMUP_CALLS):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                call()
    except RuntimeError:
        _capture_stream.cache_clear()  # what a broken capture leaves of its stream must not meet the next one
        # cuBLAS keeps a workspace a stream; the given-up stream's would stay for the life of the process.
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()
        raise
    return graph


def _synchronizer(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    import torch

    return torch.cuda.synchronize
