"""The call that a run measures: the forward pass alone, or with the gradients of query, key and value."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attention.backends import Backend
from attention.kinds import AnyInputs, AnyWorkload
from attention.tensors import Inputs
from attention.workload import Direction

if TYPE_CHECKING:
    import torch

    # The output alone, or output, grad_query, grad_key and grad_value.
    Results = tuple[torch.Tensor, ...]


@contextmanager
def build_call(backend: Backend, workload: AnyWorkload, inputs: AnyInputs) -> "Iterator[Callable[[], Results]]":
    """A context in which the yielded call runs ``workload`` on ``backend``.

    The call returns the output ``[batch_size, num_heads, seq_len_q, value_dim]``, beyond attention ``[tokens,
    hidden_size]``. With direction forward_backward it returns the gradients too, shaped as query, key and value; they
    are taken without accumulating into ``.grad``.
    """
    import torch

    differentiate = workload.direction is Direction.FORWARD_BACKWARD
    with torch.set_grad_enabled(differentiate), backend.build(workload, inputs) as forward:
        if not differentiate:
            yield lambda: (forward(),)
            return
        assert isinstance(inputs, Inputs), "attention alone has this direction"
        leaves = (inputs.query, inputs.key, inputs.value)

        def forward_backward() -> "Results":
            output = forward()
            return (output.detach(), *torch.autograd.grad(output, leaves, inputs.grad_output))

        yield forward_backward
