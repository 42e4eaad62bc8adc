"""torch.nn.functional.scaled_dot_product_attention: PyTorch's selector, and each of its backends pinned."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from attention.backends.backend import Backend
from attention.backends.decision import Decision, DeviceFacts
from attention.backends.sdpa_rules import (
    CPU_FLASH_RULES,
    CUDNN_RULES,
    EFFICIENT_RULES,
    EFFICIENT_SELECTOR_RULES,
    FLASH_RULES,
    Rule,
)
from attention.workload import Workload

if TYPE_CHECKING:
    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

CUDNN_BY_DEFAULT_FROM = (2, 11)  # SDPA prefers cuDNN on Hopper and datacentre Blackwell from this torch on


def _decide(slug: str, rules: tuple[Rule, ...], workload: Workload, device: DeviceFacts) -> Decision:
    reasons = [reason for rule in rules if (reason := rule(workload, device))]
    if reasons:
        return Decision(backend=slug, verdict="rejected", reason="; ".join(reasons))
    return Decision(backend=slug, verdict="accepted", reason="meets every requirement known for this device")


def _check_flash(workload: Workload, device: DeviceFacts) -> Decision:
    rules = FLASH_RULES if device.kind == "cuda" else CPU_FLASH_RULES
    return _decide("sdpa_flash", rules, workload, device)


def _prefers_cudnn(device: DeviceFacts) -> bool:
    return device.torch_version >= CUDNN_BY_DEFAULT_FROM and device.compute_capability in ((9, 0), (10, 0), (10, 3))


def _check_auto(workload: Workload, device: DeviceFacts) -> Decision:
    fused = (SDPA_FLASH, SDPA_EFFICIENT)
    order = (SDPA_CUDNN, *fused) if _prefers_cudnn(device) else fused
    for backend in (*order, SDPA_MATH):
        decision = backend.check(workload, device)
        if decision.verdict == "accepted":
            reason = f"the selector's first backend that takes this call is {backend.slug}"
            return Decision(backend="sdpa_auto", verdict="accepted", reason=reason, selects=backend.slug)
        if backend is SDPA_EFFICIENT and not any(rule(workload, device) for rule in EFFICIENT_SELECTOR_RULES):
            reason = f"the selector picks {backend.slug}, which {decision.reason}"
            return Decision(backend="sdpa_auto", verdict="rejected", reason=reason, selects=backend.slug)
    raise AssertionError("sdpa_math takes every workload")


@contextmanager
def _build(sdp_backend: str | None, workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    options: dict[str, Any] = {"attn_mask": inputs.attn_mask, "is_causal": inputs.is_causal, "scale": workload.scale}
    if workload.presented_kv_heads != workload.num_heads:
        options["enable_gqa"] = True
    # The pin is entered once, around all calls: entering it takes host time of its own.
    with nullcontext() if sdp_backend is None else sdpa_kernel(getattr(SDPBackend, sdp_backend)):
        yield partial(scaled_dot_product_attention, inputs.query, inputs.key, inputs.value, **options)


SDPA_AUTO = Backend(
    slug="sdpa_auto",
    title="SDPA, PyTorch chooses",
    source="torch.nn.functional.scaled_dot_product_attention",
    families=("cudnn", "flash", "efficient", "math"),
    check=_check_auto,
    build=partial(_build, None),
    selects=True,
)
SDPA_MATH = Backend(
    slug="sdpa_math",
    title="SDPA math: the reference path",
    source="torch.nn.attention.SDPBackend.MATH",
    families=("math",),
    check=partial(_decide, "sdpa_math", ()),
    build=partial(_build, "MATH"),
    score_matrices=3,
    score_itemsize=4,
)
SDPA_FLASH = Backend(
    slug="sdpa_flash",
    title="SDPA flash attention",
    source="torch.nn.attention.SDPBackend.FLASH_ATTENTION",
    families=("flash",),
    check=_check_flash,
    build=partial(_build, "FLASH_ATTENTION"),
)
SDPA_EFFICIENT = Backend(
    slug="sdpa_efficient",
    title="SDPA memory-efficient attention",
    source="torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION",
    families=("efficient",),
    check=partial(_decide, "sdpa_efficient", EFFICIENT_RULES),
    build=partial(_build, "EFFICIENT_ATTENTION"),
)
SDPA_CUDNN = Backend(
    slug="sdpa_cudnn",
    title="SDPA cuDNN attention",
    source="torch.nn.attention.SDPBackend.CUDNN_ATTENTION",
    families=("cudnn",),
    check=partial(_decide, "sdpa_cudnn", CUDNN_RULES),
    build=partial(_build, "CUDNN_ATTENTION"),
)
