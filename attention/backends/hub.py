"""flash-attn 2 and 3 as compiled builds from the Hugging Face Hub, loaded by the ``kernels`` library.

Each repository is pinned to one commit. The local cache is asked first: a commit never changes, so that a cached one
needs no network. Nothing is imported or downloaded before a visitor's own call of one of these backends.
Source: kernels 0.17.2, load.py, install.py, resolver.py and archs.py.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
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
    same_head_dims,
    translate_mask,
)
from attention.backends.sdpa_rules import Rule
from attention.kernel_source import KERNELS, KernelRefusal, KernelSource, read_packages
from attention.workload import Workload

if TYPE_CHECKING:
    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

_SHORT_REVISION = 12
_INSTALL = "Install the package kernels (pip install --upgrade kernels) where AttnScope runs, and start it again."


@dataclass(frozen=True, slots=True, kw_only=True)
class HubKernel:
    """One repository at one commit, and what its builds take."""

    slug: str
    repository: str
    revision: str
    rules: tuple[Rule, ...]


def _needs_torch(least: tuple[int, int]) -> Rule:
    def rule(workload: Workload, device: DeviceFacts) -> str | None:
        have = device.torch_version
        if have >= least:
            return None
        return f"is built for torch {least[0]}.{least[1]} and newer, this is {have[0]}.{have[1]}"

    return rule


def _flash_attn3_head_dims(workload: Workload, device: DeviceFacts) -> str | None:
    # mha_fwd in flash_api.cpp names these pairs; value dims above 256 it takes forward alone, and largest_head_dim
    # leaves those out.
    head_dim, value_dim = workload.head_dim, workload.value_dim
    if head_dim == value_dim or head_dim <= 64 or (128 < head_dim <= 192 and 96 < value_dim <= 128):
        return None
    return (
        "takes a head_dim_v of its own for head_dim up to 64, or 97 to 128 for head_dim 129 to 192, "
        f"these are {head_dim} and {value_dim}"
    )


FLASH_ATTN2 = HubKernel(
    slug="hub_flash_attn2",
    repository="kernels-community/flash-attn2",
    # Its CUDA builds are for torch's stable ABI, so that one serves every torch from 2.10 on: for CUDA 12.6, 12.8, 13.0
    # and 13.2. The repository had failing gradients with grouped heads (huggingface/kernels-community#1085, fixed in
    # September 2026); this commit has builds for torch 2.14, which is later. Source: the kernels.lock of
    # Synthyra/FastPLMs, which lists its builds.
    revision="81fb77c12b2ad5d69380669b46739d5868614502",
    rules=(
        needs_cuda,
        # build.toml: 8.0, 9.0, 10.0 and 12.0; each runs on later capabilities of its own generation.
        needs_capability("8.x, 9.x, 10.x or 12.x", 8, 9, 10, 12),
        _needs_torch((2, 10)),
        *SHARED_RULES,
        # Sizes that are no multiple of 8 are padded by its Python interface.
        same_head_dims,
    ),
)
FLASH_ATTN3 = HubKernel(
    slug="hub_flash_attn3",
    repository="kernels-community/flash-attn3",
    # With builds for torch 2.10, 2.11 and 2.12 and for the stable ABI of torch 2.9 and newer, for CUDA 12.6, 12.8 and
    # 13.0. Source: the kernels.lock of Synthyra/FastPLMs, which lists its builds.
    revision="43f0bd269777115d94ff826e0d113ce9c1c9087b",
    rules=(
        needs_cuda,
        # Its builds also hold kernels for 8.0, which are no version 3 in anything but the name; on 12.0 it was seen to
        # end the process.
        needs_capability("9.0 alone", (9, 0)),
        _needs_torch((2, 9)),
        *SHARED_RULES,
        aligned_head_dims,
        _flash_attn3_head_dims,
    ),
)


def _check(kernel: HubKernel, workload: Workload, device: DeviceFacts) -> Decision:
    pinned = f"{kernel.repository} at {kernel.revision[:_SHORT_REVISION]}"
    loads = f"its first call loads {pinned}, from the Hub where it is not cached"
    decision = decide(kernel.slug, kernel.rules, workload, device, loads)
    if decision.verdict != "accepted" or installed_version(KERNELS, device) != "":
        return decision
    reason = f"needs the package {KERNELS}, which is not installed here"
    return Decision(backend=kernel.slug, verdict="rejected", reason=reason, remedy=_INSTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedKernel:
    """``attend``: the repository's ``flash_attn_func``, with tensors ``[batch_size, seq_len, heads, dim]``."""

    attend: Callable[..., Any]
    source: KernelSource


@cache
def load_hub_kernel(kernel: HubKernel) -> LoadedKernel:
    """The kernel at its commit, downloaded where it is not cached; loaded once a process.

    A folder that the library's own LOCAL_KERNELS names for the repository comes before either, and is recorded as such.

    Raises:
        KernelRefusal: the package or a build is not here, the Hub cannot be reached, or the build does not load.
    """
    try:
        from kernels import get_kernel, get_loaded_kernels, get_local_kernel, install_kernel
    except ImportError as error:
        reason = f"needs the package {KERNELS} with get_loaded_kernels, and it cannot be imported here"
        raise KernelRefusal(reason, remedy=_INSTALL, said=str(error)) from error
    try:
        if _names_folder(kernel.repository):
            module = get_kernel(kernel.repository, revision=kernel.revision)
        else:
            module = _load_cached(kernel, install_kernel, get_local_kernel)
            module = module or get_kernel(kernel.repository, revision=kernel.revision)
        attend = module.flash_attn_func
    except Exception as error:  # whatever the Hub, the cache or the loader raises: the kernel is not here
        raise explain_load_error(kernel, error) from error
    loaded = next(entry for entry in get_loaded_kernels() if entry.module is module)
    return LoadedKernel(attend=attend, source=_read_source(kernel, module, loaded))


def _names_folder(repository: str) -> bool:
    """Whether the library's LOCAL_KERNELS (``repository=folder``, joined by colons) names this repository."""
    entries = os.environ.get("LOCAL_KERNELS", "").split(":")
    return any(entry.partition("=")[0] == repository for entry in entries)


def _load_cached(
    kernel: HubKernel, install_kernel: Callable[..., Path], get_local_kernel: Callable[..., ModuleType]
) -> ModuleType | None:
    """The cached build, without asking the network; None where there is none, or it is not whole."""
    try:
        folder = install_kernel(kernel.repository, revision=kernel.revision, local_files_only=True)
        return get_local_kernel(folder)
    except (OSError, ValueError, ImportError):  # not there, or cut off: the Hub has the rest, or says what is wrong
        return None


def _read_source(kernel: HubKernel, module: ModuleType, loaded: Any) -> KernelSource:
    # The module's file lies in the build's folder, or one below it.
    folders = Path(str(module.__file__)).parents
    variant = next((folder.name for folder in folders if (folder / "metadata.json").is_file()), None)
    on_hub = loaded.repo_info is not None
    from_folder = not on_hub and _names_folder(kernel.repository)
    return KernelSource(
        package=KERNELS,
        package_version=read_packages((KERNELS,))[KERNELS] or "of unknown version",
        origin="hub" if on_hub else "folder" if from_folder else "cache",
        repository=kernel.repository,
        revision=loaded.repo_info.revision if on_hub else None if from_folder else kernel.revision,
        variant=variant,
        kernel_id=loaded.metadata.id,
    )


def explain_load_error(kernel: HubKernel, error: Exception) -> KernelRefusal:
    """A loader's error in our words, with the one thing to do; the library's own words stay whole."""
    from huggingface_hub import constants

    pinned = f"{kernel.repository} at {kernel.revision[:_SHORT_REVISION]}"
    if "build variant" in str(error):
        reason = f"there is no build of {pinned} for this torch, CUDA and platform"
        remedy = "Use a torch that one of the builds is for; the library lists them under Fallbacks."
    elif constants.HF_HUB_OFFLINE:
        reason = f"the local cache does not hold {pinned}, and HF_HUB_OFFLINE keeps this process off the Hub"
        remedy = "Unset HF_HUB_OFFLINE for one run, which puts the kernel into the cache."
    elif _never_answered(error):
        reason = f"the local cache does not hold {pinned}, and the Hugging Face Hub did not answer"
        remedy = "Check this machine's connection to the Hub and run again."
    else:
        reason = f"the build of {pinned} did not load here"
        remedy = "Choose sdpa_flash; the library's own words are under Fallbacks."
    return KernelRefusal(reason, remedy=remedy, said=f"{type(error).__name__}: {error}")


def _never_answered(error: BaseException | None) -> bool:
    """Whether the Hub's client got no answer, which may be what another error hides."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    while error is not None:
        module, name = type(error).__module__, type(error).__name__
        if isinstance(error, ConnectionError | TimeoutError | LocalEntryNotFoundError):
            return True
        # The client is httpx or httpx2, by release; a status error is an answer that says no.
        if module.startswith(("httpx", "httpcore")) and name != "HTTPStatusError":
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _build(kernel: HubKernel, workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    attend, flags = load_hub_kernel(kernel).attend, translate_mask(workload)
    # Views of its layout, made once: a model that holds its tensors this way has no such step.
    query, key, value = (tensor.transpose(1, 2) for tensor in (inputs.query, inputs.key, inputs.value))
    options: dict[str, Any] = {"softmax_scale": workload.softmax_scale, "causal": flags.causal}
    if flags.window_left is not None:
        options["window_size"] = (flags.window_left, 0)

    def call() -> Any:
        result = attend(query, key, value, **options)
        # Releases of version 3 differ in whether the row statistics come with the output.
        output = result[0] if isinstance(result, tuple) else result
        return output.transpose(1, 2)

    yield call


HUB_FLASH_ATTN2 = Backend(
    slug=FLASH_ATTN2.slug,
    title="flash-attn 2 from the Hugging Face Hub",
    source=f"{FLASH_ATTN2.repository}, flash_attn_func, loaded by kernels.get_kernel",
    families=("flash_attn2",),
    check=partial(_check, FLASH_ATTN2),
    build=partial(_build, FLASH_ATTN2),
    builds_mask=True,
    read_source=lambda: load_hub_kernel(FLASH_ATTN2).source,
)
HUB_FLASH_ATTN3 = Backend(
    slug=FLASH_ATTN3.slug,
    title="flash-attn 3 from the Hugging Face Hub",
    source=f"{FLASH_ATTN3.repository}, flash_attn_func, loaded by kernels.get_kernel",
    families=("flash_attn3",),
    check=partial(_check, FLASH_ATTN3),
    build=partial(_build, FLASH_ATTN3),
    builds_mask=True,
    read_source=lambda: load_hub_kernel(FLASH_ATTN3).source,
)
