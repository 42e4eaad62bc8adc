"""A kernel's own name, without return type, parameters and template arguments."""

import re

_MANGLED_PART = re.compile(r"(\d+)")
# Launchers whose own name says nothing; the kernel is their template argument. Source: CUTLASS device_kernel.h, ck_tile
# host/kernel_launch.hpp, and the architecture guards that flash attention and PyTorch put around a kernel.
_WRAPPERS = re.compile(r"(?:cutlass::(?:Kernel2?|device_kernel)|ck_tile::kentry|(?:\w+::)*enable_\w+)<")
_MANGLED_WRAPPERS = frozenset({"Kernel", "Kernel2", "device_kernel", "kentry"})
_MANGLED_ARGUMENT = re.compile(r"I(?:Li\d+E)*(?:N(?:S\d*_)?)?(?=\d)")
_COUNTS = re.compile(r"(?:(?:\(int\))?\d+, |ck_tile::gfx\w+, )*")
# NVIDIA's Python DSL: the module in small letters, the kernel's class, the arguments.
_DSL = re.compile(r"^kernel_cutlass_[a-z0-9_]*([A-Z]\w*?)_object_at_")
# cuDNN's generated engines: operation, architecture, pass and instruction; then knobs, tiles and cluster.
_CUDNN_ENGINE = re.compile(r"^cudnn_generated\w*?_(sdpa_sm\d+(?:_\w+?)??)(?:_knob|_\d+x\d+x\d+|_cga|_kernel)")
_RETURN_TYPE = re.compile(r"^(?:std::)?enable_if<.{1,40}?>::type ")
# The part of an ATen kernel's template arguments that says what it does; the adapters around it do not.
_ATEN_TEMPLATES = re.compile(r"elementwise_kernel|reduce_kernel|gpu_kernel")
_ATEN_FUNCTOR = re.compile(
    r"\b(?![AB]UnaryFunctor|BinaryFunctor|gpu_kernel)(\w*Functor\w*|\w+_functor|\w+_kernel(?:_cuda|_impl)?|\w+KernelImpl|\w+Ops)\b"
)


def shorten_name(name: str) -> str:
    """The kernel's own name.

    ATen's shared templates keep the functor that tells one use from another:
    ``vectorized_elementwise_kernel<MulFunctor>``.
    """
    name = name.removesuffix(".kd")  # AMD's kernel descriptors
    if name.startswith("_Z"):
        return _demangle_last(name)
    if dsl := _DSL.match(name):
        return dsl[1]
    if engine := _CUDNN_ENGINE.match(name):
        return f"cudnn_{engine[1]}"
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    if returned := _RETURN_TYPE.match(plain):
        plain = plain[returned.end() :]
    stops = "<("
    while wrapper := _WRAPPERS.match(plain):
        inner = plain[wrapper.end() :].lstrip()
        plain = inner[_COUNTS.match(inner).end() :]  # type: ignore[union-attr]
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
    last, position = _read_parts(name, position, name)
    if last in _MANGLED_WRAPPERS and (argument := _MANGLED_ARGUMENT.match(name, position)):
        last, _ = _read_parts(name, argument.end(), last)
    return last


def _read_parts(name: str, position: int, last: str) -> tuple[str, int]:
    """The last of the length-prefixed parts from ``position`` on, and where they end."""
    while part := _MANGLED_PART.match(name, position):
        end = part.end() + int(part[1]) if len(part[1]) < 5 else len(name) + 1
        if end > len(name):
            break
        last, position = name[part.end() : end], end
    return last, position
