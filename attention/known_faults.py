"""Calls that a library answers wrongly, or is reported to: what to expect, before and after the run.

A rule here never refuses: the call runs, the deltas show what it did, and the fault is named beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attention.backends import BACKENDS, DeviceFacts
from attention.lookup import find
from attention.masks import mask_of
from attention.workload import Direction, DType, MaskForm, Workload

HALF_TYPES = (DType.FLOAT16, DType.BFLOAT16)
# 32-bit row arithmetic of the efficient kernel.
EFFICIENT_SCORES_LIMIT = 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """``backend``: the kernel at fault; a selector has the fault of the one it picks. ``seen``: where it was."""

    slug: str
    backend: str
    explanation: str
    advice: str
    seen: str
    applies: Callable[[Workload, DeviceFacts], bool]


def _passes_mask_tensor(workload: Workload) -> bool:
    form = mask_of(workload).resolve_form(workload)
    return form is not None and form is not MaskForm.IS_CAUSAL


def _passes_float32_mask(workload: Workload) -> bool:
    return mask_of(workload).resolve_form(workload) is MaskForm.ADDITIVE_FLOAT32


def _differentiates(workload: Workload) -> bool:
    return workload.direction is Direction.FORWARD_BACKWARD


KNOWN_FAULTS: tuple[KnownFault, ...] = (
    KnownFault(
        slug="cudnn_float32_mask",
        backend="sdpa_cudnn",
        explanation="cuDNN takes a float32 mask beside half-precision inputs and gives wrong or NaN outputs, silently",
        advice="Pass the mask as bool or in the query's dtype.",
        seen="NVIDIA H200, torch 2.11.0, cuDNN 9.19: errors above 1 and NaN with every mask tried",
        applies=lambda workload, device: (
            device.kind == "cuda" and workload.dtype in HALF_TYPES and _passes_float32_mask(workload)
        ),
    ),
    KnownFault(
        slug="cudnn_dead_row_gradients",
        backend="sdpa_cudnn",
        explanation="With rows that may attend to nothing, cuDNN's gradients are finite and wrong",
        advice="Disable cuDNN for training with such masks, or give every row one key.",
        seen="NVIDIA H200, torch 2.11.0, cuDNN 9.19: gradients off by about 1 beside a right output",
        applies=lambda workload, device: (
            device.kind == "cuda"
            and _differentiates(workload)
            and _passes_mask_tensor(workload)
            and mask_of(workload).count_dead_rows(workload) > 0
        ),
    ),
    KnownFault(
        slug="cudnn_dead_row_outputs",
        backend="sdpa_cudnn",
        explanation=(
            "Rows that may attend to nothing come out of cuDNN finite, and neither zeros nor the mean of value; the "
            "other rows are right"
        ),
        advice="Set those rows to zero yourself, or disable cuDNN for such masks.",
        seen="NVIDIA H200, torch 2.11.0, cuDNN 9.19",
        applies=lambda workload, device: (
            device.kind == "cuda" and _passes_mask_tensor(workload) and mask_of(workload).count_dead_rows(workload) > 0
        ),
    ),
    KnownFault(
        slug="cudnn_mask_gradient_nan",
        backend="sdpa_cudnn",
        explanation="cuDNN's grad_query may be NaN with a mask tensor, seq_len_q % 128 = 64 and very low scores",
        advice="Pass is_causal, or disable cuDNN.",
        seen="reported for H100 and H200 from torch 2.11 on: pytorch/pytorch#196678",
        applies=lambda workload, device: (
            device.compute_capability == (9, 0)
            and device.torch_version >= (2, 11)
            and _differentiates(workload)
            and _passes_mask_tensor(workload)
            and workload.seq_len_q % 128 == 64
        ),
    ),
    KnownFault(
        slug="cudnn_few_kv_heads",
        backend="sdpa_cudnn",
        explanation="cuDNN is reported to give wrong decode outputs with fewer than 8 key/value heads",
        advice="Compare with math or efficient, or disable cuDNN.",
        seen="reported for B200 with torch 2.11 and 2.13: pytorch/pytorch#193893",
        applies=lambda workload, device: device.compute_capability == (10, 0) and workload.kv_heads < 8,
    ),
    KnownFault(
        slug="efficient_many_scores",
        backend="sdpa_efficient",
        explanation="With a mask, the efficient kernel gives garbage in late rows above 2³² scores a head",
        advice="Shorten the sequence or drop the mask tensor, and look at the last rows.",
        seen="reported for compute capability 8.0 and newer: pytorch/pytorch#187227",
        applies=lambda workload, device: (
            device.kind == "cuda"
            and _passes_mask_tensor(workload)
            and workload.seq_len_q * workload.seq_len_kv > EFFICIENT_SCORES_LIMIT
        ),
    ),
    KnownFault(
        slug="flash_attn4_gradients",
        backend="flash_attn4",
        explanation="flash-attn 4's gradients are finite and wrong where a head dim is no multiple of 16",
        advice="Pad head_dim with zeros to a multiple of 16, and give the softmax scale of the size before.",
        seen=(
            "NVIDIA H200, torch 2.11.0, flash-attn-4 4.0.0b36: off by 1 and more for head_dim 8, 72 and 104, and right "
            "for the multiples of 32 up to 256"
        ),
        applies=lambda workload, device: (
            _differentiates(workload) and (workload.head_dim % 16 != 0 or workload.value_dim % 16 != 0)
        ),
    ),
    KnownFault(
        slug="cpu_flash_float32_mask",
        backend="sdpa_flash",
        explanation="On a CPU, flash reads a float32 mask as if it were float64, and answers wrongly, silently",
        advice="Pass the mask as bool or in float64.",
        seen="torch 2.14.1 on a CPU: errors above 1",
        applies=lambda workload, device: (
            device.kind == "cpu" and workload.dtype is DType.FLOAT64 and _passes_float32_mask(workload)
        ),
    ),
    KnownFault(
        slug="naive_dead_row_gradients",
        backend="naive",
        # Seen on a CPU: masked_fill stops it on the way to query and key, adding minus infinity does not.
        explanation=(
            "The plain formula divides 0 by 0 in rows that attend to nothing; the NaN reaches grad_value, and with an "
            "additive mask every gradient"
        ),
        advice="Use an SDPA backend, or give every row one key.",
        seen="every device: softmax over minus infinity alone",
        applies=lambda workload, device: _differentiates(workload) and mask_of(workload).count_dead_rows(workload) > 0,
    ),
)


def find_known_faults(workload: Workload, device: DeviceFacts) -> tuple[KnownFault, ...]:
    """Every entry that fits this workload on this device, for the backend that will run."""
    backend = find(workload.backend, BACKENDS, field="backend")
    runs = backend.check(workload, device).selects or backend.slug
    if runs.startswith(("naive", "compiled_naive")):
        runs = "naive"
    return tuple(fault for fault in KNOWN_FAULTS if fault.backend == runs and fault.applies(workload, device))
