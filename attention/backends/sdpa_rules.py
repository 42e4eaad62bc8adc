"""What each backend of scaled_dot_product_attention needs, one rule a requirement.

Read from PyTorch's own checks, and tried on an H200 with torch 2.11 and a CPU with torch 2.14; a probe on the device
confirms them. No rule looks at strides: every layout here keeps the last dimension dense, which is all that these
kernels ask for.
Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.h of torch 2.8 to 2.14.
"""

from collections.abc import Callable

from attention.backends.decision import DeviceFacts
from attention.masks import mask_of
from attention.workload import Direction, DType, MaskForm, Workload

HALF_TYPES = (DType.FLOAT16, DType.BFLOAT16)
FLASH_HEAD_DIM_LIMIT = 256
NEWEST_KNOWN = (12, 1)  # the fused kernels' own upper bound on the compute capability
CPU_FLASH_GQA_FROM = (2, 9)  # pytorch/pytorch#157893; 2.8 refuses it
EFFICIENT_GQA_FROM = (2, 14)  # pytorch/pytorch#191085
# cuDNN's head_dim limit is 128, except: Hopper from #161210 on; on datacentre Blackwell the one pair of sizes
# 192 and 128 from #172621 on, and 256 with the cuDNN that 2.14 brings.
CUDNN_HOPPER_256_FROM = (2, 9)
CUDNN_BLACKWELL_192_FROM = (2, 11)
CUDNN_BLACKWELL_256_FROM = (2, 14)
CUDNN_DECODE_GUARD_FROM = (2, 14)  # pytorch/pytorch#194927: wrong results before it
CUDNN_MOST_BATCHES = 65_535

# A rule looks at one requirement and answers with the reason for a refusal, or None.
Rule = Callable[[Workload, DeviceFacts], str | None]


def _needs_cuda(workload: Workload, device: DeviceFacts) -> str | None:
    return None if device.kind == "cuda" else f"needs a CUDA device, this is {device.kind}"


def _needs_capability(least: tuple[int, int]) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        have = device.compute_capability
        if device.kind != "cuda" or have is None or least <= have <= NEWEST_KNOWN:
            return None
        if have > NEWEST_KNOWN:
            return f"takes compute capability up to {_dotted(NEWEST_KNOWN)}, this is {_dotted(have)}"
        return f"needs compute capability {_dotted(least)} or newer, this is {_dotted(have)}"

    return rule


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _needs_dtype(*allowed: DType) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        if workload.dtype in allowed:
            return None
        return f"takes {' or '.join(allowed)}, this is {workload.dtype}"

    return rule


def _bfloat16_needs_ampere(workload: Workload, device: DeviceFacts) -> str | None:
    have = device.compute_capability
    if workload.dtype is not DType.BFLOAT16 or have is None or have >= (8, 0):
        return None
    return f"takes bfloat16 from compute capability 8.0 on, this is {_dotted(have)}"


def _flash_head_dim(workload: Workload, device: DeviceFacts) -> str | None:
    largest = max(workload.head_dim, workload.value_dim)
    if largest <= FLASH_HEAD_DIM_LIMIT:
        return None
    return f"takes head_dim up to {FLASH_HEAD_DIM_LIMIT}, this is {largest}"


def _flash_training_head_dim(workload: Workload, device: DeviceFacts) -> str | None:
    # Too little shared memory a multiprocessor for the backward kernels of these sizes; 225 to 256 have their own.
    have = device.compute_capability
    if have is None or not ((8, 6) <= have <= (8, 9) or (12, 0) <= have <= (12, 1)):
        return None
    if workload.direction is not Direction.FORWARD_BACKWARD or not 192 < workload.head_dim <= 224:
        return None
    return (
        f"takes no head_dim from 193 to 224 with gradients on compute capability {_dotted(have)}, "
        f"this is {workload.head_dim}"
    )


def _cudnn_head_dim_limit(workload: Workload, device: DeviceFacts) -> int:
    have, torch_version = device.compute_capability or (0, 0), device.torch_version
    if have == (9, 0):
        return 256 if torch_version >= CUDNN_HOPPER_256_FROM else 128
    if have[0] == 10:
        if torch_version >= CUDNN_BLACKWELL_256_FROM:
            return 256
        if torch_version >= CUDNN_BLACKWELL_192_FROM and (workload.head_dim, workload.value_dim) == (192, 128):
            return 192
    return 128


def _cudnn_head_dim(workload: Workload, device: DeviceFacts) -> str | None:
    limit, largest = _cudnn_head_dim_limit(workload, device), max(workload.head_dim, workload.value_dim)
    return None if largest <= limit else f"takes head_dim up to {limit} on this device, this is {largest}"


def _cudnn_training_head_dims(workload: Workload, device: DeviceFacts) -> str | None:
    have = device.compute_capability
    wide = have is not None and (have == (9, 0) or have[0] == 10) and device.torch_version >= CUDNN_BLACKWELL_256_FROM
    sizes = (workload.head_dim, workload.value_dim)
    if not wide or workload.direction is not Direction.FORWARD_BACKWARD or max(sizes) <= 128:
        return None
    if sizes in ((192, 128), (256, 256)):
        return None
    return (
        "takes head_dim and head_dim_v up to 128, or 192 and 128, or 256 and 256 with gradients, "
        f"these are {sizes[0]} and {sizes[1]}"
    )


def _multiple_of(step: int, workload: Workload) -> str | None:
    for size in (workload.head_dim, workload.value_dim):
        if size % step:
            return f"takes head_dim in multiples of {step} for {workload.dtype}, this is {size}"
    return None


def _cudnn_alignment(workload: Workload, device: DeviceFacts) -> str | None:
    return _multiple_of(8, workload)


def _efficient_alignment(workload: Workload, device: DeviceFacts) -> str | None:
    # 16-byte rows for the tensor-core kernels, which float32 has from Ampere on: 8 half-type or 4 float32 elements.
    if workload.dtype in HALF_TYPES:
        return _multiple_of(8, workload)
    return _multiple_of(4 if (device.compute_capability or (0, 0)) >= (8, 0) else 1, workload)


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


def _groups_heads_from(first_torch: tuple[int, int]) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        if workload.num_heads == workload.presented_kv_heads or device.torch_version >= first_torch:
            return None
        return f"needs as many key/value heads as query heads, these are {workload.kv_heads} and {workload.num_heads}"

    return rule


def _mask_in_query_dtype(workload: Workload, device: DeviceFacts) -> str | None:
    # No refusal in PyTorch's own words but a RuntimeError: "invalid dtype for bias".
    form = mask_of(workload).resolve_form(workload)
    if form is not MaskForm.ADDITIVE_FLOAT32 or workload.dtype is DType.FLOAT32:
        return None
    return f"takes an additive mask in the query's dtype, this is float32 beside {workload.dtype}"


def _more_than_one_key(workload: Workload, device: DeviceFacts) -> str | None:
    return "needs seq_len_kv above 1, this is 1" if workload.seq_len_kv == 1 else None


def _cudnn_decode(workload: Workload, device: DeviceFacts) -> str | None:
    have = device.compute_capability
    if workload.seq_len_q != 1 or have is None or have[0] not in (10, 11):
        return None
    if device.torch_version < CUDNN_DECODE_GUARD_FROM:
        return None
    return f"needs seq_len_q above 1 on compute capability {_dotted(have)}, this is 1"


def _cudnn_batches(workload: Workload, device: DeviceFacts) -> str | None:
    if workload.batch_size <= CUDNN_MOST_BATCHES:
        return None
    return f"takes batch_size up to {CUDNN_MOST_BATCHES}, this is {workload.batch_size}"


FLASH_RULES: tuple[Rule, ...] = (
    _needs_capability((8, 0)),
    _needs_dtype(*HALF_TYPES),
    _flash_head_dim,
    _flash_training_head_dim,
    _same_head_dims,
    _no_mask_tensor,
    _causal_needs_square,
)
# The CPU has a flash path of its own, which takes masks, unequal lengths, float32 and float64 too.
CPU_FLASH_RULES: tuple[Rule, ...] = (_same_head_dims, _groups_heads_from(CPU_FLASH_GQA_FROM))
# What PyTorch's selector asks before it picks the kernel; the kernel itself has one more demand.
EFFICIENT_SELECTOR_RULES: tuple[Rule, ...] = (
    _needs_cuda,
    _needs_capability((5, 0)),
    _needs_dtype(DType.FLOAT32, *HALF_TYPES),
    _bfloat16_needs_ampere,
    _efficient_alignment,
    _groups_heads_from(EFFICIENT_GQA_FROM),
)
EFFICIENT_RULES: tuple[Rule, ...] = (*EFFICIENT_SELECTOR_RULES, _mask_in_query_dtype)
CUDNN_RULES: tuple[Rule, ...] = (
    _needs_cuda,
    _needs_capability((8, 0)),
    _needs_dtype(*HALF_TYPES),
    _cudnn_head_dim,
    _cudnn_training_head_dims,
    _cudnn_alignment,
    _more_than_one_key,
    _cudnn_decode,
    _cudnn_batches,
)
