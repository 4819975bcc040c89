"""How servoj moves the target: it advances (3, n) rows q, qd, qdd by one control cycle."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Servo:
    """Follows commands that come every cycle or not quite; holds the last one when they stop coming.

    The maker does not publish servoj's filter. This one stands in for it: two poles that together lag by the
    look-ahead time, after one whose rate grows with the gain, so 0.03 s and 2000 follow closest.
    """

    _GAIN_TO_RATE = 0.1  # 1/s per unit of gain

    def __init__(self, target: Array) -> None:
        self._command = target[0].copy()
        self._eased = target[0].copy()
        self._lookahead = 0.1
        self._gain = 300.0

    def command(self, q: Array, lookahead: float, gain: float) -> None:
        """Take the next pose (n,) rad, look-ahead time s and gain."""
        self._command = q
        self._lookahead = lookahead
        self._gain = gain

    def advance(self, target: Array, dt: float, scaling: float) -> bool:
        q, qd, qdd = target
        self._eased += (self._command - self._eased) * (1.0 - math.exp(-self._GAIN_TO_RATE * self._gain * dt))
        pole = 2.0 / self._lookahead
        qdd[:] = pole * pole * (self._eased - q) - 2.0 * pole * qd
        qd += qdd * dt
        q += qd * dt
        return False
