"""What every release of flash-attn shares: which masks its flags can say, and the rules that all of them have.

Source: Dao-AILab/flash-attention, the docstring of ``flash_attn_func`` (the same in versions 2, 3 and 4): causal and
window are aligned to the lower right, window bounds are inclusive, and a row without a key gives zeros.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from attention.backends.decision import Decision, DeviceFacts
from attention.backends.sdpa_rules import HALF_TYPES, Rule
from attention.masks.causal import LOWER_RIGHT, UPPER_LEFT
from attention.workload import MaskForm, Workload

MOST_HEAD_DIM = 256
# 16 bytes of a half type: what the kernels load at once.
HEAD_DIM_STEP = 8
# The batch is a dimension of the launch grid that CUDA bounds.
_MOST_BATCHES = 65_535
_MASKS = ("none", "causal", "sliding_window")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskFlags:
    """A mask in flash-attn's own arguments.

    ``window_left``: keys before the diagonal that a query sees, the diagonal's own not counted; None: all of them.
    """

    causal: bool = False
    window_left: int | None = None


def translate_mask(workload: Workload) -> MaskFlags:
    """The flags that say this mask; only for a workload that ``mask_rule`` lets pass.

    Both masks stop at the diagonal that ends in the lower right corner. ``window`` counts the query's own position, and
    flash-attn's bounds do not, so that window 1 is 0 keys to the left.
    """
    if workload.mask.name == "sliding_window":
        return MaskFlags(window_left=int(workload.mask.parameters["window"]) - 1)
    return MaskFlags(causal=workload.mask.name == "causal")


def mask_rule(workload: Workload, device: DeviceFacts) -> str | None:
    mask = workload.mask
    if mask.name not in _MASKS:
        return f"takes the masks {', '.join(_MASKS[:-1])} and {_MASKS[-1]}, this is {mask.name}"
    if mask.form not in (MaskForm.AUTO, MaskForm.IS_CAUSAL):
        return f"takes no mask tensor but flags of its own, this mask is passed as {mask.form}"
    corner = mask.parameters.get("alignment", UPPER_LEFT)
    if mask.name != "none" and corner != LOWER_RIGHT and workload.seq_len_q != workload.seq_len_kv:
        return (
            f"aligns {mask.name} to the {LOWER_RIGHT} corner, this is {UPPER_LEFT} "
            f"with seq_len_q {workload.seq_len_q} and seq_len_kv {workload.seq_len_kv}"
        )
    return None


def needs_cuda(workload: Workload, device: DeviceFacts) -> str | None:
    return None if device.kind == "cuda" else f"needs a CUDA device, this is {device.kind}"


def needs_capability(words: str, *taken: int | tuple[int, int]) -> Rule:
    """``taken``: whole generations (9) and single capabilities ((9, 0)); ``words`` names them for a reader."""

    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        have = device.compute_capability
        if device.kind != "cuda" or (have is not None and (have in taken or have[0] in taken)):
            return None
        # Not known is not taken: where the kernel does not fit, it can end the process that runs it.
        found = "not known" if have is None else f"{have[0]}.{have[1]}"
        return f"takes compute capability {words}, this is {found}"

    return rule


def needs_half_type(workload: Workload, device: DeviceFacts) -> str | None:
    return None if workload.dtype in HALF_TYPES else f"takes {' or '.join(HALF_TYPES)}, this is {workload.dtype}"


def largest_head_dim(workload: Workload, device: DeviceFacts) -> str | None:
    largest = max(workload.head_dim, workload.value_dim)
    return None if largest <= MOST_HEAD_DIM else f"takes head_dim up to {MOST_HEAD_DIM}, this is {largest}"


def aligned_head_dims(workload: Workload, device: DeviceFacts) -> str | None:
    for name, size in (("head_dim", workload.head_dim), ("head_dim_v", workload.value_dim)):
        if size % HEAD_DIM_STEP:
            return f"takes {name} in multiples of {HEAD_DIM_STEP}, this is {size}"
    return None


def same_head_dims(workload: Workload, device: DeviceFacts) -> str | None:
    if workload.head_dim == workload.value_dim:
        return None
    return f"takes one head_dim for all three tensors, these are {workload.head_dim} and {workload.value_dim}"


def most_batches(workload: Workload, device: DeviceFacts) -> str | None:
    if workload.batch_size <= _MOST_BATCHES:
        return None
    return f"takes batch_size up to {_MOST_BATCHES}, this is {workload.batch_size}"


SHARED_RULES: tuple[Rule, ...] = (needs_half_type, mask_rule, largest_head_dim, most_batches)


def decide(slug: str, rules: Iterable[Rule], workload: Workload, device: DeviceFacts, loads: str) -> Decision:
    """Rejected with every rule's reason, or accepted; ``loads`` says what the first call does besides."""
    reasons = [reason for rule in rules if (reason := rule(workload, device))]
    if reasons:
        return Decision(backend=slug, verdict="rejected", reason="; ".join(reasons))
    reason = f"meets every requirement known for this device; {loads}"
    return Decision(backend=slug, verdict="accepted", reason=reason)


def installed_version(package: str, device: DeviceFacts) -> str | None:
    """The package's version on this machine; empty where it is not installed, None where that is not known."""
    return None if device.packages is None else dict(device.packages).get(package, "")
