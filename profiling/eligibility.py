"""Every backend's verdict on one workload: predicted by rule, then confirmed by running each alone on the device."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attention.backends import BACKENDS, Backend, Decision, DeviceFacts
from attention.backends.decision import Verdict
from attention.call import build_call
from attention.fusion.backends import FUSION_BACKENDS
from attention.fusion.workload import FusionWorkload
from attention.inputs import Tensors, build_inputs, draw_tensors
from attention.kernel_source import KernelRefusal
from attention.kinds import FUSION, AnyInputs, AnyWorkload
from attention.lookup import find
from attention.workload import Direction, Workload
from profiling.failures import RefusedByRule, is_sticky
from profiling.format import format_count
from profiling.refusal import parse_refusal
from profiling.unlocks import UNLOCK_TRIES, Unlock, find_unlocks

if TYPE_CHECKING:
    import torch

    from attention.tensors import Inputs

# A probe runs the whole call up to this many score elements, and one batch entry above it; nothing that
# eligibility depends on changes with the batch size. On the GPU the tutorial's case has half of it; on a CPU
# a call of this size takes tens of milliseconds.
FULL_PROBE_SCORES = {"cuda": 2**28, "cpu": 2**23}
# Above this one batch entry is a load of its own, and the rule alone answers.
PROBE_SCORES_MOST = {"cuda": 2**31, "cpu": 2**26}

# Tokens that an operation beyond attention is tried on.
OPERATION_TRIAL_ROWS = 16

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


def build_decisions(workload: AnyWorkload, drawn: Any, facts: DeviceFacts) -> tuple[Decision, ...]:
    """One Decision a backend of the workload's kind, in the catalogue's order; ``workload.backend`` does not matter.

    ``drawn``: what the kind's ``draw_tensors`` gave.
    """
    if isinstance(workload, FusionWorkload):
        return _decide_operation(workload, drawn, facts)
    return _decide_attention(workload, drawn, facts)


def _decide_operation(
    workload: FusionWorkload, operands: "dict[str, torch.Tensor]", facts: DeviceFacts
) -> tuple[Decision, ...]:
    """Nothing that these backends ask for depends on the number of tokens, so a few rows are trial enough."""
    inputs = FUSION.build_inputs(workload, facts.kind, operands).rows(slice(OPERATION_TRIAL_ROWS))
    decisions = []
    for backend in FUSION_BACKENDS:
        predicted = backend.check(workload, facts)
        tried = probe(backend, workload, predicted, inputs, facts.kind) if backend.is_probed else predicted
        decisions.append(tried)
    return tuple(decisions)


def _decide_attention(workload: Workload, tensors: "Tensors", facts: DeviceFacts) -> tuple[Decision, ...]:
    """One Decision a backend, in the catalogue's order; ``workload.backend`` does not matter.

    A refusing backend also says which single changes were tried and made it run; one that compiles or captures, which
    a trial is too dear for, says which its rule accepts.
    """
    decisions = []
    for backend in BACKENDS:
        candidate = replace(workload, backend=backend.slug)
        decision = confirm_decision(backend, candidate, backend.check(candidate, facts), tensors, facts.kind)
        unlocks = find_unlocks(candidate, decision, facts)
        if backend.is_probed:
            changes, untried = confirm_unlocks(unlocks, facts.kind)
        else:
            changes, untried = tuple(f"{unlock.sentence} (by rule)" for unlock in unlocks), ()
        decisions.append(replace(decision, unlocked_by=changes, untried=untried))
    return tuple(decisions)


def confirm_unlocks(unlocks: Sequence[Unlock], device: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The changes that ran when each was tried alone, as ``dtype → bfloat16 (tried: runs)``, and those not tried.

    The first ``UNLOCK_TRIES`` are tried, on the first batch entry; one whose entry is a load of its own is not.
    """
    ran, untried = [], []
    for unlock in unlocks[:UNLOCK_TRIES]:
        verdict, reason = _try(unlock, device)
        if verdict == "undetermined":
            untried.append(f"{unlock.sentence} ({reason})")
        elif verdict == "accepted":
            ran.append(f"{unlock.sentence} (tried: runs)")
    limit = f"by rule it would run; {UNLOCK_TRIES} changes are tried for a backend"
    untried += [f"{unlock.sentence} ({limit})" for unlock in unlocks[UNLOCK_TRIES:]]
    return tuple(ran), tuple(untried)


def _try(unlock: Unlock, device: str) -> tuple[Verdict, str]:
    """The verdict of one call with the change; undetermined where none was made, and why."""
    import torch

    workload = unlock.workload
    backend = find(workload.backend, BACKENDS, field="backend")
    scores = workload.score_count // workload.batch_size
    most = (FULL_PROBE_SCORES if backend.score_matrices else PROBE_SCORES_MOST)[device]
    if scores > most:
        return "undetermined", f"one batch entry has {format_count(scores)} scores, a trial takes {format_count(most)}"
    predicted = Decision(backend=backend.slug, verdict="accepted", reason="")
    try:
        # The mask's own lists may have a value for every batch entry, so the batch is cut after it is built.
        entry = draw_tensors(replace(workload, batch_size=1), device)
        inputs = build_inputs(workload, device, entry).first_batch_entry()
        return probe(backend, workload, predicted, inputs, device).verdict, ""
    except torch.OutOfMemoryError:
        return "undetermined", "the device had too little memory left for a trial"


def confirm_decision(
    backend: Backend, workload: Workload, predicted: Decision, tensors: "Tensors", device: str
) -> Decision:
    """What a trial of ``backend`` on ``device`` says of ``predicted``, which stands where a trial costs too much."""
    if not backend.is_probed:
        return predicted
    inputs = build_inputs(workload, device, tensors)
    if backend.selects:
        return _ask_selector(backend, workload, predicted, inputs, device)
    if workload.score_count > FULL_PROBE_SCORES[device]:
        # A backend that writes the score matrix takes every input; running it would only cost memory.
        if backend.score_matrices or workload.score_count // workload.batch_size > PROBE_SCORES_MOST[device]:
            return predicted
        inputs = inputs.first_batch_entry()
    return probe(backend, workload, predicted, inputs, device)


def probe(backend: Backend, workload: AnyWorkload, predicted: Decision, inputs: AnyInputs, device: str) -> Decision:
    """Run ``backend`` once, alone, and say what it did; ``predicted`` is the rule's verdict.

    Raises:
        torch.OutOfMemoryError: the device ran out of memory, which is no verdict.
    """
    import torch

    with capture_warnings() as captured:
        try:
            with build_call(backend, workload, inputs) as call:
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


def refuse_by_rule(backend: Backend, predicted: Decision) -> None:
    """Nothing, or a refusal before a compiler or a capture is started in vain.

    Raises:
        RefusedByRule: this backend is judged by rule, and the rule rejects the workload.
    """
    if not backend.is_probed and predicted.verdict == "rejected":
        raise RefusedByRule(predicted.reason)


def add_first_call(
    decisions: tuple[Decision, ...], backend: Backend, *, ran: bool, refusal: Decision | None
) -> tuple[Decision, ...]:
    """The verdicts, with what the run's own first call said of a backend that is not probed apart."""
    if backend.is_probed or not (ran or refusal):
        return decisions
    return tuple(
        replace(
            refusal or decision,
            basis=refusal.basis if refusal else "probe",
            unlocked_by=decision.unlocked_by,
            untried=decision.untried,
        )
        if decision.backend == backend.slug
        else decision
        for decision in decisions
    )


def read_refusal(predicted: Decision, messages: list[str], error: Exception) -> Decision:
    """The rejection that PyTorch gave: the rule's reason where it has one, else PyTorch's own first words."""
    if isinstance(error, RefusedByRule):
        return predicted
    if isinstance(error, KernelRefusal):
        refused = replace(predicted, verdict="rejected", reason=error.reason, remedy=error.remedy)
        return replace(refused, raw_message=error.said, basis="probe")
    said = [*messages, str(error)]
    raw = "\n".join(said)
    reason = predicted.reason if predicted.verdict == "rejected" else parse_refusal(said, predicted.backend)
    if not reason:
        reason = str(error).strip().partition("\n")[0]
    return replace(predicted, verdict="rejected", reason=reason, raw_message=raw, basis="probe")


def _ask_selector(backend: Backend, workload: Workload, predicted: Decision, inputs: "Inputs", device: str) -> Decision:
    """What PyTorch's own selector answers for this call, where this build lets itself be asked."""
    import torch

    ask = getattr(torch, "_fused_sdp_choice", None)
    if ask is None:
        return predicted
    with capture_warnings(), torch.set_grad_enabled(workload.direction is Direction.FORWARD_BACKWARD):
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
    if predicted.verdict == "rejected":
        # The selector picks a backend that then raises: a call is the only proof.
        return replace(probe(backend, workload, predicted, inputs, device), selects=slug)
    reason = f"PyTorch's selector picks {slug} for this call"
    return replace(predicted, verdict="accepted", reason=reason, basis="probe", selects=slug)
