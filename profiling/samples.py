"""The raw durations of one clock, as the GPU process took them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Raw durations of one clock. ``method`` says how they were taken; ``l2`` only for device time."""

    samples_ns: tuple[int, ...]
    method: str
    l2: Literal["warm", "flushed"] | None = None
