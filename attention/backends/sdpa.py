"""torch.nn.functional.scaled_dot_product_attention: PyTorch's selector, and each of its backends pinned.

The rules say what each backend needs, as read from PyTorch's own checks and tried on an H200 with torch 2.11;
a probe on the device confirms them.
Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.h of torch 2.8 to 2.11.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from attention.backends.backend import Backend
from attention.backends.decision import Decision, DeviceFacts
from attention.masks import mask_of
from attention.workload import DType, MaskForm, Workload

if TYPE_CHECKING:
    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

HALF_TYPES = (DType.FLOAT16, DType.BFLOAT16)
FUSED_HEAD_DIM_LIMIT = 256  # flash and cuDNN
CPU_FLASH_GQA_FROM = (2, 9)  # pytorch/pytorch#157893; 2.8 refuses it
CUDNN_BY_DEFAULT_FROM = (2, 11)  # SDPA prefers cuDNN on Hopper and datacentre Blackwell from this torch on

# A rule looks at one requirement and answers with the reason for a refusal, or None.
Rule = Callable[[Workload, DeviceFacts], str | None]


def _needs_cuda(workload: Workload, device: DeviceFacts) -> str | None:
    return None if device.kind == "cuda" else f"needs a CUDA device, this is {device.kind}"


def _needs_capability(least: tuple[int, int]) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        have = device.compute_capability
        if device.kind != "cuda" or have is None or have >= least:
            return None
        return f"needs compute capability {least[0]}.{least[1]} or newer, this is {have[0]}.{have[1]}"

    return rule


def _needs_dtype(*allowed: DType) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        if workload.dtype in allowed:
            return None
        return f"takes {' or '.join(allowed)}, this is {workload.dtype}"

    return rule


def _bfloat16_needs_ampere(workload: Workload, device: DeviceFacts) -> str | None:
    if workload.dtype is not DType.BFLOAT16:
        return None
    return _needs_capability((8, 0))(workload, device) and "takes bfloat16 from compute capability 8.0 on only"


def _head_dim_at_most(limit: int) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        largest = max(workload.head_dim, workload.value_dim)
        return None if largest <= limit else f"takes head_dim up to {limit}, this is {largest}"

    return rule


def _head_dim_multiple_of(step: int) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        for size in (workload.head_dim, workload.value_dim):
            if size % step:
                return f"takes head_dim in multiples of {step} for {workload.dtype}, this is {size}"
        return None

    return rule


def _efficient_alignment(workload: Workload, device: DeviceFacts) -> str | None:
    # 16-byte rows for the tensor-core kernels: 8 half-type or 4 float32 elements.
    return _head_dim_multiple_of(4 if workload.dtype is DType.FLOAT32 else 8)(workload, device)


def _same_head_dims(workload: Workload, device: DeviceFacts) -> str | None:
    if workload.head_dim == workload.value_dim:
        return None
    return f"takes one head_dim for all three tensors, these are {workload.head_dim} and {workload.value_dim}"


def _no_mask_tensor(workload: Workload, device: DeviceFacts) -> str | None:
    form = mask_of(workload).resolve_form(workload)
    if form is not None and form is not MaskForm.IS_CAUSAL:
        return f"takes no mask tensor (is_causal only), this mask is passed as {form}"
    return None


def _causal_needs_square(workload: Workload, device: DeviceFacts) -> str | None:
    if mask_of(workload).resolve_form(workload) is not MaskForm.IS_CAUSAL:
        return None
    if workload.seq_len_q == workload.seq_len_kv:
        return None
    return f"takes is_causal with equal lengths, these are {workload.seq_len_q} and {workload.seq_len_kv}"


def _same_num_heads(workload: Workload, device: DeviceFacts) -> str | None:
    if workload.num_heads == workload.presented_kv_heads:
        return None
    return f"needs as many key/value heads as query heads, these are {workload.kv_heads} and {workload.num_heads}"


def _mask_in_query_dtype(workload: Workload, device: DeviceFacts) -> str | None:
    # No refusal in PyTorch's own words but a RuntimeError: "invalid dtype for bias".
    form = mask_of(workload).resolve_form(workload)
    if form is not MaskForm.ADDITIVE_FLOAT32 or workload.dtype is DType.FLOAT32:
        return None
    return f"takes an additive mask in the query's dtype, this is float32 beside {workload.dtype}"


def _cpu_flash_groups_heads(workload: Workload, device: DeviceFacts) -> str | None:
    if device.torch_version >= CPU_FLASH_GQA_FROM:
        return None
    return _same_num_heads(workload, device)


def _more_than_one_key(workload: Workload, device: DeviceFacts) -> str | None:
    return "needs seq_len_kv above 1, this is 1" if workload.seq_len_kv == 1 else None


FLASH_RULES: tuple[Rule, ...] = (
    _needs_capability((8, 0)),
    _needs_dtype(*HALF_TYPES),
    _head_dim_at_most(FUSED_HEAD_DIM_LIMIT),
    _same_head_dims,
    _no_mask_tensor,
    _causal_needs_square,
)
EFFICIENT_RULES: tuple[Rule, ...] = (
    _needs_cuda,
    _needs_capability((5, 0)),
    _needs_dtype(DType.FLOAT32, *HALF_TYPES),
    _bfloat16_needs_ampere,
    _efficient_alignment,
    _same_num_heads,
    _mask_in_query_dtype,
)
CUDNN_RULES: tuple[Rule, ...] = (
    _needs_cuda,
    _needs_capability((8, 0)),
    _needs_dtype(*HALF_TYPES),
    _head_dim_at_most(FUSED_HEAD_DIM_LIMIT),
    _head_dim_multiple_of(8),
    _more_than_one_key,
)


def _decide(slug: str, rules: tuple[Rule, ...], workload: Workload, device: DeviceFacts) -> Decision:
    reasons = [reason for rule in rules if (reason := rule(workload, device))]
    if reasons:
        return Decision(backend=slug, verdict="rejected", reason="; ".join(reasons))
    return Decision(backend=slug, verdict="accepted", reason="meets every requirement known for this device")


def _check_flash(workload: Workload, device: DeviceFacts) -> Decision:
    # The CPU has a flash path of its own, which takes masks, float32 and float64 too.
    rules = FLASH_RULES if device.kind == "cuda" else (_same_head_dims, _cpu_flash_groups_heads)
    return _decide("sdpa_flash", rules, workload, device)


def _prefers_cudnn(device: DeviceFacts) -> bool:
    return device.torch_version >= CUDNN_BY_DEFAULT_FROM and device.compute_capability in ((9, 0), (10, 0), (10, 3))


def _check_auto(workload: Workload, device: DeviceFacts) -> Decision:
    fused = (SDPA_FLASH, SDPA_EFFICIENT)
    order = (SDPA_CUDNN, *fused) if _prefers_cudnn(device) else fused
    for backend in (*order, SDPA_MATH):
        if backend.check(workload, device).verdict == "accepted":
            reason = f"the selector's first backend that takes this call is {backend.slug}"
            return Decision(backend="sdpa_auto", verdict="accepted", reason=reason, selects=backend.slug)
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
