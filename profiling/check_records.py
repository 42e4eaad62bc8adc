"""What a run finds out besides its own clocks: what unlocks cost, which mask was applied, where NaN lies."""

from dataclasses import dataclass

from profiling.samples import Samples

# Index of one (query, key) pair: batch entry, query head, query row, key.
Pair = tuple[int, int, int, int]
# Share of each cell's pairs that are attended to, ``[rows, columns]``, 0-1.
Shares = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockMeasurement:
    """One change that unlocks a refusing backend, run and judged like a run of its own.

    ``change`` is the unlock's sentence. ``device`` None: the device has no such clock, or the call could not be
    captured. ``max_abs_error`` and ``error_budget`` are of the output or gradient that is furthest from its budget;
    ``within_budget`` holds for all of them. ``skipped``: why nothing was measured; empty where it was.
    """

    backend: str
    change: str
    device: Samples | None = None
    wall: Samples | None = None
    max_abs_error: float | None = None
    error_budget: float | None = None
    within_budget: bool | None = None
    skipped: str = ""


def clocks_of(measurements: tuple[UnlockMeasurement, ...]) -> dict[str, Samples | None]:
    """Every clock of the measurements, under a name that says whose it is."""
    return {
        f"{name} time of {entry.change} for {entry.backend}": samples
        for entry in measurements
        for name, samples in (("device", entry.device), ("wall", entry.wall))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskTruth:
    """The mask that the backend applied, recovered from its outputs, against the one that was asked for.

    ``wrong_pairs`` None: not looked at, and ``reason`` says why. ``ignored``: every key weighs the same in every row,
    although the mask forbids or biases some. ``asked_weight`` and ``applied_weight`` are the softmax weights of
    ``first_wrong``; the applied one is None where it is not a finite number. The pictures are of one head, over the
    rows and keys that ``method`` names.
    """

    pairs_checked: int = 0
    wrong_pairs: int | None = None
    first_wrong: Pair | None = None
    asked_weight: float | None = None
    applied_weight: float | None = None
    ignored: bool | None = None
    asked_picture: Shares = ()
    applied_picture: Shares = ()
    method: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRange:
    """Rows ``start`` to ``stop``, exclusive, of one batch entry; ``dead``: they may attend to nothing in every head."""

    batch: int
    start: int
    stop: int
    dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFiniteRows:
    """Where one tensor is NaN or infinite. Elements of dead rows are harmless unless something reads them.

    ``ranges``: the first rows that hold one, neighbours joined; ``ranges_left_out`` more follow.
    """

    tensor: str
    in_live_rows: int
    in_dead_rows: int
    ranges: tuple[RowRange, ...] = ()
    ranges_left_out: int = 0
