"""From a frame counter or a time stamp to ticks: whole sample periods that passed since the first frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class FrameTicks:
    """Counts sample periods by a counter of ``modulus`` that grows by ``step`` from frame to frame."""

    def __init__(self, modulus: int, step: int) -> None:
        self._modulus = modulus
        self._step = step
        self._last: int | None = None  # the counter, unwrapped

    def count(self, values: NDArray[np.int64], elapsed: float) -> NDArray[np.int64]:
        """Return ticks (m,) of the counter's ``values`` (m,), ``elapsed`` ticks after the last frame by another clock.

        A counter that began anew gives smaller ticks than before.
        """
        counts = values.tolist()
        first = counts[0]
        if self._last is None:
            count = first
        else:  # of all counts that show this value, the one nearest to what is expected
            expected = self._last + round(elapsed * self._step)
            count = first + self._modulus * round((expected - first) / self._modulus)
        ticks, half = [], self._modulus // 2
        for value, before in zip(counts, [first, *counts], strict=False):
            count += (value - before + half) % self._modulus - half
            ticks.append(count // self._step)
        self._last = count
        return np.array(ticks, np.int64)


class StampTicks:
    """Counts sample periods by time stamps that jitter, by less than half a period, about a regular beat.

    The beat is followed: each stamp moves it by a share of what it is off.
    """

    _SHARE = 0.1

    def __init__(self, rate_hz: float) -> None:
        self._rate = rate_hz
        self._beat: float | None = None  # s, of the last frame
        self._tick = 0

    def count(self, stamps: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return ticks (m,) of ``stamps`` (m,) in s; a clock that began anew gives smaller ticks than before."""
        ticks = []
        beat = float(stamps[0]) if self._beat is None else self._beat
        for stamp in stamps.tolist():
            steps = round((stamp - beat) * self._rate)
            self._tick += steps
            beat += steps / self._rate
            beat += self._SHARE * (stamp - beat)
            ticks.append(self._tick)
        self._beat = beat
        return np.array(ticks, np.int64)
