"""What a backend is: a rule that says whether it takes a workload, and a way to build the call."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attention.backends.decision import Decision, DeviceFacts
from attention.workload import DType, Workload

if TYPE_CHECKING:
    import torch

    from attention.tensors import Inputs

    AttentionCall = Callable[[], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to compute attention.

    ``families``: what the trace may show when the choice was honoured (see ObservedBackend.family).
    ``selects``: the call picks among other backends itself, so its Decision names the one it picks.
    ``check``: the verdict by rule, with every fact of the device as an argument; never imports torch.
    ``build``: a context in which the returned call runs this backend; it holds the pin, so that entering
    it costs nothing per call. The call returns the output ``[batch_size, num_heads, seq_len_q, value_dim]``.
    ``score_matrices``: score matrices alive at the peak, measured; 0 for kernels that never write the matrix.
    ``score_itemsize``: least bytes of one of its elements, where narrower inputs are raised; None: they are not.
    ``compile_mode``: how torch.compile is asked, where the first call compiles; empty for the others.
    ``holds_graph``: the call replays a CUDA graph of its own, so that it can be captured into no other one.
    """

    slug: str
    title: str
    source: str
    families: tuple[str, ...]
    check: Callable[[Workload, DeviceFacts], Decision]
    build: Callable[[Workload, "Inputs"], AbstractContextManager["AttentionCall"]]
    takes_dense_mask: bool = False  # is_causal reaches it as a bool tensor
    builds_mask: bool = False  # it takes the mask's predicate and bias, and no tensor
    selects: bool = False
    score_matrices: float = 0.0
    score_itemsize: int | None = None
    compile_mode: str = ""
    holds_graph: bool = False

    @property
    def compiles(self) -> bool:
        return bool(self.compile_mode)

    @property
    def is_probed(self) -> bool:
        """Whether a trial of its own is cheap; the others are judged by rule, and by the run that asks for them."""
        return not (self.compiles or self.holds_graph)

    def score_element(self, dtype: DType) -> int:
        """Bytes of one element of the score matrix that this backend writes for inputs of ``dtype``."""
        return max(self.score_itemsize or 0, dtype.itemsize)
