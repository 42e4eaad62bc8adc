"""Every backend's verdict on one workload: predicted by rule, then confirmed by running each alone on the device."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from attention.backends import BACKENDS, Backend, Decision, DeviceFacts
from attention.inputs import Tensors, build_inputs
from attention.workload import Workload
from profiling.failures import is_sticky
from profiling.refusal import parse_refusal

if TYPE_CHECKING:
    from attention.tensors import Inputs

# A probe runs the whole call up to this many score elements, and one batch entry above it; nothing that
# eligibility depends on changes with the batch size. On the GPU the tutorial's case has half of it; on a CPU
# a call of this size takes tens of milliseconds.
FULL_PROBE_SCORES = {"cuda": 2**28, "cpu": 2**23}
# Above this one batch entry is a load of its own, and the rule alone answers.
PROBE_SCORES_MOST = {"cuda": 2**31, "cpu": 2**26}

# torch's SDPBackend values, by the slug that pins each. Source: torch.nn.attention.SDPBackend.
SELECTED = {0: "sdpa_math", 1: "sdpa_flash", 2: "sdpa_efficient", 3: "sdpa_cudnn"}


@contextmanager
def capture_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Every warning raised inside, also those that torch and Python would show once a process."""
    import torch

    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as captured:
            warnings.simplefilter("always")
            yield captured
    finally:
        torch.set_warn_always(always)


def build_decisions(workload: Workload, tensors: "Tensors", facts: DeviceFacts) -> tuple[Decision, ...]:
    """One Decision a backend, in the catalogue's order; ``workload.backend`` does not matter."""
    candidates = ((backend, replace(workload, backend=backend.slug)) for backend in BACKENDS)
    return tuple(
        _confirm(backend, candidate, backend.check(candidate, facts), tensors, facts.kind)
        for backend, candidate in candidates
    )


def _confirm(backend: Backend, workload: Workload, predicted: Decision, tensors: "Tensors", device: str) -> Decision:
    inputs = build_inputs(workload, device, tensors)
    if backend.selects:
        return _ask_selector(workload, predicted, inputs)
    if workload.score_count > FULL_PROBE_SCORES[device]:
        # A backend that writes the score matrix takes every input; running it would only cost memory.
        if backend.score_matrices or workload.score_count // workload.batch_size > PROBE_SCORES_MOST[device]:
            return predicted
        inputs = inputs.first_batch_entry()
    return probe(backend, workload, predicted, inputs, device)


def probe(backend: Backend, workload: Workload, predicted: Decision, inputs: "Inputs", device: str) -> Decision:
    """Run ``backend`` once, alone, and say what it did; ``predicted`` is the rule's verdict.

    Raises:
        torch.OutOfMemoryError: the device ran out of memory, which is no verdict.
    """
    import torch

    with capture_warnings() as captured:
        try:
            with backend.build(workload, inputs) as call:
                call()
            if device == "cuda":
                torch.cuda.synchronize()
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, NotImplementedError) as error:
            if is_sticky(error):
                raise
            return read_refusal(predicted, [str(warning.message) for warning in captured], error)
    if predicted.verdict == "rejected":
        reason = f"ran here, although the rule says: {predicted.reason}"
        return replace(predicted, verdict="accepted", reason=reason, basis="probe")
    return replace(predicted, basis="probe")


def read_refusal(predicted: Decision, messages: list[str], error: Exception) -> Decision:
    """The rejection that PyTorch gave: the rule's reason where it has one, else PyTorch's own first words."""
    raw = "\n".join([*messages, str(error)])
    reason = predicted.reason if predicted.verdict == "rejected" else parse_refusal(messages, predicted.backend)
    if not reason:
        reason = str(error).strip().partition("\n")[0]
    return replace(predicted, verdict="rejected", reason=reason, raw_message=raw, basis="probe")


def _ask_selector(workload: Workload, predicted: Decision, inputs: "Inputs") -> Decision:
    """What PyTorch's own selector answers for this call, where this build lets itself be asked."""
    import torch

    ask = getattr(torch, "_fused_sdp_choice", None)
    if ask is None:
        return predicted
    with capture_warnings():
        chosen = ask(
            inputs.query,
            inputs.key,
            inputs.value,
            attn_mask=inputs.attn_mask,
            dropout_p=0.0,
            is_causal=inputs.is_causal,
            scale=workload.scale,
            enable_gqa=workload.presented_kv_heads != workload.num_heads,
        )
    slug = SELECTED.get(int(chosen))
    if slug is None:
        reason = "PyTorch's selector finds no backend for this call"
        return replace(predicted, verdict="rejected", reason=reason, basis="probe", selects=None)
    reason = f"PyTorch's selector picks {slug} for this call"
    return replace(predicted, verdict="accepted", reason=reason, basis="probe", selects=slug)
