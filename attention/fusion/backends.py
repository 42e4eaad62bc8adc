"""The two ways to run an operation beyond attention: operator by operator, and as torch.compile fuses it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from attention.backends.backend import Backend
from attention.backends.compiled import compiler_refusals, decide_compiled, fresh_compiler
from attention.backends.decision import Decision, DeviceFacts
from attention.fusion import operation_of
from attention.fusion.inputs import FusionInputs
from attention.fusion.workload import FusionWorkload

if TYPE_CHECKING:
    from attention.backends.backend import AttentionCall


def _check_eager(workload: FusionWorkload, device: DeviceFacts) -> Decision:
    return Decision(backend="eager", verdict="accepted", reason="plain operators take every dtype and size")


@contextmanager
def _build_eager(workload: FusionWorkload, inputs: FusionInputs) -> "Iterator[AttentionCall]":
    yield partial(operation_of(workload).build(), *inputs.tensors)


def _check_compiled(workload: FusionWorkload, device: DeviceFacts) -> Decision:
    return decide_compiled("compiled", compiler_refusals(workload, device), device)


@contextmanager
def _build_compiled(workload: FusionWorkload, inputs: FusionInputs) -> "Iterator[AttentionCall]":
    import torch

    with fresh_compiler():
        yield partial(torch.compile(operation_of(workload).build()), *inputs.tensors)


EAGER = Backend(
    slug="eager",
    title="eager: one operator at a time",
    source="torch.nn.functional.linear and silu; torch.Tensor.pow, mean and rsqrt",
    families=("eager",),
    check=_check_eager,
    build=_build_eager,
)
COMPILED = Backend(
    slug="compiled",
    title="the same formula under torch.compile",
    source="torch.compile(mode='default')",
    families=("compiled",),
    check=_check_compiled,
    build=_build_compiled,
    compile_mode="default",
)

FUSION_BACKENDS: tuple[Backend, ...] = (EAGER, COMPILED)
