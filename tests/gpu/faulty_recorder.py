"""The real recorder with faults planted for some seeds; runs in the worker's child process."""

import ctypes
import time
from collections.abc import Iterator

from profiling import judgement, recorder
from profiling.recording import Progress, Recording, RunRequest

LOSE_CONTEXT, CRASH, HANG = 13, 14, 15
_real_check_results = judgement.check_results


def record(request: RunRequest) -> Iterator[Progress | Recording]:
    judgement.check_results = _check_results
    return recorder.record(request)


def _check_results(workload, inputs, results):
    import torch

    if workload.seed == LOSE_CONTEXT:
        # An index past the end asserts on the device: every later CUDA call of the process fails.
        output = results[0].flatten()
        output[torch.tensor([output.numel()], device=output.device)].sum().item()
    if workload.seed == CRASH:
        ctypes.string_at(0)
    if workload.seed == HANG:
        time.sleep(600)
    return _real_check_results(workload, inputs, results)
