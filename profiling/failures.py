"""What went wrong, as data: an exception of a stage becomes a Failure with its kind and a hint."""

from attention.backends import Decision
from attention.kernel_source import KernelRefusal
from attention.workload import InvalidWorkload
from profiling.recording import Failure, Stage

# How a pinned backend that cannot run says so. Source: aten/src/ATen/native/transformers/{attention.cpp,
# cuda/attention.cu, cuda/sdp_utils.cpp}; "No viable backend" is the CPU's word. Efficient says of a bias in another
# dtype and cuDNN of a graph that it has no plan for only when they are called.
REFUSALS = (
    "no available kernel",
    "no viable backend",
    "invalid backend",
    "invalid dtype for bias",
    "no execution plans support the graph",
    # Inductor's, where the machine lacks what it generates code with. Source: torch/_inductor/exc.py.
    "no working c++ compiler",
    "cannot find a working triton",
)
# Where the compiler's own errors are raised; Triton's pass through Inductor's too.
_COMPILER_PACKAGES = ("torch._dynamo", "torch._inductor", "torch._functorch", "triton")


class RefusedByRule(RuntimeError):
    """A backend that is not tried, because its rule rejects the workload; the Decision says why."""


def is_refusal(error: Exception) -> bool:
    """Whether this error is a backend's refusal, which is a result and no fault."""
    import torch

    if isinstance(error, RefusedByRule | KernelRefusal):
        return True
    return not isinstance(error, torch.OutOfMemoryError) and any(word in str(error).lower() for word in REFUSALS)


def build_refusal(decision: Decision) -> Failure:
    """A pinned backend that cannot run: a result, told in the decision's own reason.

    Where the machine lacks something, that is no refusal of the workload, and the hint says how to get it.
    """
    reason = decision.reason.strip().rstrip(".")
    return Failure(
        stage="first_call",
        kind="unavailable" if decision.remedy else "refused",
        message=f"{decision.backend} did not run. {reason[:1].upper()}{reason[1:]}.",
        hint=decision.remedy or "Change one variable, or choose a backend that accepted this call.",
    )


def build_failure(stage: Stage, error: Exception) -> Failure:
    import torch

    if isinstance(error, InvalidWorkload):
        return Failure(stage=stage, kind="invalid", message=str(error), hint=error.remedy)
    message = f"{type(error).__name__}: {error}"
    text = str(error).lower()
    if (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "not enough memory" in text
        or "can't allocate" in text
    ):
        hint = "Make the workload smaller, or choose a fused or compiled backend. The next run starts clean."
        return Failure(stage=stage, kind="out_of_memory", message=message, hint=hint)
    if is_sticky(error):
        hint = "The GPU context was lost with this error; the GPU process is replaced and the next run starts clean."
        return Failure(stage=stage, kind="crashed", message=message, hint=hint, sticky=True)
    if is_compiler_error(error):
        hint = "torch.compile failed, in the words above; choose an eager backend or another shape or dtype."
        return Failure(stage=stage, kind="unavailable", message=message, hint=hint)
    hint = "What was recorded before this stage stands. Try another backend or a smaller shape."
    return Failure(stage=stage, kind="error", message=message, hint=hint)


def is_compiler_error(error: BaseException) -> bool:
    """Whether Dynamo, Inductor or Triton failed: by the error's own type, or by where it was raised."""
    raised_in = ""
    traceback = error.__traceback__
    while traceback is not None:
        raised_in = traceback.tb_frame.f_globals.get("__name__", "")
        traceback = traceback.tb_next
    return any(
        name == package or name.startswith(f"{package}.")
        for name in (type(error).__module__, raised_in)
        for package in _COMPILER_PACKAGES
    )


def is_sticky(error: BaseException) -> bool:
    """Whether the CUDA context is lost with this error, so that the process must not be used again."""
    import torch

    if isinstance(error, torch.OutOfMemoryError) or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
