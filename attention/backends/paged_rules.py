"""What decoding over a block table needs: one query row and a mask that lengths express, then each backend's own."""

from attention.backends.decision import Decision, DeviceFacts
from attention.backends.flex import FLEX
from attention.masks import mask_of
from attention.masks.causal import CAUSAL, LOWER_RIGHT, diagonal_offset
from attention.masks.none import NONE
from attention.masks.padding import LEFT, PADDING, RIGHT
from attention.workload import Direction, DType, Workload

# Rows of one block of FlexAttention's mask: a multiple of the query heads that its decoding kernel takes together.
FLEX_QUERY_BLOCK = 128
_KERNEL_TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
_KERNEL_CAPABILITY = (7, 0)  # Triton's own least
_BFLOAT16_CAPABILITY = (8, 0)
_KERNEL_DIMS = (16, 32, 64, 128, 256)  # tl.arange wants powers of two, tl.dot 16 at least


def decode_refusals(workload: Workload) -> list[str]:
    """What keeps a workload from being one decode step over a block table, each as a reason."""
    reasons = []
    if workload.seq_len_q != 1:
        reasons.append(f"needs seq_len_q 1, this is {workload.seq_len_q}")
    if workload.direction is not Direction.FORWARD:
        reasons.append(f"runs the forward pass alone, this is {workload.direction}")
    mask = mask_of(workload)
    if mask not in (NONE, CAUSAL, PADDING):
        reasons.append(
            f"takes mask {NONE.slug}, {CAUSAL.slug} ({LOWER_RIGHT}) or {PADDING.slug} ({RIGHT}), this is {mask.slug}"
        )
    elif mask is CAUSAL and diagonal_offset(workload) != workload.seq_len_kv - workload.seq_len_q:
        reasons.append(f"takes mask {CAUSAL.slug} with alignment {LOWER_RIGHT}, this is upper_left")
    elif mask is PADDING and workload.mask.parameters.get("side") == LEFT:
        reasons.append(f"takes mask {PADDING.slug} with side {RIGHT}, this is {LEFT}")
    return reasons


def _decide(slug: str, reasons: list[str], accepted: str) -> Decision:
    if reasons:
        return Decision(backend=slug, verdict="rejected", reason=f"decode: {'; '.join(reasons)}")
    return Decision(backend=slug, verdict="accepted", reason=f"one decode step over a block table; {accepted}")


def check_gather(workload: Workload, device: DeviceFacts) -> Decision:
    return _decide("paged_gather", decode_refusals(workload), "SDPA takes the gathered copies, whatever their dtype")


def check_flex(workload: Workload, device: DeviceFacts) -> Decision:
    reasons, flex = decode_refusals(workload), FLEX.check(workload, device)
    if flex.verdict == "rejected":
        reasons.append(flex.reason)
    group = workload.num_heads // workload.presented_kv_heads
    # Other groups leave the decoding kernel for one whose tiles are wider than a block of 16 tokens.
    if device.kind == "cuda" and (group & (group - 1) or group > FLEX_QUERY_BLOCK):
        reasons.append(
            f"takes a power of two up to {FLEX_QUERY_BLOCK} of query heads a key/value head, this is {group}"
        )
    return _decide("paged_flex", reasons, flex.reason)


def check_triton(workload: Workload, device: DeviceFacts) -> Decision:
    reasons = decode_refusals(workload)
    have = device.compute_capability
    if device.kind != "cuda":
        reasons.append(f"needs a CUDA device, this is {device.kind}")
    elif have is not None and have < _KERNEL_CAPABILITY:
        reasons.append(f"needs compute capability 7.0 or newer, this is {have[0]}.{have[1]}")
    elif have is not None and workload.dtype is DType.BFLOAT16 and have < _BFLOAT16_CAPABILITY:
        reasons.append(f"takes bfloat16 from compute capability 8.0 on, this is {have[0]}.{have[1]}")
    if workload.dtype not in _KERNEL_TYPES:
        reasons.append(f"takes {', '.join(_KERNEL_TYPES[:-1])} or {_KERNEL_TYPES[-1]}, this is {workload.dtype}")
    dims = f"{', '.join(map(str, _KERNEL_DIMS[:-1]))} or {_KERNEL_DIMS[-1]}"
    for size in sorted({workload.head_dim, workload.value_dim} - set(_KERNEL_DIMS)):
        reasons.append(f"takes head_dim {dims}, this is {size}")
    return _decide("paged_triton", reasons, "its first call compiles a Triton kernel")
