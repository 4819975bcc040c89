"""The trajectory player of the PLC: interpolates uploaded rows, and slows down along them when told to stop."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STOP_RAMP = 0.3  # s in which the motion along the path comes to rest
FADE = 0.2  # s in which a feedforward is faded in before the path begins, and out after its end


class PathPlayer:
    """A motion along rows of leg lengths and speeds.

    Parameters
    ----------
    period : s between rows.
    lengths, speeds : (N, n) m and m/s; cubic between rows, so that speeds have no steps.
    currents : (M, n) A every ``current_period`` s along the same path, added while it is played; None without.
    """

    def __init__(
        self, period: float, lengths: Array, speeds: Array, currents: Array | None = None, current_period: float = 1.0
    ) -> None:
        self._period = period
        self._lengths = lengths
        self._speeds = speeds
        self._currents = currents
        self._current_period = current_period
        self._wait = 0.0 if currents is None else FADE
        self._stopping: float | None = None
        self.time = 0.0
        """s along the path."""

    @property
    def duration(self) -> float:
        return float(self._period * (self._lengths.shape[0] - 1))

    @property
    def finished(self) -> bool:
        """True at the end of the path, or at rest after `stop`."""
        return self.time >= self.duration or (self._stopping is not None and self._stopping >= STOP_RAMP)

    @property
    def feeds_forward(self) -> bool:
        return self._currents is not None

    def stop(self) -> None:
        """Come to rest along the path; at once where it has not begun."""
        if self._stopping is None:
            self._stopping = STOP_RAMP if self._wait > 0.0 else 0.0

    def advance(self, target: Array, current: Array, dt: float) -> None:
        """Advance ``target`` (3, n), rows length, speed and acceleration, and ``current`` (n,) by ``dt`` s."""
        pace = self._pace(dt)
        if self._wait > 0.0:
            self._wait = max(0.0, self._wait - dt)
            pace = 0.0
        self.time = min(self.time + pace * dt, self.duration)
        before = target[1].copy()
        self._interpolate(target, 0.0 if self.finished else pace)
        target[2] = (target[1] - before) / dt
        if self._currents is not None:
            current[:] = (1.0 - self._wait / FADE) * self._current(self.time)

    def _pace(self, dt: float) -> float:
        if self._stopping is None:
            return 1.0
        self._stopping += dt
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, self._stopping / STOP_RAMP)))

    def _interpolate(self, target: Array, pace: float) -> None:
        at = self.time / self._period
        row = min(int(at), self._lengths.shape[0] - 2)
        u = at - row
        start, end = self._lengths[row], self._lengths[row + 1]
        m0, m1 = self._speeds[row] * self._period, self._speeds[row + 1] * self._period
        step = end - start
        square, cubic = 3.0 * step - 2.0 * m0 - m1, m0 + m1 - 2.0 * step
        target[0] = start + u * (m0 + u * (square + u * cubic))
        target[1] = (m0 + u * (2.0 * square + 3.0 * u * cubic)) * (pace / self._period)

    def _current(self, time: float) -> Array:
        assert self._currents is not None  # noqa: S101 - only called then
        last = self._currents.shape[0] - 1
        at = min(time / self._current_period, float(last))
        row = min(int(at), max(0, last - 1))
        share = at - row
        following = self._currents[min(row + 1, last)]
        current: Array = self._currents[row] + share * (following - self._currents[row])
        return current
