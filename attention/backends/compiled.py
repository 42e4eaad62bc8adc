"""torch.compile of the naive formula, in three modes, and of scaled_dot_product_attention.

Dynamo and Inductor forget everything before a run and after it, so that the run's first call is the one that
compiles. Code that Inductor stored on disk for an equal graph is still read back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from attention.backends.backend import Backend
from attention.backends.decision import Decision, DeviceFacts
from attention.backends.naive import attend, repeat_heads
from attention.backends.sdpa import SDPA_AUTO
from attention.workload import Workload

if TYPE_CHECKING:
    import torch

    from attention.backends.backend import AttentionCall
    from attention.tensors import Inputs

# Inductor's GPU code is Triton, which generates for Volta and newer. Source: torch._inductor.exc.GPUTooOldForTriton.
TRITON_CAPABILITY = (7, 0)
# Inductor replaces a naive formula that it recognises by SDPA (torch/_inductor/fx_passes/fuse_attention.py): seen on
# a CPU without a mask, so that a fused family is no fallback here.
_COMPILED_FAMILIES = ("compiled_naive", "cudnn", "flash", "efficient", "math")
# The softmax may be written over the scores, as seen on a CPU, and need not be: both matrices are counted.
_SCORE_MATRICES = 2


def compiler_refusals(workload: object, device: DeviceFacts) -> list[str]:
    """What Inductor lacks on this device, each as a reason; empty where it can compile."""
    have = device.compute_capability
    if device.kind == "cuda" and have is not None and have < TRITON_CAPABILITY:
        least = f"{TRITON_CAPABILITY[0]}.{TRITON_CAPABILITY[1]}"
        return [f"needs Triton, which needs compute capability {least} or newer, this is {have[0]}.{have[1]}"]
    return []


def decide_compiled(slug: str, reasons: list[str], device: DeviceFacts, selects: str | None = None) -> Decision:
    """Rejected for ``reasons``; else accepted, with what compiling needs here."""
    if reasons:
        return Decision(backend=slug, verdict="rejected", reason="; ".join(reasons))
    needs = "its first call compiles"
    if device.kind == "cpu":
        needs += " with a C++ compiler"
    if device.on_zero_gpu:
        needs += "; ZeroGPU does not support torch.compile officially, though it ran there"
    reason = f"meets every requirement known for this device; {needs}"
    return Decision(backend=slug, verdict="accepted", reason=reason, selects=selects)


@contextmanager
def fresh_compiler() -> Iterator[None]:
    """A context in which Dynamo and Inductor know nothing of earlier runs, and after which they know nothing of it."""
    import torch

    _restore_exchange_device()
    import torch._inductor.config

    torch.compiler.reset()
    try:
        # Without it nothing in a CPU trace says which of Inductor's C++ kernels ran.
        with torch._inductor.config.patch({"cpp.enable_kernel_profile": True}):
            yield
    finally:
        torch.compiler.reset()


def _restore_exchange_device() -> None:
    """Undo a wrong binding that the ``spaces`` package (0.51) leaves behind on ZeroGPU.

    It gives two functions of torch.cuda one builtin; Dynamo of torch 2.14 registers each and asserts that they differ.
    """
    import torch

    own = getattr(torch._C, "_cuda_maybeExchangeDevice", None)
    bound = getattr(torch.cuda, "_maybe_exchange_device", None)
    if own is not None and bound is not None and bound is getattr(torch.cuda, "_exchange_device", None):
        torch.cuda._maybe_exchange_device = own


def attend_grouped(
    query: "torch.Tensor",
    key: "torch.Tensor",
    value: "torch.Tensor",
    *,
    masked: "torch.Tensor | None",
    bias: "torch.Tensor | None",
    scale: float,
) -> "torch.Tensor":
    """The naive formula with its repeated heads, as one function for the compiler.

    Shapes are those of ``Inputs``; ``masked`` is True where a query may NOT attend.
    """
    heads = query.shape[1]
    key, value = repeat_heads(key, heads), repeat_heads(value, heads)
    return attend(query, key, value, masked=masked, bias=bias, scale=scale, in_place=False)


@contextmanager
def _build_naive(mode: str, workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    import torch

    with fresh_compiler():
        compiled = torch.compile(attend_grouped, mode=mode)
        options: dict[str, Any] = {
            "masked": None if inputs.allowed is None else ~inputs.allowed,
            "bias": inputs.bias,
            "scale": workload.softmax_scale,
        }
        if mode != "reduce-overhead":
            yield partial(compiled, inputs.query, inputs.key, inputs.value, **options)
            return

        def call() -> "torch.Tensor":
            # The graph first copies query, key and value into its own memory, as this mode does with all inputs that
            # are no parameters. The output lies there too and holds until the next call: a copy would outlive it, and
            # would be one more kernel that the formula does not have.
            torch.compiler.cudagraph_mark_step_begin()
            output: torch.Tensor = compiled(inputs.query, inputs.key, inputs.value, **options)
            return output

        yield call


def _check_naive(slug: str, workload: Workload, device: DeviceFacts) -> Decision:
    return decide_compiled(slug, compiler_refusals(workload, device), device)


def _check_cudagraph(workload: Workload, device: DeviceFacts) -> Decision:
    reasons = compiler_refusals(workload, device)
    if device.kind != "cuda":
        reasons.append(f"needs a CUDA device for its graph, this is {device.kind}")
    return decide_compiled("compiled_naive_cudagraph", reasons, device)


@contextmanager
def _build_sdpa(workload: Workload, inputs: "Inputs") -> "Iterator[AttentionCall]":
    import torch

    with fresh_compiler(), SDPA_AUTO.build(workload, inputs) as eager:
        yield torch.compile(eager)


def _check_sdpa(workload: Workload, device: DeviceFacts) -> Decision:
    picks = SDPA_AUTO.check(workload, device).selects
    return decide_compiled("compiled_sdpa", compiler_refusals(workload, device), device, selects=picks)


COMPILED_NAIVE = Backend(
    slug="compiled_naive",
    title="naive under torch.compile",
    source="torch.compile(mode='default') of attention.backends.naive.attend",
    families=_COMPILED_FAMILIES,
    check=partial(_check_naive, "compiled_naive"),
    build=partial(_build_naive, "default"),
    takes_dense_mask=True,
    score_matrices=_SCORE_MATRICES,
    compile_mode="default",
)
COMPILED_NAIVE_CUDAGRAPH = Backend(
    slug="compiled_naive_cudagraph",
    title="naive under torch.compile, replayed as a CUDA graph",
    source="torch.compile(mode='reduce-overhead'); torch.compiler.cudagraph_mark_step_begin",
    families=_COMPILED_FAMILIES,
    check=_check_cudagraph,
    build=partial(_build_naive, "reduce-overhead"),
    takes_dense_mask=True,
    score_matrices=_SCORE_MATRICES,
    compile_mode="reduce-overhead",
    holds_graph=True,
)
COMPILED_NAIVE_MAX_AUTOTUNE = Backend(
    slug="compiled_naive_max_autotune",
    # Without graphs, so that it differs from the default mode in the autotuning alone.
    title="naive under torch.compile, kernels chosen by timing",
    source="torch.compile(mode='max-autotune-no-cudagraphs')",
    families=_COMPILED_FAMILIES,
    check=partial(_check_naive, "compiled_naive_max_autotune"),
    build=partial(_build_naive, "max-autotune-no-cudagraphs"),
    takes_dense_mask=True,
    score_matrices=_SCORE_MATRICES,
    compile_mode="max-autotune-no-cudagraphs",
)
COMPILED_SDPA = Backend(
    slug="compiled_sdpa",
    title="SDPA under torch.compile, PyTorch chooses",
    source="torch.compile of torch.nn.functional.scaled_dot_product_attention",
    # Where the math path is chosen, Inductor compiles its operators like those of the naive formula.
    families=_COMPILED_FAMILIES,
    check=_check_sdpa,
    build=_build_sdpa,
    compile_mode="default",
)
