"""The process that owns the GPU: ``python -m profiling.worker_child RECORD WARM_UP``, started by ``worker_process``.

Requests come in on standard input, progress and recordings leave on standard output. Both are moved to private
descriptors first, so that neither a print nor a C library can write into the channel: what they write goes to
standard error.
"""

import faulthandler
import importlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from profiling.recording import Progress, Recording, RunRequest
from profiling.worker_channel import Begun, Ready, RunDone, read_frame, write_frame


def main(record_path: str, warm_up_path: str) -> None:
    """Serves requests one after another until the parent closes its end or dies."""
    faulthandler.enable()  # a segmentation fault then leaves its Python stack on standard error
    requests, replies = _claim_channel()
    waiting: queue.SimpleQueue[RunRequest] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    if warm_up_path:
        _warm_up(warm_up_path)
    write_frame(replies, Ready())
    while True:
        # Runs stay on the main thread: the profiler wants to be started where CUDA was initialised.
        _serve(replies, record_path, waiting.get())


def load(path: str) -> Callable[..., Any]:
    """The callable at ``package.module:name``."""
    module, _, name = path.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return loaded


def _claim_channel() -> tuple[BinaryIO, BinaryIO]:
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _listen(requests: BinaryIO, waiting: "queue.SimpleQueue[RunRequest]") -> None:
    """Hands requests to the main thread. Runs during a run too, so that the parent's death is seen at once."""
    try:
        while isinstance(request := read_frame(requests), RunRequest):
            waiting.put(request)
    finally:
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # and the compilers that torch may have started
        os._exit(1)


def _warm_up(path: str) -> None:
    try:
        load(path)()
    except Exception:  # noqa: BLE001 - any machine without a working torch ends here; its first run reports the reason
        traceback.print_exc()


def _serve(replies: BinaryIO, record_path: str, request: RunRequest) -> None:
    fault = None
    try:
        write_frame(replies, Begun())
        items: Iterator[Progress | Recording] = load(record_path)(request)
        for item in items:
            write_frame(replies, item)
    except BrokenPipeError:
        os._exit(1)
    except Exception:  # noqa: BLE001 - a recorder's own fault travels as text; the process stays usable
        traceback.print_exc()
        fault = traceback.format_exc()
    sys.stderr.flush()
    write_frame(replies, RunDone(fault=fault))


if __name__ == "__main__":
    main(*sys.argv[1:])
