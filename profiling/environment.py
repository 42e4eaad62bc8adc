"""The machine as the process that runs the workload sees it."""

import os
import platform
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from attention.backends import DeviceFacts
from attention.kernel_source import read_packages
from attention.workload import InvalidWorkload
from profiling.recording import Environment

NVIDIA_SMI_LIMIT_S = 5.0
# What the rules assume where a version cannot be read: the one that ZeroGPU offers.
UNKNOWN_TORCH = (2, 11)


def choose_device(wanted: Literal["auto", "cpu", "cuda"]) -> Literal["cpu", "cuda"]:
    """``wanted``, with auto resolved to the GPU where there is one.

    Raises:
        InvalidWorkload: a GPU was asked for and torch sees none.
    """
    import torch

    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise InvalidWorkload("device", wanted, "is not here: torch sees no GPU", "choose cpu or auto")
    return "cpu"


def capture_environment(device: Literal["cpu", "cuda"]) -> Environment:
    """Every fact that a number depends on; None for what this machine does not tell."""
    import torch

    total, free = _host_memory_bytes()
    host = Environment(
        device="cpu",
        device_name=_cpu_name(),
        total_memory_bytes=total,
        free_memory_bytes=free,
        torch=str(torch.__version__),  # a TorchVersion would make its reader import torch
        triton=_triton_version(),
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        cpu_count=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        on_zero_gpu=bool(os.environ.get("SPACES_ZERO_GPU")),
        app_revision=read_revision(Path(__file__).resolve().parent.parent),
        captured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        flags=_read_flags(),
        packages=read_packages(),
    )
    return host if device == "cpu" else _add_gpu(host)


def _add_gpu(host: Environment) -> Environment:
    import torch

    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    # Memory that torch's allocator holds but does not use is as good as free.
    free += torch.cuda.memory_reserved(0) - torch.cuda.memory_allocated(0)
    smi = _query_nvidia_smi(str(getattr(properties, "uuid", "")))
    cudnn = torch.backends.cudnn.version()
    return replace(
        host,
        device="cuda",
        device_name=properties.name,
        compute_capability=(properties.major, properties.minor),
        sm_count=properties.multi_processor_count,
        total_memory_bytes=total,
        free_memory_bytes=free,
        mig={"Enabled": True, "Disabled": False}.get(smi.get("mig.mode.current", "")),
        driver=smi.get("driver_version"),
        cuda=torch.version.cuda,
        cudnn=None if cudnn is None else f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
        sm_clock_mhz=_megahertz(smi.get("clocks.sm")),
        memory_clock_mhz=_megahertz(smi.get("clocks.mem")),
    )


def build_device_facts(environment: Environment) -> DeviceFacts:
    """What the backends' rules may know of this machine."""
    version = parse_torch_version(environment.torch)
    packages = tuple((name, found) for name, found in environment.packages.items() if found is not None)
    return DeviceFacts(
        kind=environment.device,
        name=environment.device_name,
        compute_capability=environment.compute_capability,
        total_memory_bytes=environment.total_memory_bytes,
        torch_version=version or UNKNOWN_TORCH,
        on_zero_gpu=environment.on_zero_gpu,
        packages=packages if environment.packages else None,
    )


def parse_torch_version(version: str) -> tuple[int, int] | None:
    """Major and minor of ``2.11.0+cu130``; None where the text is no version."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return None if match is None else (int(match[1]), int(match[2]))


def read_revision(folder: Path) -> str | None:
    """The commit that a checkout in ``folder`` stands on; None where there is no readable ``.git``."""
    head = folder / ".git" / "HEAD"
    try:
        text = head.read_text().strip()
        if text.startswith("ref: "):
            text = (folder / ".git" / text.removeprefix("ref: ")).read_text().strip()
    except OSError:
        return None
    return text if re.fullmatch(r"[0-9a-f]{40,64}", text) else None


def _triton_version() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


def _read_flags() -> dict[str, bool | str]:
    import torch

    return {
        "matmul_allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_allow_tf32": torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "flash_sdp_enabled": torch.backends.cuda.flash_sdp_enabled(),
        "mem_efficient_sdp_enabled": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "cudnn_sdp_enabled": torch.backends.cuda.cudnn_sdp_enabled(),
        "math_sdp_enabled": torch.backends.cuda.math_sdp_enabled(),
    }


def _query_nvidia_smi(uuid: str) -> dict[str, str]:
    """Field to value from ``nvidia-smi`` for one GPU; empty where the program is missing or does not answer."""
    fields = ("driver_version", "clocks.sm", "clocks.mem", "mig.mode.current")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    if uuid:
        command.append(f"--id=GPU-{uuid.removeprefix('GPU-')}")
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=NVIDIA_SMI_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in answer.stdout.strip().partition("\n")[0].split(",")]
    return dict(zip(fields, values, strict=False))


def _megahertz(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def _host_memory_bytes() -> tuple[int | None, int | None]:
    """Total and available host memory; the container's own limit where it is lower."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None, None
    sizes = {name: int(kilobytes) * 1024 for name, kilobytes in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    limit = _container_limit_bytes()
    if limit is not None and total is not None and free is not None and limit < total:
        return limit, min(free, limit)
    return total, free


def _container_limit_bytes() -> int | None:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
