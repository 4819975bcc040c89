"""How the controller moves its target: each motion advances (3, n) rows q, qd, qdd by one control cycle."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Motion(Protocol):
    """A motion under way."""

    def advance(self, target: Array, dt: float, scaling: float) -> bool:
        """Advance ``target`` in place by ``dt`` s; True when the motion is over.

        ``scaling`` is the speed slider's; only programmed moves heed it, as on the real controller.
        """


class SpeedRamp:
    """Goes to the joint speed ``goal`` (n,) rad/s at ``acceleration`` rad/s² of the leading axis.

    A ramp to zero ends at rest; any other goal is held until something else takes over.
    """

    def __init__(self, goal: Array, acceleration: float) -> None:
        self._goal = goal
        self._acceleration = acceleration

    def advance(self, target: Array, dt: float, scaling: float) -> bool:
        q, qd, qdd = target
        change = self._goal - qd
        largest = float(np.abs(change).max())
        step = self._acceleration * dt
        if largest > step:
            change *= step / largest
        qdd[:] = change / dt
        q += (qd + 0.5 * change) * dt
        qd += change
        if largest <= step and not self._goal.any():
            qd[:] = 0.0
            qdd[:] = 0.0
            return True
        return False


class PointToPoint:
    """Straight line in joint space with a trapezoidal speed, all joints together, from rest to rest.

    Parameters
    ----------
    start, goal
        Poses (n,) rad.
    speed, acceleration
        Of the leading axis, rad/s and rad/s²; reduced where a joint would exceed ``limits`` (n,) rad/s.
    """

    def __init__(self, start: Array, goal: Array, speed: float, acceleration: float, limits: Array) -> None:
        self._start = start.copy()
        self._goal = goal.copy()
        self._way = goal - start
        length = float(np.abs(self._way).max())
        self._time = 0.0
        self._acceleration = self._cruise = self._ramp = self._duration = 0.0
        if length == 0.0:
            return
        moving = self._way != 0.0
        fastest = float(np.min(limits[moving] / np.abs(self._way[moving])))
        rate = min(speed / length, fastest)  # of the path parameter 0..1
        self._acceleration = acceleration / length
        self._cruise = min(rate, math.sqrt(self._acceleration))
        self._ramp = self._cruise / self._acceleration
        self._duration = self._ramp + 1.0 / self._cruise

    def advance(self, target: Array, dt: float, scaling: float) -> bool:
        self._time += dt * scaling
        if self._time >= self._duration:
            target[0] = self._goal
            target[1:] = 0.0
            return True
        left = self._duration - self._time
        if self._time < self._ramp:
            s, rate, change = 0.5 * self._acceleration * self._time**2, self._acceleration * self._time, 1.0
        elif left < self._ramp:
            s, rate, change = 1.0 - 0.5 * self._acceleration * left**2, self._acceleration * left, -1.0
        else:
            s, rate, change = self._cruise * (self._time - 0.5 * self._ramp), self._cruise, 0.0
        target[0] = self._start + s * self._way
        target[1] = rate * scaling * self._way
        target[2] = change * self._acceleration * scaling**2 * self._way
        return False
