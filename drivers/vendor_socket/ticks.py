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
    """Counts sample periods by time stamps that need not be regular: what is rounded is each step, not the sum."""

    def __init__(self, rate_hz: float) -> None:
        self._rate = rate_hz
        self._last: tuple[float, int] | None = None

    def count(self, stamps: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return ticks (m,) of ``stamps`` (m,) in s; a clock that began anew gives smaller ticks than before."""
        before, ticks = self._last or (float(stamps[0]), 0)
        steps = np.rint(np.diff(stamps, prepend=before) * self._rate).astype(np.int64)
        counted: NDArray[np.int64] = ticks + np.cumsum(steps)
        self._last = float(stamps[-1]), int(counted[-1])
        return counted
