"""Whether a backend takes a workload, as data: the verdict, our reason and PyTorch's own words."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["accepted", "rejected", "undetermined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One backend's verdict on one workload.

    ``reason`` names both sides in one line: what the backend needs and what this workload is.
    ``raw_message`` is PyTorch's own text, whole; empty when nothing was said.
    ``unlocked_by`` lists single-variable changes that were tried and worked, or that the rule of a backend that is
    not tried accepts; each says which. ``untried`` lists those that the rule accepts and that were not tried, with why.
    ``selects``: for a selector, the slug of the backend that it picks.
    ``remedy``: what to do where the machine lacks something that no change to the workload brings; empty otherwise.
    """

    backend: str
    verdict: Verdict
    reason: str
    raw_message: str = ""
    unlocked_by: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    basis: Literal["rule", "probe"] = "rule"
    selects: str | None = None
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What the rules may know of a device, so that any machine's choice is testable anywhere."""

    kind: Literal["cpu", "cuda"]
    name: str = ""
    compute_capability: tuple[int, int] | None = None
    total_memory_bytes: int | None = None
    torch_version: tuple[int, int] = (2, 11)
    on_zero_gpu: bool = False
    packages: tuple[tuple[str, str], ...] | None = None  # of OPTIONAL_PACKAGES, those installed; None: not known
