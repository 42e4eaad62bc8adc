"""What the runs of one GPU entry share: the same tensors and verdicts for the same call on other backends."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attention.backends import Decision
from attention.kinds import AnyWorkload, kind_of


class SharedWork:
    """What runs of one entry may share: the same tensors and decisions for the same call on other backends."""

    def __init__(self) -> None:
        self._tensors: tuple[AnyWorkload, Any] | None = None
        self._decisions: tuple[AnyWorkload, tuple[Decision, ...]] | None = None

    def tensors(self, workload: AnyWorkload, device: str) -> Any:
        """What the kind's ``build_inputs`` takes."""
        call = replace(workload, backend="")
        if self._tensors is None or self._tensors[0] != call:
            self._tensors = None  # freed before the next ones are drawn
            self._tensors = (call, kind_of(workload).draw_tensors(workload, device))
        return self._tensors[1]

    def decisions(self, workload: AnyWorkload, build: Callable[[], tuple[Decision, ...]]) -> tuple[Decision, ...]:
        call = replace(workload, backend="")
        if self._decisions is None or self._decisions[0] != call:
            self._decisions = (call, build())
        return self._decisions[1]
