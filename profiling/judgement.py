"""Was the answer right? The results against their reference, where they are not finite, and the mask behind them."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from attention.backends import Backend
from attention.kinds import AnyInputs, AnyWorkload
from attention.tensors import Inputs
from attention.workload import Workload
from profiling.correctness import check_results
from profiling.mask_truth import read_applied_mask
from profiling.non_finite import find_non_finite
from profiling.recording import Recording

if TYPE_CHECKING:
    import torch


def judge_results(
    recording: Recording,
    backend: Backend,
    workload: AnyWorkload,
    inputs: AnyInputs,
    call: "Callable[[], tuple[torch.Tensor, ...]]",
) -> Recording:
    """``recording`` with the deltas of one more call, its non-finite rows and the mask that was applied."""
    results = call()
    recording = replace(recording, correctness=check_results(workload, inputs, results))
    if not isinstance(workload, Workload) or not isinstance(inputs, Inputs):
        return recording  # the rest asks about masks and their rows
    recording = replace(recording, non_finite=find_non_finite(workload, results))
    # Last: it writes other values into the inputs for a while, and a replayed graph has one output tensor.
    truth = read_applied_mask(backend, workload, inputs, call, recording.latency.wall)
    return replace(recording, mask_truth=truth)
