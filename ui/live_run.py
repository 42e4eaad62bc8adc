"""A live run as the page follows it: stages while it goes, one view at its end."""

import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from attention.kinds import AnyWorkload
from profiling.recording import Progress, Recorder, Recording, RunRequest
from profiling.report import analyze_recording
from ui.components.progress import render_progress
from ui.machine_facts import KnownMachine
from ui.markup import Markup
from ui.view import Origin, RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdate:
    """Either a stage to show, or the finished view."""

    progress: Markup
    view: RunView | None = None


def collect_recording(record: Recorder, request: RunRequest, machine: KnownMachine) -> Recording:
    """The one recording of ``request``, for callers that do not watch the stages.

    Raises:
        RuntimeError: the recorder broke its contract and gave none.
    """
    for item in follow_run(record, request):
        if isinstance(item, Recording):
            machine.learn(item.environment)
            return item
    raise RuntimeError("the recorder ended without a recording")


def follow_run(record: Recorder, request: RunRequest) -> Iterator[Progress | Recording]:
    """The recorder's items; closing this closes the recorder too, which stops the run."""
    items = record(request)
    try:
        yield from items
    finally:
        if isinstance(items, Generator):
            items.close()


def run_live(
    record: Recorder,
    workload: AnyWorkload,
    machine: KnownMachine,
    *,
    guess: float | None,
    shows_old: bool,
    measure_unlocks: bool = False,
) -> Iterator[RunUpdate]:
    """Each stage as it comes, then the view of the recording, whole or partial. Closing the iterator stops the run."""
    started = time.monotonic()
    run = uuid.uuid4().hex
    for item in follow_run(record, RunRequest(workloads=(workload,), measure_unlocks=measure_unlocks)):
        if isinstance(item, Progress):
            elapsed_ms = round(1000 * (time.monotonic() - started))
            yield RunUpdate(progress=render_progress(item, run=run, elapsed_ms=elapsed_ms, shows_old=shows_old))
        else:
            machine.learn(item.environment)
            view = RunView(analysis=analyze_recording(item), origin=Origin(kind="live"), guess=guess)
            yield RunUpdate(progress=Markup(""), view=view)
