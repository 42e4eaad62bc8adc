"""Running on ZeroGPU: the scheduler's refusals become data, and a lost CUDA context never meets the next visitor.

Nothing here imports spaces, gradio or torch; ``app`` holds the one function that the scheduler runs on a GPU.
"""

import os
from collections.abc import Generator, Iterator

from profiling.delivery import Delivery
from profiling.recording import FailureKind, Progress, Recorder, Recording, RunRequest

# How the text begins in which the scheduler's client says that no GPU was free (spaces 0.51); its title varies.
_NO_GPU = "No GPU was available"
# How it ends a run whose process died or ran out of time.
_ABORTED = "GPU task aborted"
# Its titles for everything that asking for less, or later, would cure.
_QUOTA_TITLES = ("quota", "credits", "duration", "runs limit")


def on_zero_gpu() -> bool:
    """Whether this process runs on ZeroGPU, read as the ``spaces`` package reads it."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def end_process_after_lost_context(items: Iterator[Progress | Recording]) -> Iterator[Progress | Recording]:
    """``items`` up to the first sticky failure; when that was delivered, this process ends.

    A ZeroGPU worker that returns normally serves the next visitor, whose every CUDA call would then fail. The worker
    sends an item before it asks for the next, so the failure itself is out when the process ends.
    """
    context_lost = False
    try:
        for item in items:
            context_lost = isinstance(item, Recording) and any(failure.sticky for failure in item.failures)
            yield item
            if context_lost:
                return
    finally:
        if context_lost:
            os._exit(1)


def with_failures_as_data(scheduled: Recorder) -> Recorder:
    """A recorder that turns whatever the scheduler raises into a failure of each workload without a recording."""

    def record(request: RunRequest) -> Iterator[Progress | Recording]:
        delivery = Delivery(request)
        yield delivery.progress
        kind: FailureKind = "error"
        message = "The GPU function came to its end without a recording of this workload."
        hint = "This is a fault of the recorder: please report it with the workload."
        items = scheduled(request)
        try:
            for item in items:
                delivery.note(item)
                yield item
        except Exception as error:  # noqa: BLE001 - gr.Error, RuntimeError, httpx and queue errors all end here, as data
            kind, message, hint = _explain(error)
        finally:
            if isinstance(items, Generator):
                items.close()  # a closed iterator stops the run
        yield from delivery.fail_rest(kind=kind, message=message, hint=hint)

    return record


def _explain(error: Exception) -> tuple[FailureKind, str, str]:
    """Kind, the scheduler's own words, and what to do, for what the scheduler's client raised."""
    # gr.Error carries both; its str() would put quotes around the message.
    title = str(getattr(error, "title", type(error).__name__))
    text = str(getattr(error, "message", error))
    message = f"{title}: {text}"
    if text.startswith(_NO_GPU):
        return "unavailable", message, "Every GPU is taken: try again in a minute, or duplicate the Space."
    if any(word in title.lower() for word in _QUOTA_TITLES):
        return (
            "quota",
            message,
            "Wait for the quota to refill, sign in, ask for fewer backends, or duplicate the Space.",
        )
    if text == _ABORTED:
        return (
            "crashed",
            message,
            "The GPU process ended in the middle of the run: it ran out of time, or this workload kills it. "
            "Choose a smaller shape or another backend.",
        )
    return "error", message, "Try again; if it stays, report it with the workload."
