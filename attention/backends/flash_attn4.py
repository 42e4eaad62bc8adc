"""flash-attn 4: the package's CuTe kernels, which NVIDIA's DSL compiles at the first call of each shape class.

The package is called directly. torch 2.11 lists it for torch.nn.attention.activate_flash_attention_impl("FA4") and then
fails with this release ("too many values to unpack"): the function it wraps gives back five values since.
Source: flash_attn/cute/interface.py of flash-attn-4 4.0.0b36.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attention.backends.backend import Backend
from attention.backends.decision import Decision, DeviceFacts
from attention.backends.flash_attn_rules import (
    SHARED_RULES,
    aligned_head_dims,
    decide,
    installed_version,
    needs_capability,
    needs_cuda,
    translate_mask,
)
from attention.backends.sdpa_rules import Rule
from attention.kernel_source import FLASH_ATTN_4, KernelRefusal, KernelSource, read_packages
from attention.workload import Direction, Workload

if TYPE_CHECKING:
    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

# The release whose source these rules were read in and whose kernels were compiled and run; it is a beta, and its
# calls change between releases.
VERSION = "4.0.0b36"
_DSL = "nvidia-cutlass-dsl"
_INSTALL = f"Install it where AttnScope runs (pip install '{FLASH_ATTN_4}=={VERSION}') and start it again."


def _is_hopper(device: DeviceFacts) -> bool:
    return device.compute_capability == (9, 0)


def _head_dims(workload: Workload, device: DeviceFacts) -> str | None:
    sizes = (workload.head_dim, workload.value_dim)
    if _is_hopper(device):
        if sizes[1] <= sizes[0]:
            return None
        # It lets any two sizes pass and chooses its tiles by head_dim alone: for larger values some need more registers
        # or shared memory than there are.
        return f"takes head_dim_v up to head_dim on compute capability 9.0, these are {sizes[0]} and {sizes[1]}"
    # _validate_head_dims of interface.py.
    if max(sizes) <= 128 or sizes in ((192, 128), (256, 256)):
        return None
    return (
        f"takes head_dim and head_dim_v up to 128, or 192 and 128, or 256 and 256, these are {sizes[0]} and {sizes[1]}"
    )


def _hopper_gradients(workload: Workload, device: DeviceFacts) -> str | None:
    # Read in flash_bwd_sm90.py, and every multiple of 8 compiled for it: what is refused here is what failed there.
    head_dim, value_dim = workload.head_dim, workload.value_dim
    if workload.direction is not Direction.FORWARD_BACKWARD or not _is_hopper(device):
        return None
    if workload.mask.name == "none" and 96 < head_dim <= 112:
        # Tiles of 80 query rows by 112 elements cannot be split among the warps; with a mask the tiles are others.
        return f"compiles no gradients for head_dim 97 to 112 without a mask, this is {head_dim}"
    if head_dim == value_dim:
        return None
    if workload.presented_kv_heads != workload.num_heads:
        needs = "one head_dim for all three tensors with grouped heads and gradients"
        return f"takes {needs}, these are {head_dim} and {value_dim}"
    if head_dim > 192 and 128 < value_dim <= 192:
        needs = "head_dim_v up to 128 or above 192 beside a head_dim above 192, with gradients"
        return f"takes {needs}, these are {head_dim} and {value_dim}"
    step = _shared_step(head_dim)
    if head_dim <= 128 and _round_up(value_dim, 16) % step:
        needs = f"head_dim_v in multiples of {step} beside head_dim {head_dim}, with gradients"
        return f"takes {needs}, this is {value_dim}"
    return None


def _shared_step(head_dim: int) -> int:
    """Elements that one swizzle of shared memory spans, chosen by head_dim for value too."""
    tile = _round_up(head_dim, 16)
    return 64 if tile % 64 == 0 else 32 if tile % 32 == 0 else 16


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


_RULES: tuple[Rule, ...] = (
    needs_cuda,
    # Forward alone also has a path for 8.x, and both have one for 12.x, where it was seen to end the process.
    needs_capability("9.x, 10.x or 11.x", 9, 10, 11),
    *SHARED_RULES,
    aligned_head_dims,
    _head_dims,
    _hopper_gradients,
)


def _check(workload: Workload, device: DeviceFacts) -> Decision:
    loads = f"its first call compiles {FLASH_ATTN_4} {VERSION} for this shape class"
    decision = decide("flash_attn4", _RULES, workload, device, loads)
    installed = installed_version(FLASH_ATTN_4, device)
    if decision.verdict != "accepted" or installed in (None, VERSION):
        return decision
    found = f"{installed} is installed here" if installed else "which is not installed here"
    reason = f"needs the package {FLASH_ATTN_4} {VERSION}, {found}"
    return Decision(backend="flash_attn4", verdict="rejected", reason=reason, remedy=_INSTALL)


def _import_attend() -> Any:
    """The package's ``flash_attn_func``, with tensors ``[batch_size, seq_len, heads, dim]``.

    Raises:
        KernelRefusal: the package is not installed, is another release, or does not import.
    """
    found = read_packages((FLASH_ATTN_4,))[FLASH_ATTN_4]
    if found != VERSION:
        what = "it is not installed here" if found is None else f"{found} is installed here"
        raise KernelRefusal(f"needs the package {FLASH_ATTN_4} {VERSION}, and {what}", remedy=_INSTALL)
    try:
        from flash_attn.cute import flash_attn_func
    # cutlass is reached through a .pth file, and raises a RuntimeError where no build for a CUDA release is installed.
    except (ImportError, OSError, RuntimeError) as error:
        raise KernelRefusal(
            f"the package {FLASH_ATTN_4} {VERSION} is installed and does not import here",
            remedy=f"Install it with all it depends on: pip install '{FLASH_ATTN_4}[cu13]=={VERSION}' for CUDA 13.",
            said=f"{type(error).__name__}: {error}",
        ) from error
    return flash_attn_func


@contextmanager
def _build(workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    attend, flags = _import_attend(), translate_mask(workload)
    # Views of its layout, made once: a model that holds its tensors this way has no such step.
    query, key, value = (tensor.transpose(1, 2) for tensor in (inputs.query, inputs.key, inputs.value))
    options: dict[str, Any] = {"softmax_scale": workload.softmax_scale, "causal": flags.causal}
    if flags.window_left is not None:
        options["window_size"] = (flags.window_left, 0)

    def call() -> Any:
        try:
            output, _ = attend(query, key, value, **options)
        except Exception as error:
            # It asserts what it takes, and its compiler has errors of its own; a fault of the device is neither.
            if isinstance(error, AssertionError | NotImplementedError) or _is_compilers(error):
                said = f"{type(error).__name__}: {error}"
                raise KernelRefusal(f"{FLASH_ATTN_4} {VERSION} does not take this call: {said}", said=said) from error
            raise
        return output.transpose(1, 2)

    yield call


def _is_compilers(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] == "cutlass"


def _read_source() -> KernelSource:
    found = read_packages((FLASH_ATTN_4, _DSL))
    return KernelSource(
        package=FLASH_ATTN_4,
        package_version=found[FLASH_ATTN_4] or "of unknown version",
        origin="installed",
        compiler=f"{_DSL} {found[_DSL] or 'of unknown version'}",
    )


FLASH_ATTN4 = Backend(
    slug="flash_attn4",
    title="flash-attn 4, the package",
    source=f"{FLASH_ATTN_4} {VERSION}, flash_attn.cute.flash_attn_func",
    families=("flash_attn4",),
    check=_check,
    build=_build,
    builds_mask=True,
    read_source=_read_source,
)
