"""The 1 ms grid on which every design is verified, and what is reported of it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.excitation.columns import ObservationColumns
from core.excitation.families import LinearFamily
from core.excitation.limits import DesignLimits
from core.excitation.linear_limits import LinearLimits
from core.excitation.motion_check import MotionReport
from core.excitation.trajectory import Trajectory, TrajectorySamples

Array = NDArray[np.float64]

VERIFICATION_PERIOD = 1e-3
"""s; a shorter one is taken where it does not divide the duration."""

_CHUNK = 256  # what it needs stays in the cache
_INSIDE = 1.0 - 1e-6
_SHRINK = 0.997
_SHRINKS = 20


def fine_times(duration: float, period: float = VERIFICATION_PERIOD) -> Array:
    """Return times from 0 to the duration, at most a period apart."""
    return np.linspace(0.0, duration, math.ceil(duration / period - 1e-9) + 1)


def fine_samples(trajectory: Trajectory, period: float = VERIFICATION_PERIOD) -> TrajectorySamples:
    """Return a trajectory on its verification grid, or one of another period."""
    t = fine_times(trajectory.duration, period)
    return TrajectorySamples(float(t[1]), t, *trajectory.evaluate(t))


def verify(trajectory: Trajectory, columns: ObservationColumns, limits: DesignLimits) -> MotionReport:
    """Return margins to every limit on the verification grid.

    Raises
    ------
    MotionLimitError
        A limit is left.
    """
    return columns.robot.check(fine_samples(trajectory), limits)


def information(samples: TrajectorySamples, columns: ObservationColumns) -> Array:
    """Return the integral of ``W^T W`` over time (p, p) of a sampled motion, with the exact sign.

    An integral, so that it does not depend on the grid and motions add up.
    """
    total = np.zeros((columns.count, columns.count))
    for first in range(0, samples.t.size, _CHUNK):
        rows = slice(first, first + _CHUNK)
        W = columns.matrix((samples.q[rows], samples.qd[rows], samples.qdd[rows]))
        total += W.T @ W
    return samples.period * total


class Verifier:
    """Brings coefficients inside the limits of the verification grid."""

    def __init__(self, family: LinearFamily, columns: ObservationColumns, limits: DesignLimits) -> None:
        t = fine_times(family.duration)
        self._basis = family.basis(t)
        self._offset = family.offset(t)
        self._linear = LinearLimits.of(self._basis, self._offset, columns.robot.coordinate_limits(limits))
        self._nonlinear = columns.robot.nonlinear_limits(limits)

    def repaired(self, x: Array, centre: Array) -> Array | None:
        """Return x, or the nearest to it on the way to the centre that keeps all limits; None if too far."""
        step = min(1.0, _INSIDE * self._linear.largest_step(centre, x - centre))
        if step <= 0.0 or not self._linear.feasible(centre):
            return None
        for _ in range(_SHRINKS):
            candidate = centre + step * (x - centre)
            if self._keeps_the_rest(candidate):
                return candidate
            step *= _SHRINK
        return None

    def _keeps_the_rest(self, x: Array) -> bool:
        """Whether what is not linear in x is kept."""
        if not self._nonlinear:
            return True
        q, qd, qdd = (self._offset[order] + self._basis[order] @ x.T for order in range(3))
        return all(np.all(limit.margins((q, qd, qdd)) >= 0.0) for limit in self._nonlinear)
