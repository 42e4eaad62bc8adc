"""Where a kernel that is no part of torch came from, and why it may not be here."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

# Packages that a backend needs besides torch, by the name that pip knows.
KERNELS = "kernels"
FLASH_ATTN_4 = "flash-attn-4"
OPTIONAL_PACKAGES = (KERNELS, FLASH_ATTN_4)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """What was loaded. None: this source has no such thing, or does not tell.

    ``package`` and ``package_version``: what loaded the kernel, or holds it itself.
    ``repository`` and ``revision``: on the Hugging Face Hub, the commit in full.
    ``variant``: which of the repository's builds was chosen here, by torch, CUDA and platform.
    ``kernel_id``: the build's own name, the namespace of its operators.
    ``compiler``: what generated its code on this machine.
    ``origin``: hub, downloaded or checked there by this process; cache, its local copy of that commit, which no one was
    asked about; folder, the one that LOCAL_KERNELS names, whatever it holds; installed, with the package.
    """

    package: str
    package_version: str
    origin: Literal["hub", "cache", "folder", "installed"]
    repository: str | None = None
    revision: str | None = None
    variant: str | None = None
    kernel_id: str | None = None
    compiler: str | None = None


class KernelRefusal(RuntimeError):
    """A kernel from outside torch that cannot be had or does not take the call.

    ``remedy``: the one thing to do where the machine and not the workload is in the way; empty where it is the
    workload. ``said``: the library's own words, whole.
    """

    def __init__(self, reason: str, *, remedy: str = "", said: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.said = said


def read_packages(names: Iterable[str] = OPTIONAL_PACKAGES) -> dict[str, str | None]:
    """Package to its installed version, None where it is not installed; nothing is imported."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
