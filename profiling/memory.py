"""Device memory of one call: what it held at its peak, and what it allocated besides its result."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from attention.kinds import AnyInputs, AnyWorkload, kind_of
from attention.paging import Paging
from profiling.recording import Memory

if TYPE_CHECKING:
    import torch


class MemoryGauge:
    """Made before a run's first call; only then is it known what a graph's own memory took."""

    def __init__(self, device: Literal["cpu", "cuda"]) -> None:
        self.device = device
        self.before = self._restart()

    def measure(
        self,
        workload: AnyWorkload,
        inputs: AnyInputs,
        call: "Callable[[], tuple[torch.Tensor, ...]]",
        *,
        holds_graph: bool,
        paging: Paging | None = None,
    ) -> Memory:
        """Bytes of one un-profiled call.

        With ``holds_graph`` the call allocates nothing: its graph's memory was taken when it was captured, so that
        the growth since before the first call counts. ``paging``: the cache that the call reads besides.
        """
        held = inputs.total_bytes
        kept = 0 if paging is None else paging.kept_bytes
        peak = materialized = None
        if self.device == "cuda":
            import torch

            before = self.before if holds_graph else self._restart()
            results = call()
            torch.cuda.synchronize()
            grown = torch.cuda.max_memory_allocated() - before
            # The gradients are results too: three of them may be larger than a short sequence's score matrix.
            returned = sum(tensor.nbytes for tensor in results)
            del results
            peak, materialized = held + kept + grown, max(0, grown - returned)
        return Memory(
            peak_bytes=peak,
            inputs_bytes=held,
            output_bytes=kind_of(workload).count_output_bytes(workload),
            materialized_bytes=materialized,
        )

    def _restart(self) -> int:
        """Bytes allocated now; peaks are counted from here on."""
        if self.device == "cpu":
            return 0
        import torch

        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
