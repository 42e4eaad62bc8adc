"""Who owns the GPU off ZeroGPU: a Recorder that runs every request in one process of its own.

The process survives between runs, so that torch and the CUDA context are paid for once. It is ended by a stop, a
closed iterator, the time limit and a lost CUDA context, and replaced each time. This module never imports torch.
"""

import atexit
import queue
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass

from profiling.delivery import Delivery
from profiling.recording import FailureKind, Progress, Recording, RunRequest
from profiling.worker_channel import Begun, Ready, RunDone
from profiling.worker_process import WorkerProcess

# How long a caller may see nothing: the last Progress comes again, so that a page can show the elapsed time and a
# closed iterator is noticed. A generator can only be closed between two items.
HEARTBEAT_S = 0.5
# Far above any workload that fits a device and is not hung; the page offers Stop long before.
TIME_LIMIT_S = 300.0
# Importing torch from a cold disk and the first CUDA context; 2 s from a warm one.
START_LIMIT_S = 180.0
# A caller that waits behind one whole run, its start included, and a little more.
QUEUE_LIMIT_S = TIME_LIMIT_S + START_LIMIT_S + 30.0
# After the last recording, or after the process is gone, nothing is left to wait for but what is in the pipes.
_READER_S = 3.0
_NEXT_RUN = "The next run starts in a new process."


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Why a run did not come to its own end."""

    kind: FailureKind
    message: str
    hint: str


_STOPPED = _End(kind="stopped", message="The run was stopped.", hint=f"{_NEXT_RUN} Press Run to try again.")
_CLOSED = _End(kind="stopped", message="The program is shutting down.", hint="Start it again and repeat the run.")
_ENDED_SHORT = _End(
    kind="error",
    message="The recorder came to its end without a recording of this workload.",
    hint="This is a fault of the recorder: please report it with the workload.",
)


class _Run:
    """One request on its way; the reader thread fills ``inbox``, the caller's iterator empties it."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.delivery = Delivery(request)
        self.inbox: queue.SimpleQueue[Progress | Recording | None] = queue.SimpleQueue()
        self.process: WorkerProcess | None = None
        self.was_ready = False  # the process had warmed up when it was given this run
        self.begun = False
        self.end: _End | None = None
        self.over = threading.Event()
        self.timer: threading.Timer | None = None

    def died_before_it_began(self) -> bool:
        """Whether a process that had been fit for a run went before it took this one up; a stop is not that."""
        return self.was_ready and not self.begun and self.end is None


class Worker:
    """Runs requests one at a time in a process of its own; a second caller waits for its turn.

    ``record`` and ``warm_up`` are import paths, ``package.module:name``, resolved in that process. ``warm_up`` None
    starts it cold. All limits are in seconds.
    """

    def __init__(
        self,
        record: str = "profiling.recorder:record",
        *,
        warm_up: str | None = "profiling.recorder:warm_up",
        time_limit_s: float = TIME_LIMIT_S,
        start_limit_s: float = START_LIMIT_S,
        queue_limit_s: float = QUEUE_LIMIT_S,
    ) -> None:
        self._paths = (record, warm_up)
        self._time_limit_s = time_limit_s
        self._start_limit_s = start_limit_s
        self._queue_limit_s = queue_limit_s
        self._changed = threading.Condition()  # guards the three fields below
        self._process: WorkerProcess | None = None
        self._run: _Run | None = None
        self._closed = False
        atexit.register(self.close)

    def warm(self) -> None:
        """Starts the process and returns; it imports torch and warms up by itself."""
        with self._changed:
            if not self._closed:
                self._living_process()

    def record(self, request: RunRequest) -> Generator[Progress | Recording, None, None]:
        """Progress as it happens, at least every HEARTBEAT_S, and one recording a workload, whatever happens.

        Raises:
            RuntimeError: the worker is closed.
        """
        run = _Run(request)
        yield run.delivery.progress
        try:
            yield from self._wait_for_turn(run)
            while not (run.over.is_set() and run.inbox.empty()):
                try:
                    item = run.inbox.get(timeout=HEARTBEAT_S)
                except queue.Empty:
                    yield run.delivery.progress
                    continue
                if item is not None:
                    yield item
        finally:
            # Closed at the last recording, as a caller of one workload does: the end is on its way, keep the process.
            if not (run.delivery.complete and run.over.wait(_READER_S)):
                self._end_early(run, _STOPPED)
        end = run.end or _ENDED_SHORT
        yield from run.delivery.fail_rest(kind=end.kind, message=end.message, hint=end.hint)

    def stop(self) -> bool:
        """Ends the run in progress, from any thread; False when there is none. Callers that wait keep their turn."""
        with self._changed:
            run = self._run
        return run is not None and self._end_early(run, _STOPPED)

    def close(self) -> None:
        """Ends the run in progress and the process, for good."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            run, process = self._run, self._process
            self._changed.notify_all()
        if run is not None:
            self._end_early(run, _CLOSED)
        if process is not None:
            process.end()

    def _wait_for_turn(self, run: _Run) -> Generator[Progress, None, None]:
        give_up_at = time.monotonic() + self._queue_limit_s
        while not self._begin(run):
            if time.monotonic() > give_up_at:
                run.end = _End(
                    kind="timeout",
                    message=f"The device was busy with other runs for {self._queue_limit_s:g} s.",
                    hint="Try again later, or stop the run in progress.",
                )
                run.over.set()
                return
            yield run.delivery.progress

    def _begin(self, run: _Run) -> bool:
        """Whether it became this run's turn within a heartbeat."""
        with self._changed:
            self._changed.wait_for(lambda: self._run is None or self._closed, timeout=HEARTBEAT_S)
            if self._closed:
                raise RuntimeError("this worker is closed; make a new Worker to run anything")
            if self._run is not None:
                return False
            process = self._assign(run)
            self._run = run
        process.send(run.request)
        return True

    def _assign(self, run: _Run) -> WorkerProcess:
        """The process that will serve the run; the caller sends the request after it released the lock."""
        run.process = self._living_process()
        run.was_ready = run.process.ready
        self._limit(run, self._start_limit_s, "Starting the process that owns the device", "Try again.")
        return run.process

    def _living_process(self) -> WorkerProcess:
        if self._process is None or not self._process.usable:
            record, warm_up = self._paths
            self._process = WorkerProcess(record=record, warm_up=warm_up, receive=self._receive)
        return self._process

    def _limit(self, run: _Run, seconds: float, what: str, remedy: str) -> None:
        if run.timer is not None:
            run.timer.cancel()
        end = _End(
            kind="timeout",
            message=f"{what} took longer than {seconds:g} s and was ended.",
            hint=f"{_NEXT_RUN} {remedy}",
        )
        # A timer and not the caller's loop: the device is freed even when nobody reads the iterator any more.
        run.timer = threading.Timer(seconds, self._end_early, (run, end))
        run.timer.daemon = True
        run.timer.start()

    def _receive(self, process: WorkerProcess, message: object | None) -> None:
        """Called on the process's reader thread with each message, and with None when it is gone."""
        with self._changed:
            run = self._run
            if run is None or run.process is not process:
                return
            if isinstance(message, Progress | Recording):
                run.delivery.note(message)
                run.inbox.put(message)
                if not run.delivery.context_lost:
                    return
            if isinstance(message, Begun):
                run.begun = True
                self._limit(run, self._time_limit_s, "The run", "Choose a smaller shape or a faster backend.")
                return
            if isinstance(message, Ready):
                return  # the request is in the pipe already
            # It had died while idle, and nobody had noticed yet.
            successor = self._assign(run) if message is None and run.died_before_it_began() else None
            if isinstance(message, RunDone) and message.fault is not None:
                run.end = run.end or _recorder_fault(message.fault)
            elif message is None and successor is None:
                run.end = run.end or _crash(process)
        if successor is not None:
            successor.send(run.request)
            return
        if run.delivery.context_lost:
            process.end()
        self._finish(run)

    def _end_early(self, run: _Run, end: _End) -> bool:
        """Ends a run that is in progress by ending its process; False when it is not in progress."""
        with self._changed:
            if self._run is not run or run.process is None or run.end is not None:
                return False
            run.end = end
            run.process.retired = True
        run.process.end()
        if not run.over.wait(_READER_S):  # the process hangs in the driver: leave it behind
            self._finish(run)
        return True

    def _finish(self, run: _Run) -> None:
        with self._changed:
            if self._run is not run:
                return
            self._run = None
            if run.timer is not None:
                run.timer.cancel()
            run.over.set()
            run.inbox.put(None)
            self._changed.notify_all()
            if not self._closed:
                self._living_process()  # a new one when this run cost the old one


def _crash(process: WorkerProcess) -> _End:
    likely = (
        "The system ended it, most likely for lack of memory: choose a smaller shape."
        if process.killed_by_system
        else "If it happens again with this workload, choose another backend or a smaller shape."
    )
    return _End(kind="crashed", message=process.describe_end(), hint=f"{_NEXT_RUN} {likely}")


def _recorder_fault(fault: str) -> _End:
    last_line = fault.strip().rpartition("\n")[2]
    return _End(
        kind="error",
        message=f"The recorder failed: {last_line}\n{fault.strip()}",
        hint="This is a fault of the recorder: please report it whole.",
    )
