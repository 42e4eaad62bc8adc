"""Kernel name -> what it is, in words. Names are read, never executed or trusted: an unknown one stays unknown."""

import re
from dataclasses import dataclass
from functools import lru_cache

from profiling.report_schema import KernelRole
from profiling.trace.inductor_kernels import read_inductor_name
from profiling.trace.kernel_data_types import read_certain_data_type, read_data_type
from profiling.trace.kernel_pattern import KernelPattern
from profiling.trace.kernel_patterns import GROUPS
from profiling.trace.short_names import shorten_name

# A trace of a whole model has some hundred distinct names; visitors bring many traces, so the memory is bounded.
_REMEMBERED_NAMES = 4096
# ATen's names reach some 3,000 characters, the same arguments over and over: what they say comes first, and a hostile
# name costs the square of what is read of it.
_LONGEST_NAME = 2048

# The architectures' names by compute capability. Source: CUDA C++ Programming Guide, compute capabilities.
_ARCHITECTURES = {"5": "Maxwell", "6": "Pascal", "70": "Volta", "72": "Volta", "75": "Turing", "8": "Ampere"}
_NEWER_ARCHITECTURES = {"89": "Ada", "9": "Hopper", "10": "Blackwell", "11": "Blackwell", "12": "Blackwell"}
# AMD's by the processor's number. Source: LLVM, User Guide for AMDGPU Backend.
_AMD_ARCHITECTURES = {
    "908": "CDNA",
    "90a": "CDNA 2",
    "940": "CDNA 3",
    "941": "CDNA 3",
    "942": "CDNA 3",
    "950": "CDNA 4",
}

# Copies: the direction in the profiler's name for them. Source: CUpti_ActivityMemcpyKind.
_MEMCPY_DIRECTIONS = {
    "DtoD": "Copies device memory to device memory",
    "HtoD": "Copies host memory to the device",
    "DtoH": "Copies device memory to the host",
    "PtoP": "Copies memory between devices",
    "HtoH": "Copies host memory to host memory",
}

# What an operator does with one elementwise or reducing kernel, where the kernel's name leaves it open. Names without
# the overload, in-place forms included. Products are not here: "mul" may take two tensors or one and a number.
_OPERATOR_ROLES: dict[str, KernelRole] = {
    "aten::masked_fill": "mask",
    "aten::where": "mask",
    "aten::tril": "mask_build",
    "aten::triu": "mask_build",
    "aten::isneginf": "mask_build",
    "aten::logical_not": "mask_build",
    "aten::logical_and": "mask_build",
    "aten::logical_or": "mask_build",
    "aten::copy": "copy",
    "aten::clone": "copy",
    "aten::cat": "copy",
    "aten::sum": "reduce",
    "aten::all": "reduce",
    "aten::any": "reduce",
    "aten::amax": "reduce",
}
# What an operator does as a whole. It says what a kernel of an unknown library is part of, but not what a known
# library's kernel does in it: a fill under a matrix product is still a fill.
_WHOLE_OPERATOR_ROLES: dict[str, KernelRole] = _OPERATOR_ROLES | {
    "aten::softmax": "softmax",
    "aten::_softmax": "softmax",
    "aten::_softmax_backward_data": "softmax",
    "aten::mm": "gemm",
    "aten::bmm": "gemm",
    "aten::addmm": "gemm",
    "aten::baddbmm": "gemm",
    "aten::_flash_attention_forward": "attention_forward",
    "aten::_flash_attention_backward": "attention_backward",
    "aten::_efficient_attention_forward": "attention_forward",
    "aten::_efficient_attention_backward": "attention_backward",
    "aten::_cudnn_attention_forward": "attention_forward",
    "aten::_cudnn_attention_backward": "attention_backward",
    "aten::_scaled_dot_product_cudnn_attention": "attention_forward",
    "aten::_scaled_dot_product_cudnn_attention_backward": "attention_backward",
    "FlashAttnFunc": "attention_forward",
    "FlashAttnFuncBackward": "attention_backward",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelIdentity:
    """What a device item's name says. None: it does not say. ``tile`` as rows×columns of one block's output."""

    short_name: str
    role: KernelRole
    family: str
    data_type: str | None
    tile: str | None
    uses_tensor_cores: bool | None
    description: str


@lru_cache(maxsize=_REMEMBERED_NAMES)
def read_kernel_name(name: str, kind: str, operator: str | None) -> KernelIdentity:
    """What the device item ``name`` of ``kind`` (kernel, memcpy, memset) is.

    ``operator`` is the operator that launched it: it decides what the name leaves open.
    """
    if kind in ("memcpy", "memset"):
        return _read_memory_operation(name, kind)
    readable = name[:_LONGEST_NAME]
    if readable.startswith("triton_"):
        return _read_inductor(name, readable)
    for group in GROUPS:
        if not any(marker in readable for marker in group.markers):
            continue
        for pattern in group.patterns:
            if match := pattern.pattern.search(readable):
                return _read_match(name, readable, pattern, match, operator)
    return KernelIdentity(
        short_name=shorten_name(name),
        role=_role_by_operator(operator, _WHOLE_OPERATOR_ROLES) or "other",
        family="unknown",
        data_type=read_certain_data_type(readable),
        tile=None,
        uses_tensor_cores=None,
        description=f"Kernel of an unknown library{f', launched by {operator}' if operator else ''}",
    )


def _role_by_operator(operator: str | None, roles: dict[str, KernelRole]) -> KernelRole | None:
    return roles.get(operator.rstrip("_")) if operator else None


def _read_match(
    name: str, readable: str, pattern: KernelPattern, match: re.Match[str], operator: str | None
) -> KernelIdentity:
    groups = match.groupdict()
    tile = (groups.get("tile") or "").replace("x", "×") or None
    if groups.get("rows"):
        tile = f"{groups['rows']}×{groups['columns']}"
    role: KernelRole = pattern.role
    if role in ("elementwise", "other") and pattern.family.startswith("ATen"):
        role = _role_by_operator(operator, _OPERATOR_ROLES) or role
    description = pattern.says
    if work := groups.get("work"):
        description += f": {work.replace('_', ' ')}"
    if tile:
        description += f", {tile} tile"
    if pattern.types is not None:
        data_type = pattern.types.get(groups.get("type") or "")
    elif pattern.family == "unknown":
        data_type = read_certain_data_type(readable)
    else:
        data_type = read_data_type(readable)
    # NVIDIA's tensor cores take float32 as TF32 alone, AMD's matrix cores as it is.
    if data_type == "float32" and ("tf32" in readable or pattern.family == "cuBLAS nvjet"):
        description += ", in TF32"
    origin = [pattern.family] if pattern.family != "unknown" else []
    if arch := _name_architecture(groups.get("arch") or ""):
        origin.append(f"built for {arch}")
    if "pytorch_flash::" in readable:
        origin.append("built into PyTorch")
    return KernelIdentity(
        short_name=shorten_name(name),
        role=role,
        family=pattern.family,
        data_type=data_type,
        tile=tile,
        uses_tensor_cores=pattern.tensor_cores,
        description=description + (f" ({', '.join(origin)})" if origin else ""),
    )


def _read_inductor(name: str, readable: str) -> KernelIdentity:
    kernel = read_inductor_name(readable)
    fused = f", from {', '.join(kernel.fused)}" if kernel.fused else ""
    return KernelIdentity(
        short_name=shorten_name(name),
        role=kernel.role,
        family="Triton/Inductor",
        data_type=None,
        tile=None,
        uses_tensor_cores=None,
        description=f"{kernel.says}{fused} (Triton/Inductor)",
    )


def _read_memory_operation(name: str, kind: str) -> KernelIdentity:
    is_copy = kind == "memcpy"
    says = next((text for key, text in _MEMCPY_DIRECTIONS.items() if key in name), "Copies memory")
    return KernelIdentity(
        short_name=name.split(" (")[0],
        role="memcpy" if is_copy else "memset",
        family=kind,
        data_type=None,
        tile=None,
        uses_tensor_cores=None,
        description=says if is_copy else "Fills memory with one byte value",
    )


def _name_architecture(arch: str) -> str | None:
    if amd := _AMD_ARCHITECTURES.get(arch):
        return amd
    digits = arch.lower().removeprefix("sm")
    if not digits.isdigit():
        return arch.capitalize() or None
    for table in (_NEWER_ARCHITECTURES, _ARCHITECTURES):
        # "sm100" is 10.0 and "sm90" 9.0: the last digit is the minor version.
        if named := table.get(digits) or table.get(digits[:-1]):
            return named
    return None
