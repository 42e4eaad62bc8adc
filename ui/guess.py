"""The visitor's guess of kernels per step, scored against the trace, each extra or missing kernel explained."""

from dataclasses import dataclass

from attention.workload import InvalidWorkload
from profiling.format import format_count
from profiling.report_schema import KernelSummary
from ui.view import RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessScore:
    """``short`` fits the strip; ``kernels`` are what one step ran, in order of launch."""

    guess: float
    ran: float
    short: str
    sentence: str
    kernels: tuple[KernelSummary, ...]


def parse_guess(typed: str | None) -> int | None:
    """Kernels per step that the visitor expects; None where the box is empty.

    Raises:
        InvalidWorkload: not a whole number.
    """
    if typed is None or not typed.strip():
        return None
    if not (typed.strip().isdecimal() and len(typed) < 10):
        raise InvalidWorkload("guess", typed, "is not a whole number", "give 0 or more, or leave it empty")
    return int(typed)


def score_guess(view: RunView) -> GuessScore | None:
    """The score, or None where no guess was made or the trace has no kernels per step."""
    items = view.analysis.report.device_items_per_step
    if view.guess is None or items is None:
        return None
    kernels = sorted(
        (kernel for kernel in view.analysis.report.kernels if kernel.kind == "kernel"),
        key=lambda kernel: min(kernel.items, default=0),
    )
    guess, ran = format_count(view.guess), format_count(items.kernels)
    difference = items.kernels - view.guess
    if difference == 0:
        sentence = f"You guessed {guess}, and the trace shows {ran}."
    else:
        word = "more" if difference > 0 else "fewer"
        sentence = f"You guessed {guess}; the trace shows {ran}: {format_count(abs(difference))} {word}. All of them:"
    return GuessScore(
        guess=view.guess,
        ran=items.kernels,
        short=f"guess: {guess} {'✓ right' if difference == 0 else f'✗ ran {ran}'}",
        sentence=sentence,
        kernels=tuple(kernels),
    )
