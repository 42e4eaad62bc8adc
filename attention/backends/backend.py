"""What a backend is: a rule that says whether it takes a workload, and a way to build the call."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attention.backends.decision import Decision, DeviceFacts
from attention.kernel_source import KernelSource
from attention.paging import Paging
from attention.workload import DType

if TYPE_CHECKING:
    import torch

    AttentionCall = Callable[[], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to compute attention, or another operation; ``check`` and ``build`` take workloads of one kind alone.

    ``families``: what the trace may show when the choice was honoured (see ObservedBackend.family).
    ``selects``: the call picks among other backends itself, so its Decision names the one it picks.
    ``check``: the verdict by rule, with every fact of the device as an argument; never imports torch.
    ``build``: a context in which the returned call runs this backend; it holds the pin, so that entering
    it costs nothing per call. The call returns the output ``[batch_size, num_heads, seq_len_q, value_dim]``.
    ``score_matrices``: score matrices alive at the peak, measured; 0 for kernels that never write the matrix.
    ``score_itemsize``: least bytes of one of its elements, where narrower inputs are raised; None: they are not.
    ``compile_mode``: how torch.compile is asked, where the first call compiles; empty for the others.
    ``holds_graph``: the call replays a CUDA graph of its own, so that it can be captured into no other one.
    ``measure_paging``: what its block table costs, for a call that reads key and value from a cache of blocks.
    ``read_source``: where the kernel of a call that ran came from, for one that is no part of torch.
    ``held_bytes``: what ``build`` keeps beside the inputs, and what a call copies, score matrices apart.
    """

    slug: str
    title: str
    source: str
    families: tuple[str, ...]
    check: Callable[[Any, DeviceFacts], Decision]
    build: Callable[[Any, Any], AbstractContextManager["AttentionCall"]]
    takes_dense_mask: bool = False  # is_causal reaches it as a bool tensor
    builds_mask: bool = False  # it takes the mask's predicate and bias, and no tensor
    selects: bool = False
    score_matrices: float = 0.0
    score_itemsize: int | None = None
    compile_mode: str = ""
    holds_graph: bool = False
    measure_paging: Callable[[Any], Paging] | None = None
    read_source: Callable[[], KernelSource] | None = None
    held_bytes: Callable[[Any], int] | None = None

    @property
    def compiles(self) -> bool:
        return bool(self.compile_mode)

    @property
    def is_probed(self) -> bool:
        """Whether a trial of its own is cheap; the others are judged by rule, and by the run that asks for them."""
        # A cache of blocks has to be filled first, and a kernel from elsewhere fetched or compiled.
        return not (self.compiles or self.holds_graph or self.measure_paging or self.read_source)

    def paging_of(self, workload: Any) -> Paging | None:
        """What the block table of ``workload`` costs; None where the call reads key and value themselves."""
        return None if self.measure_paging is None else self.measure_paging(workload)

    def score_element(self, dtype: DType) -> int:
        """Bytes of one element of the score matrix that this backend writes for inputs of ``dtype``."""
        return max(self.score_itemsize or 0, dtype.itemsize)
