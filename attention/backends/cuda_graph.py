"""SDPA captured into a CUDA graph once and replayed: one launch a call, whatever the host costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attention.backends.backend import Backend
from attention.backends.decision import Decision, DeviceFacts
from attention.backends.sdpa import SDPA_AUTO
from attention.workload import Direction, Workload

if TYPE_CHECKING:
    import torch

    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

# Before a capture, on another stream than the default one: a capture may create no workspace.
# Source: torch.cuda.graphs, "Whole-network capture".
_WARM_UP_CALLS = 3


def _check(workload: Workload, device: DeviceFacts) -> Decision:
    reasons = []
    if device.kind != "cuda":
        reasons.append(f"needs a CUDA device for its graph, this is {device.kind}")
    if workload.direction is not Direction.FORWARD:
        reasons.append(f"captures the forward pass alone, this is {workload.direction}")
    if reasons:
        return Decision(backend="sdpa_cudagraph", verdict="rejected", reason="; ".join(reasons))
    picks = SDPA_AUTO.check(workload, device).selects
    reason = "a graph takes whatever SDPA takes, and replays the backend that it picks"
    return Decision(backend="sdpa_cudagraph", verdict="accepted", reason=reason, selects=picks)


@contextmanager
def _build(workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    import torch

    with SDPA_AUTO.build(workload, inputs) as eager:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_CALLS):
                eager()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = eager()

        def replay() -> "torch.Tensor":
            """The graph's one output tensor: the next replay writes it again."""
            graph.replay()
            return output

        yield replay


SDPA_CUDAGRAPH = Backend(
    slug="sdpa_cudagraph",
    title="SDPA, PyTorch chooses, replayed as a CUDA graph",
    source="torch.cuda.CUDAGraph around torch.nn.functional.scaled_dot_product_attention",
    families=("cudnn", "flash", "efficient", "math"),
    check=_check,
    build=_build,
    holds_graph=True,
)
