"""A limit on how long reading someone's file may hold a thread of the web process."""

import ctypes
import gc
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class OutOfTime(RuntimeError):
    """The work was ended where it was; one sentence."""


class _Interruption(BaseException):
    """Raised inside the work from another thread; no ``except Exception`` on its way may keep it."""


def run_within(limit_s: float, work: Callable[[], Result]) -> Result:
    """What ``work`` answers. It is ended in the middle when it takes longer, with its ``finally`` blocks run.

    Only Python code can be ended: a call into C ends first, so that its own input has to be bounded.

    Raises:
        OutOfTime: it took longer than ``limit_s``.
    """
    alarm = _Alarm(threading.get_ident())
    timer = threading.Timer(limit_s, alarm.ring)
    timer.daemon = True
    try:
        try:
            timer.start()
            return work()
        except _Interruption:
            alarm.was_heard = True
            raise
        finally:
            timer.cancel()
            alarm.switch_off()
    except _Interruption:
        # A pause of the collector ends in a ``finally`` that an interruption may come just before.
        gc.enable()
        raise OutOfTime(f"It took longer than {limit_s:g} s and was ended.") from None


class _Alarm:
    """Interrupts one thread, once at most, and never after ``switch_off`` came back."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._lock = threading.Lock()
        self._off = False
        self._rang = False
        self.was_heard = False

    def ring(self) -> None:
        with self._lock:
            if self._off:
                return
            self._rang = True
            # Source: the C API's PyThreadState_SetAsyncExc, the one way to end Python code in another thread.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(_Interruption))

    def switch_off(self) -> None:
        with self._lock:
            self._off = True
        # An interruption that is still on its way arrives at a loop's end, which must not be one of the caller's.
        while self._rang and not self.was_heard:
            time.sleep(0.001)
