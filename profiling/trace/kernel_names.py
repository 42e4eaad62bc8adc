"""Kernel name -> what it is, in words. Names are read, never executed or trusted: an unknown one stays unknown."""

import re
from dataclasses import dataclass
from functools import lru_cache

from profiling.report_schema import KernelRole
from profiling.trace.kernel_patterns import PATTERNS, KernelPattern

# A trace of a whole model has some hundred distinct names; visitors bring many traces, so the memory is bounded.
_REMEMBERED_NAMES = 4096
# ATen's names reach some 3,000 characters; beyond this no pattern finds more, and a hostile name costs time.
_LONGEST_NAME = 4096

# NVIDIA's names of the architectures. Source: CUDA C++ Programming Guide, compute capabilities.
_ARCHITECTURES = {"5": "Maxwell", "6": "Pascal", "70": "Volta", "72": "Volta", "75": "Turing", "8": "Ampere"}
_NEWER_ARCHITECTURES = {"89": "Ada", "9": "Hopper", "10": "Blackwell", "11": "Blackwell", "12": "Blackwell"}

# In this order: the first is the tensors' dtype, later ones may only be the accumulator's.
_DTYPES = (
    ("float8", re.compile(r"e4m3|e5m2|Float8")),
    ("bfloat16", re.compile(r"bf16|BFloat16|bfloat16")),
    ("float16", re.compile(r"fp16|\bHalf|half_t|__half|float16|(?<![a-z])f16|[_a-z]h\d{3,6}gemm|hgemm")),
    ("float64", re.compile(r"\bdouble\b|f64|dgemm")),
    ("float32", re.compile(r"\bfloat\b|f32|sgemm")),
    ("bool", re.compile(r"\bbool\b")),
)
# First letter of nvjet's type triple, seen: t bfloat16, h float16, s float32 (as TF32).
_NVJET_DTYPES = {"t": "bfloat16", "h": "float16", "s": "float32"}
_NVJET_TYPES = re.compile(r"^nvjet_(?:sm\d+_)?([a-z])[a-z]{2}_")

# Copies: the direction in the profiler's name for them. Source: CUpti_ActivityMemcpyKind.
_MEMCPY_DIRECTIONS = {
    "DtoD": "Copies device memory to device memory",
    "HtoD": "Copies host memory to the device",
    "DtoH": "Copies device memory to the host",
    "PtoP": "Copies memory between devices",
    "HtoH": "Copies host memory to host memory",
}

# What an operator does, where a kernel's name leaves it open. Names without the overload, in-place forms included.
_OPERATOR_ROLES: dict[str, KernelRole] = {
    "aten::masked_fill": "mask",
    "aten::tril": "mask",
    "aten::triu": "mask",
    "aten::where": "mask",
    "aten::isneginf": "mask",
    "aten::logical_not": "mask",
    "aten::logical_and": "mask",
    "aten::mul": "scale",
    "aten::div": "scale",
    "aten::softmax": "softmax",
    "aten::_softmax": "softmax",
    "aten::mm": "gemm",
    "aten::bmm": "gemm",
    "aten::addmm": "gemm",
    "aten::baddbmm": "gemm",
    "aten::copy": "copy",
    "aten::clone": "copy",
    "aten::cat": "copy",
    "aten::sum": "reduce",
    "aten::all": "reduce",
    "aten::any": "reduce",
    "aten::amax": "reduce",
    "aten::_flash_attention_forward": "attention",
    "aten::_flash_attention_backward": "attention",
    "aten::_efficient_attention_forward": "attention",
    "aten::_efficient_attention_backward": "attention",
    "aten::_cudnn_attention_forward": "attention",
    "aten::_scaled_dot_product_cudnn_attention": "attention",
}

_MANGLED_PART = re.compile(r"(\d+)")
_CUTLASS_WRAPPER = re.compile(r"cutlass::(?:Kernel2?|device_kernel)<(.*)", re.DOTALL)
_ENABLE_WRAPPER = re.compile(r"(?:\w+::)*enable_\w+<(.*)", re.DOTALL)
# The part of an ATen kernel's template arguments that says what it does; the adapters around it do not.
_ATEN_FUNCTOR = re.compile(
    r"\b(?![AB]UnaryFunctor|BinaryFunctor)(\w*Functor\w*|\w+_functor|\w+_kernel(?:_cuda|_impl)?|\w+Ops)\b"
)
_ATEN_TEMPLATES = re.compile(r"elementwise_kernel|reduce_kernel|gpu_kernel")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelIdentity:
    """What a device item's name says. None: it does not say. ``tile`` as rows×columns of one block's output."""

    short_name: str
    role: KernelRole
    family: str
    dtype: str | None
    tile: str | None
    uses_tensor_cores: bool | None
    description: str


@lru_cache(maxsize=_REMEMBERED_NAMES)
def read_kernel_name(name: str, kind: str, operator: str | None) -> KernelIdentity:
    """What the device item ``name`` of ``kind`` (kernel, memcpy, memset) is.

    ``operator`` is the operator that launched it: it decides what the name leaves open (a product with a number under
    ``aten::mul`` is a scale).
    """
    if kind in ("memcpy", "memset"):
        return _read_memory_operation(name, kind)
    role_by_operator = _OPERATOR_ROLES.get(operator.rstrip("_")) if operator else None
    readable = name[:_LONGEST_NAME]
    for pattern in PATTERNS:
        if match := pattern.pattern.search(readable):
            return _read_match(name, pattern, match, role_by_operator)
    return KernelIdentity(
        short_name=shorten_name(name),
        role=role_by_operator or "other",
        family="unknown",
        dtype=_read_dtype(name),
        tile=None,
        uses_tensor_cores=None,
        description=f"Kernel of an unknown library{f', launched by {operator}' if operator else ''}",
    )


def _read_match(
    name: str, pattern: KernelPattern, match: re.Match[str], role_by_operator: KernelRole | None
) -> KernelIdentity:
    groups = match.groupdict()
    tile = (groups.get("tile") or "").replace("x", "×") or None
    if groups.get("rows"):
        tile = f"{groups['rows']}×{groups['columns']}"
    role: KernelRole = pattern.role
    if role in ("elementwise", "other") and role_by_operator is not None:
        role = role_by_operator
    origin = [pattern.family] if pattern.family != "unknown" else []
    if arch := _name_architecture(groups.get("arch") or ""):
        origin.append(arch)
    if "pytorch_flash::" in name:
        origin.append("built into PyTorch")
    description = pattern.says + (f", {tile} tile" if tile else "")
    if fused := groups.get("fused"):
        description += f", from {fused.strip('_')}"
    return KernelIdentity(
        short_name=shorten_name(name),
        role=role,
        family=pattern.family,
        dtype=_read_dtype(name) if pattern.reads_dtype else None,
        tile=tile,
        uses_tensor_cores=pattern.tensor_cores,
        description=description + (f" ({', '.join(origin)})" if origin else ""),
    )


def _read_memory_operation(name: str, kind: str) -> KernelIdentity:
    is_copy = kind == "memcpy"
    says = next((text for key, text in _MEMCPY_DIRECTIONS.items() if key in name), "Copies memory")
    return KernelIdentity(
        short_name=name.split(" (")[0],
        role="memcpy" if is_copy else "memset",
        family=kind,
        dtype=None,
        tile=None,
        uses_tensor_cores=None,
        description=says if is_copy else "Fills memory with one byte value",
    )


def shorten_name(name: str) -> str:
    """The kernel's own name without return type, parameters and template arguments.

    ATen's shared templates keep the functor that tells one use from another:
    ``vectorized_elementwise_kernel<MulFunctor>``.
    """
    if name.startswith("_Z"):
        return _demangle_last(name)
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    stops = "<("
    for wrapper in (_CUTLASS_WRAPPER, _ENABLE_WRAPPER):
        if inner := wrapper.match(plain):
            plain = inner[1].lstrip()
            stops = "<(>"
    end = min((at for at in map(plain.find, stops) if at > 0), default=len(plain))
    base, arguments = plain[:end], plain[end:]
    base = base.strip().removeprefix("at::native::").removeprefix("at::cuda::")
    if _ATEN_TEMPLATES.search(base) and (functor := _ATEN_FUNCTOR.search(arguments)):
        return f"{base}<{functor[1]}>"
    return base or name


def _demangle_last(name: str) -> str:
    """Last part of an Itanium-mangled nested name (``_ZN2at6native6kernelE…`` -> ``kernel``), or the name itself."""
    position = 3 if name.startswith("_ZN") else 2
    last = name
    while part := _MANGLED_PART.match(name, position):
        end = part.end() + int(part[1]) if len(part[1]) < 5 else len(name) + 1
        if end > len(name):
            break
        last = name[part.end() : end]
        position = end
    return last


def _read_dtype(name: str) -> str | None:
    if nvjet := _NVJET_TYPES.match(name):
        return _NVJET_DTYPES.get(nvjet[1])
    return next((dtype for dtype, pattern in _DTYPES if pattern.search(name)), None)


def _name_architecture(arch: str) -> str | None:
    if not arch:
        return None
    digits = arch.lower().removeprefix("sm")
    if not digits.isdigit():
        return arch.capitalize()
    for table in (_NEWER_ARCHITECTURES, _ARCHITECTURES):
        # "sm100" is 10.0 and "sm90" 9.0: the last digit is the minor version.
        if named := table.get(digits) or table.get(digits[:-1]):
            return named
    return None
