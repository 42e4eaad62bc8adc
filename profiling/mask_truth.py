"""The mask that a backend really applied, read from its outputs and compared with the one that was asked for.

With query = 0 every score is 0, so that the weights of a row are uniform over the keys it attends to; with a bias they
are the softmax of the bias. With one-hot values, value_dim keys at a time, the output holds the weights themselves.
The first batch entry is looked at: every head, row and key, or the first and last ones of them where that is much.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from attention.backends import Backend
from attention.call import build_call
from attention.masks import mask_of
from attention.tensors import Inputs
from attention.workload import Direction, Workload
from profiling.check_records import MaskTruth
from profiling.failures import is_sticky
from profiling.format import format_duration
from profiling.mask_weights import MaskView, choose_view, compare_weights
from profiling.samples import Samples

if TYPE_CHECKING:
    import torch

    Call = Callable[[], tuple[torch.Tensor, ...]]

# All calls together, from the run's own wall time. A run of the tutorial's case holds an H200 for some 300 ms.
CALLS_LIMIT_NS = {"cuda": 30_000_000, "cpu": 500_000_000}
# However short a call is, the host needs some tens of microseconds around each.
CALLS_MOST = 64


def read_applied_mask(
    backend: Backend, workload: Workload, inputs: Inputs, call: "Call", wall: Samples | None
) -> MaskTruth | None:
    """What ``call`` did with the mask; None where the workload has none. ``wall`` are samples of one call.

    The inputs are changed for a while and hold their own values again at the end.
    """
    if mask_of(workload).build_mod(workload) is None:
        return None
    if wall is None:
        return MaskTruth(reason="how long one call takes is not known, so its cost could not be bounded")
    device = inputs.query.device.type
    small = backend.is_probed and backend.score_matrices > 0 and workload.batch_size > 1
    call_ns = min(wall.samples_ns) // (workload.batch_size if small else 1)
    calls = CALLS_LIMIT_NS[device] // max(1, call_ns)
    if calls < 1:
        return MaskTruth(
            reason=f"one call takes {format_duration(call_ns)}, and {format_duration(CALLS_LIMIT_NS[device])} are spent"
            " on reading the mask"
        )
    try:
        view = choose_view(workload, min(calls, CALLS_MOST))
        with _probed(backend, workload, inputs, call, small=small) as (probe_inputs, probe_call):
            weights = _read_weights(backend, workload, probe_inputs, probe_call, view)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        if is_sticky(error):
            raise
        return MaskTruth(reason=f"reading it failed: {str(error).strip().partition(chr(10))[0]}")
    if isinstance(weights, str):
        return MaskTruth(reason=weights)
    return compare_weights(workload, view, weights)


@contextmanager
def _probed(
    backend: Backend, workload: Workload, inputs: Inputs, call: "Call", *, small: bool
) -> "Iterator[tuple[Inputs, Call]]":
    """Inputs that may be written over, and a call that reads them.

    The run's own call, so that nothing is planned, captured or compiled again; where every call writes the score
    matrix, which takes no plan, a call of the first batch entry.
    """
    import torch

    saved = [(tensor.detach(), tensor.detach().clone()) for tensor in (_base(inputs.query), _base(inputs.value))]
    try:
        if not small:
            yield inputs, call
            return
        entry = replace(inputs.first_batch_entry(), grad_output=None)
        with build_call(backend, replace(workload, direction=Direction.FORWARD), entry) as entry_call:
            yield entry, entry_call
    finally:
        with torch.no_grad():
            for tensor, values in saved:
                tensor.copy_(values)


def _base(tensor: "torch.Tensor") -> "torch.Tensor":
    """The tensor without the repetitions of a head that lies in memory once: those cannot be written to."""
    return tensor[:, :1] if tensor.stride(1) == 0 else tensor


def _read_weights(
    backend: Backend, workload: Workload, inputs: Inputs, call: "Call", view: MaskView
) -> "torch.Tensor | str":
    """Softmax weights as the call applied them, float32 ``[heads, rows, keys]`` of the view; or why there are none."""
    import torch

    rows = torch.tensor([row for part in view.rows for row in part], device=inputs.query.device)
    value, found = _base(inputs.value.detach()), []
    as_run = _settle(call()[0])
    with torch.no_grad():
        _base(inputs.query.detach()).zero_()
    without_query = _settle(call()[0])
    is_kept = torch.equal(as_run, without_query)
    for index, chunk in enumerate(view.chunks):
        columns = len(chunk)
        with torch.no_grad():
            value.zero_()
            value[:, :, chunk.start : chunk.stop, :columns] = torch.eye(columns, dtype=value.dtype, device=value.device)
        if index == 0 and (is_kept or torch.equal(_settle(call()[0]), without_query)):
            if backend.compiles or backend.holds_graph:
                return "the call keeps copies of its inputs, so that other values do not reach it"
            is_kept = True  # such as a cache that is filled when the call is built
            rebuild_ns = _time_again(backend, workload, inputs)
            if rebuild_ns * len(view.chunks) > CALLS_LIMIT_NS[value.device.type]:
                return f"the call keeps copies of its inputs, and building it again takes {format_duration(rebuild_ns)}"
        output = _call_again(backend, workload, inputs) if is_kept else call()[0]
        found.append(output.detach()[0, : view.heads, rows, :columns].to(torch.float32))
    return torch.cat(found, dim=-1)


def _settle(output: "torch.Tensor") -> "torch.Tensor":
    """A copy that later calls leave alone, and in which NaN equals NaN."""
    import torch

    return torch.nan_to_num(output.detach(), nan=0.0)


def _time_again(backend: Backend, workload: Workload, inputs: Inputs) -> int:
    began = time.perf_counter_ns()
    float(_call_again(backend, workload, inputs).flatten()[0])  # waits for the device
    return time.perf_counter_ns() - began


def _call_again(backend: Backend, workload: Workload, inputs: Inputs) -> "torch.Tensor":
    forward = replace(workload, direction=Direction.FORWARD)
    with build_call(backend, forward, replace(inputs, grad_output=None)) as call:
        return call()[0]
