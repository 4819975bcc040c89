"""The trajectory player of the PLC: interpolates uploaded rows, and slows down along them when told to stop."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
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
        _interpolate(self._lengths, self._speeds, self._period, self.time, 0.0 if self.finished else pace, dt, target)
        if self._currents is not None:
            _between_rows(self._currents, self._current_period, self.time, 1.0 - self._wait / FADE, current)

    def _pace(self, dt: float) -> float:
        if self._stopping is None:
            return 1.0
        self._stopping += dt
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, self._stopping / STOP_RAMP)))


@njit(cache=True, error_model="numpy")
def _interpolate(
    lengths: Array, speeds: Array, period: float, time: float, pace: float, dt: float, target: Array
) -> None:
    """Write length, speed and acceleration at ``time`` s, gone through at ``pace``, to ``target`` (3, n)."""
    at = time / period
    row = min(int(at), lengths.shape[0] - 2)
    u = at - row
    for j in range(lengths.shape[1]):
        start = lengths[row, j]
        step = lengths[row + 1, j] - start
        m0, m1 = speeds[row, j] * period, speeds[row + 1, j] * period
        square, cubic = 3.0 * step - 2.0 * m0 - m1, m0 + m1 - 2.0 * step
        speed = (m0 + u * (2.0 * square + 3.0 * u * cubic)) * (pace / period)
        target[0, j] = start + u * (m0 + u * (square + u * cubic))
        target[2, j] = (speed - target[1, j]) / dt
        target[1, j] = speed


@njit(cache=True, error_model="numpy")
def _between_rows(rows: Array, period: float, time: float, share: float, out: Array) -> None:
    """Write ``share`` times the rows, interpolated linearly at ``time`` s; the last one after the end."""
    last = rows.shape[0] - 1
    at = min(time / period, float(last))
    row = min(int(at), last - 1)
    u = at - row
    for j in range(rows.shape[1]):
        out[j] = share * (rows[row, j] + u * (rows[row + 1, j] - rows[row, j]))


def warm_up(legs: int) -> None:
    """Have the kernels compiled, or loaded from the cache, before a cycle needs them."""
    rows = np.zeros((2, legs))
    PathPlayer(1.0, rows, rows, rows, 1.0).advance(np.zeros((3, legs)), np.zeros(legs), 0.001)
