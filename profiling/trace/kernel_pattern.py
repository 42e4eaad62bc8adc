"""One line of the tables that say what kernel names mean."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from profiling.report_schema import KernelRole

# For a pattern whose name holds type words that are not the tensors' data type: none of them is read.
NO_TYPES: Mapping[str, str] = {}

# So begins what is said of a kernel that does attention whole, and of none that prepares or ends it.
FUSED_ATTENTION = "Fused attention"
FORWARD_ON_TENSOR_CORES = f"{FUSED_ATTENTION} forward on tensor cores"
BACKWARD_ON_TENSOR_CORES = f"{FUSED_ATTENTION} backward on tensor cores"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPattern:
    """``says`` is what the kernel does, as the start of a sentence; ``tensor_cores`` None: the name does not say.

    Named groups of ``pattern``: ``tile`` ("128x64") or ``rows`` and ``columns``, of one block's output; ``arch``
    ("sm90", "ampere", "942"), for which it was built; ``work``, the operation inside a shared template; ``type``, which
    ``types`` translates into the tensors' data type. ``types`` None: the words of the whole name are read instead.
    """

    pattern: re.Pattern[str]
    role: KernelRole
    family: str
    says: str
    tensor_cores: bool | None = None
    types: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternGroup:
    """Patterns of one origin, for names that hold one of ``markers``: those are found far sooner than a match is."""

    markers: tuple[str, ...]
    patterns: tuple[KernelPattern, ...]


def entry(
    pattern: str,
    role: KernelRole,
    family: str,
    says: str,
    tensor_cores: bool | None = None,
    types: Mapping[str, str] | None = None,
) -> KernelPattern:
    """A table line, with its pattern compiled."""
    return KernelPattern(
        pattern=re.compile(pattern), role=role, family=family, says=says, tensor_cores=tensor_cores, types=types
    )
