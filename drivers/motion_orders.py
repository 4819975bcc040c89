"""Motion, seen from the process that moves the robot: what its parent orders, and how a motion ends early.

The parent's side is ``drivers.motion_player``.
"""

# ruff: noqa: N818 - the exceptions say how a motion ends

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from drivers.contract import DriverError

SILENCE_LIMIT = 0.3  # s without a word from the parent
LAST_LOOK = 0.2  # s more for what was said while this process itself was held up
ORPHAN_TIMEOUT = 2.0  # s for an orderly end after the parent has died
PRIORITY = 40  # of SCHED_FIFO

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class StopOrder:
    """``code``: set when it is not a stop that somebody wanted, but a fault."""

    reason: str
    immediately: bool
    code: str | None = None


class Stopped(Exception):
    """Unwinds the motion when a stop has been ordered."""


class MotionFailed(Exception):
    """Unwinds the motion when the robot no longer does as it is told."""

    def __init__(self, reason: str, code: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Orders:
    """What the parent says, read by a thread of its own, and that it says anything, watched by another.

    Parameters
    ----------
    lines : where the parent's commands come from.
    halt : stops the robot without this process's other threads, should they hang after the parent has died.
    """

    def __init__(self, lines: IO[str], halt: Callable[[], None]) -> None:
        self.proceed = threading.Event()
        self.stop: StopOrder | None = None
        self._heard = threading.Event()
        self._lines = lines
        self._halt = halt

    def start(self, parent: int) -> None:
        """Listen from now on, to SIGTERM and to the end of process ``parent`` too; call it in the main thread."""
        signal.signal(signal.SIGTERM, lambda *_: self.end("the motion process was told to end"))
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the line above
            self.end("the device host is gone")
        for work in (self._listen, self._watch):
            threading.Thread(target=work, name="orders", daemon=True).start()

    def end(self, reason: str, code: str | None = None) -> None:
        """Stop the robot, unless a stop was ordered before."""
        self.stop = self.stop or StopOrder(reason, immediately=False, code=code)

    def _watch(self) -> None:
        while self._heard.wait(SILENCE_LIMIT) or self._heard.wait(LAST_LOOK):
            self._heard.clear()
        self.end(f"the device host said nothing for {SILENCE_LIMIT} s; it hangs", "device-host-silent")

    def _listen(self) -> None:
        for line in self._lines:
            self._heard.set()
            order = json.loads(line)
            if order["command"] == "proceed":
                self.proceed.set()
            elif order["command"] == "stop":
                self.stop = StopOrder(order["reason"], order["immediately"])
        self.end("the device host is gone")
        time.sleep(ORPHAN_TIMEOUT)  # an orderly end takes this thread with it; otherwise:
        with contextlib.suppress(DriverError):
            self._halt()
        os._exit(1)


@contextlib.contextmanager
def realtime_priority() -> Iterator[None]:
    """Run at a fixed priority where that is allowed and another processor remains for the rest."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    if (os.cpu_count() or 1) > 1:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)
