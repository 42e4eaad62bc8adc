"""The machine of a report in words: one line, or every fact with its unit; and where its kernel came from."""

from collections.abc import Sequence
from dataclasses import fields

from attention.kernel_source import KernelSource
from profiling.format import NOT_RECORDED, format_bytes, format_count, format_quantity
from profiling.recording import Environment

# Labels that the field's name alone does not give.
_LABELS = {
    "sm_count": "streaming multiprocessors (SMs)",
    "mig": "a MIG slice of a GPU",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "cpu_count": "CPU cores",
    "sm_clock_mhz": "SM clock",
    "on_zero_gpu": "on ZeroGPU",
    "captured_at": "captured at (UTC)",
}


def describe_machine(environment: Environment | None, trace_devices: Sequence[str] = ()) -> str:
    """``NVIDIA H200 · torch 2.11.0+cu130 · CUDA 13.0 · cuDNN 9.19.0 · 2026-11-29T10:00:00+00:00``.

    ``trace_devices`` are the names in a trace's head, which stand for a machine that was not recorded.
    """
    if environment is None:
        if trace_devices:
            return f"{', '.join(trace_devices)}, as the trace names it · versions {NOT_RECORDED}"
        return f"machine {NOT_RECORDED}"
    return _join(environment.device_name, describe_versions(environment), environment.captured_at)


def describe_versions(environment: Environment) -> str:
    """``torch 2.11.0+cu130 · CUDA 13.0 · cuDNN 9.19.0``: what a number depends on besides the device."""
    named = (("torch", environment.torch), ("CUDA", environment.cuda), ("cuDNN", environment.cudnn))
    return _join(*(f"{name} {version}" for name, version in named if version))


def describe_environment(environment: Environment) -> tuple[tuple[str, str], ...]:
    """Label and value of every fact, in the type's order; a flag is a fact of its own."""
    facts: list[tuple[str, str]] = []
    for field in fields(environment):
        value = getattr(environment, field.name)
        if isinstance(value, dict):
            kind = field.name.removesuffix("s")
            missing = "not installed" if kind == "package" else None
            facts += [
                (f"{kind} {name}", _words(name, missing if item is None else item)) for name, item in value.items()
            ]
        else:
            label = field.name.removesuffix("_bytes").removesuffix("_mhz").replace("_", " ")
            facts.append((_LABELS.get(field.name, label), _words(field.name, value)))
    return tuple(facts)


_ORIGINS = {
    "hub": "the Hugging Face Hub, downloaded or checked by this run's process",
    "cache": "the local cache of the Hugging Face Hub, at that commit",
    "folder": "a folder that LOCAL_KERNELS names, so that no commit pins it",
    "installed": "the installed package",
}


def describe_kernel_source(source: KernelSource) -> tuple[tuple[str, str], ...]:
    """Label and value of every fact that this source has."""
    facts = (
        ("repository", source.repository),
        ("revision", source.revision),
        ("build variant", source.variant),
        ("kernel id", source.kernel_id),
        ("package", f"{source.package} {source.package_version}"),
        ("compiled by", source.compiler),
        ("loaded from", _ORIGINS[source.origin]),
    )
    return tuple((label, value) for label, value in facts if value)


def _join(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _words(name: str, value: object) -> str:
    if value is None or value == "":
        return NOT_RECORDED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    if isinstance(value, int):
        if name.endswith("_bytes"):
            return format_bytes(value)
        return format_quantity(value, "MHz") if name.endswith("_mhz") else format_count(value)
    return str(value)
