"""A steady tick on a timerfd: asyncio's own timers round to whole milliseconds."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_MAX_BEHIND = 0.1  # s
_AT_ONCE = 4


class _TimerSpec(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = [
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    ]


def _open_timer(period: float) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create failed")
    seconds, nanoseconds = divmod(round(period * 1e9), 10**9)
    spec = _TimerSpec(seconds, nanoseconds, seconds, nanoseconds)
    if libc.timerfd_settime(descriptor, 0, ctypes.byref(spec), None) != 0:
        error = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(error, "timerfd_settime failed")
    return descriptor


class CycleTimer:
    """Calls ``tick`` once per period on the running loop.

    When the process was held up, missed cycles are made up for, a few at a time so that clients are heard in
    between, and up to a tenth of a second: controller time follows real time. ``late`` counts cycles that ran late,
    ``dropped`` those that never ran: there controller time stood.
    """

    def __init__(self, period: float, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._descriptor = _open_timer(period)
        self._due = 0
        self._most = round(_MAX_BEHIND / period)
        self.late = 0
        self.dropped = 0
        self._loop.add_reader(self._descriptor, self._expired)

    def close(self) -> None:
        """Stop ticking."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._due = 0

    def _expired(self) -> None:
        try:
            (expired,) = struct.unpack("Q", os.read(self._descriptor, 8))
        except BlockingIOError:
            return
        catching_up = self._due > 0
        self.late += expired if catching_up else expired - 1
        self._due += expired
        if self._due > self._most:
            self.late -= self._due - self._most
            self.dropped += self._due - self._most
            self._due = self._most
        if not catching_up:
            self._run()

    def _run(self) -> None:
        for _ in range(min(self._due, _AT_ONCE)):
            self._due -= 1
            self._tick()
        if self._due > 0:
            self._loop.call_soon(self._run)
