"""Where the robot is to be, as a function of time: the way to the first pose."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drivers.contract import ApproachSpeed

Array = NDArray[np.float64]


class Approach:
    """A straight line in joint space, from rest to rest, with a trapezoidal speed of the leading joint.

    Parameters
    ----------
    start, goal : poses (n,) rad.
    limit : speed and acceleration of the leading joint.
    """

    def __init__(self, start: Array, goal: Array, limit: ApproachSpeed) -> None:
        self._start = start
        self._way = goal - start
        self._length = float(np.abs(self._way).max())
        self._acceleration = limit.acceleration
        self._cruise = min(limit.speed, math.sqrt(limit.acceleration * self._length))
        self._ramp = self._cruise / limit.acceleration
        self.duration = self._ramp + self._length / self._cruise if self._length > 0.0 else 0.0
        """s."""

    def pose(self, time: float) -> Array:
        """Return the pose (n,) at ``time`` s; the end poses before and after."""
        time = min(max(time, 0.0), self.duration)
        left = self.duration - time
        if self._length == 0.0:
            return self._start.copy()
        if time < self._ramp:
            way = 0.5 * self._acceleration * time**2
        elif left < self._ramp:
            way = self._length - 0.5 * self._acceleration * left**2
        else:
            way = self._cruise * (time - 0.5 * self._ramp)
        pose: Array = self._start + way / self._length * self._way
        return pose
