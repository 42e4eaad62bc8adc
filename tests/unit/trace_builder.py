"""Small traces for tests: events in microseconds, as the profiler writes them."""

import json
from typing import Any

from profiling.trace import read_trace
from profiling.trace.events import Trace

HOST = {"pid": 10, "tid": 10}
H200 = {
    "id": 0,
    "name": "NVIDIA H200",
    "totalGlobalMem": 150109880320,
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerMultiprocessor": 2048,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "numSms": 132,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472,
}

Event = dict[str, Any]


def operator(name: str, ts: float, dur: float, **more: object) -> Event:
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, **HOST, "args": {}, **more}


def annotation(name: str, ts: float, dur: float, **more: object) -> Event:
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": ts, "dur": dur, **HOST, "args": {}, **more}


def launch(correlation: int, ts: float, dur: float = 5, name: str = "cudaLaunchKernel", **more: object) -> Event:
    args = {"correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "ts": ts, "dur": dur, **HOST, "args": args, **more}


def device_item(
    correlation: int,
    ts: float,
    dur: float,
    name: str = "kernel_a",
    cat: str = "kernel",
    stream: int = 7,
    **args: object,
) -> Event:
    args = {"device": 0, "stream": stream, "correlation": correlation, **args}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 0, "tid": stream, "args": args}


def write(events: list[Event], **head: object) -> bytes:
    return json.dumps({**head, "traceEvents": events}).encode()


def read(*events: Event) -> Trace:
    return read_trace(write(list(events), deviceProperties=[H200]))


def two_steps() -> list[Event]:
    """Two steps of two kernels each; the second kernel of step 0 is still running when step 1 begins."""
    return [
        annotation("ProfilerStep#3", 1000, 100),
        annotation("attn_fwd", 1010, 60),
        operator("aten::softmax", 1012, 30),
        operator("aten::_softmax", 1014, 20),
        launch(1, 1020),
        device_item(1, 1030, 40, "softmax_kernel"),
        operator("aten::bmm", 1045, 20),
        launch(2, 1050),
        device_item(2, 1070, 80, "gemm_kernel"),
        annotation("ProfilerStep#4", 1100, 100),
        annotation("attn_fwd", 1110, 60),
        operator("aten::softmax", 1112, 30),
        operator("aten::_softmax", 1114, 20),
        launch(3, 1120),
        device_item(3, 1150, 40, "softmax_kernel"),
        operator("aten::bmm", 1145, 20),
        launch(4, 1150),
        device_item(4, 1195, 80, "gemm_kernel"),
    ]
