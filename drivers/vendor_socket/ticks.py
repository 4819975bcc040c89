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
        if self._last is None:
            start = int(values[0])
        else:  # of all counts that show this value, the one nearest to what is expected
            expected = self._last + round(elapsed * self._step)
            start = int(values[0]) + self._modulus * round((expected - int(values[0])) / self._modulus)
        steps = (np.diff(values) + self._modulus // 2) % self._modulus - self._modulus // 2
        unwrapped = start + np.concatenate([[0], np.cumsum(steps)])
        self._last = int(unwrapped[-1])
        ticks: NDArray[np.int64] = unwrapped // self._step
        return ticks


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
