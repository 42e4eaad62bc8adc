"""The web process's handle on one worker process: start it, send it a request, hear from it, end it.

A fresh interpreter by ``subprocess``, because a fork of a threaded server is unsafe and may not touch CUDA, and
``multiprocessing``'s spawn would import the program's main module, and with it the whole web page, a second time.
"""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from profiling.recording import RunRequest
from profiling.worker_channel import BrokenChannel, Ready, read_frame, write_frame

_PROJECT = Path(__file__).resolve().parent.parent
# A process without a SIGTERM handler dies at once; one that is inside the driver gets this long before SIGKILL.
TERMINATE_S = 1.0
# The driver tears a context down before a killed process is gone; longer than this means that it hangs there.
KILL_S = 5.0
STDERR_TAIL_LINES = 30
# Hears each message, then None once, when the process is gone.
Receive = Callable[["WorkerProcess", object | None], None]


class WorkerProcess:
    """One worker process from start to end. ``receive`` is called on this process's own reader thread."""

    def __init__(self, *, record: str, warm_up: str | None, receive: Receive) -> None:
        self.ready = False
        self.retired = False  # no further run may use it
        self._receive = receive
        self._stderr_tail: deque[str] = deque(maxlen=STDERR_TAIL_LINES)
        self._channel_fault = ""
        self._ending = threading.Lock()
        self._gone = False  # its id may belong to another process now
        self._sending = threading.Lock()
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "profiling.worker_child", record, warm_up or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=_PROJECT,
            # Its own group: Ctrl-C reaches the server alone, and ending it ends the compilers that it started.
            start_new_session=True,
        )
        self._stderr_reader = threading.Thread(target=self._read_stderr, name="worker-stderr", daemon=True)
        self._stderr_reader.start()
        threading.Thread(target=self._read_messages, name="worker-messages", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def usable(self) -> bool:
        return not self.retired and self._popen.poll() is None

    def send(self, request: RunRequest) -> None:
        """Queues a request. A process that died meanwhile is reported through ``receive``, not here."""
        with self._sending, suppress(OSError):
            pipe = _pipe(self._popen.stdin)
            if not pipe.closed:  # the reader thread closes it, under the same lock, before it reports the end
                write_frame(pipe, request)

    def end(self) -> None:
        """Ends the process and all that it started, and waits until it is gone, six seconds at most."""
        self.retired = True
        with self._ending:
            if self._gone:
                return
            if self._popen.poll() is None:
                self._signal_group(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    self._popen.wait(TERMINATE_S)
            self._signal_group(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILL_S)
            self._gone = self._popen.returncode is not None

    def describe_end(self) -> str:
        """How the process ended, in one line, and below it the last lines of its standard error."""
        code = self._popen.poll()
        if self._channel_fault:
            how = f"its channel broke: {self._channel_fault}"
        elif code is None:
            how = "it does not answer and could not be ended"
        elif code < 0:
            how = f"it was ended by {signal_name(-code)} (signal {-code})"
        else:
            how = f"it ended with exit code {code}"
        return "\n".join([f"The process that owns the device is gone: {how}.", *self._stderr_tail])

    @property
    def killed_by_system(self) -> bool:
        """Whether SIGKILL ended it; when nobody here sent one, that is how Linux frees memory."""
        return self._popen.poll() == -signal.SIGKILL

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    def _read_messages(self) -> None:
        pipe = _pipe(self._popen.stdout)
        try:
            while (message := read_frame(pipe)) is not None:
                self.ready = self.ready or isinstance(message, Ready)
                self._receive(self, message)
        except BrokenChannel as error:
            self._channel_fault = str(error)
        finally:
            if not self._channel_fault:
                # The pipe closes a moment before the exit code is there; a signal now would replace it.
                with suppress(subprocess.TimeoutExpired):
                    self._popen.wait(TERMINATE_S)
            self.end()
            self._stderr_reader.join(TERMINATE_S)
            self._close_pipes()
            self._receive(self, None)

    def _read_stderr(self) -> None:
        for raw in _pipe(self._popen.stderr):
            line = raw.decode(errors="replace").rstrip()
            self._stderr_tail.append(line)
            with suppress(OSError, ValueError):  # the server's own standard error may be closed by now
                print(line, file=sys.stderr, flush=True)

    def _close_pipes(self) -> None:
        with self._sending, suppress(OSError):
            _pipe(self._popen.stdin).close()
        _pipe(self._popen.stdout).close()
        if not self._stderr_reader.is_alive():
            _pipe(self._popen.stderr).close()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "an unnamed signal"


def _pipe(stream: object) -> BinaryIO:
    assert stream is not None, "the worker process is started with all three pipes"
    return stream  # type: ignore[return-value]
