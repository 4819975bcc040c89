"""Limits on position, speed, acceleration and jerk of a linear family: linear in its coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.excitation.barrier_kernels import barrier_terms, largest_step
from core.models import JointLimits

Array = NDArray[np.float64]

LIMIT_KINDS = ("position", "speed", "acceleration", "jerk")

_UNREACHABLE = 1e9
"""Stands for "no limit", so that logarithms stay finite; its part in any derivative is below rounding."""
_FIXED = 1e-9
"""A row of the basis smaller than this share of the largest is one that the end conditions fix."""


@dataclass(frozen=True)
class LinearLimits:
    """``lower < offset + rows @ x.T < upper``, for coefficients x (n, m).

    Attributes
    ----------
    rows : (R, m) basis at every grid point of every limited derivative.
    offset, lower, upper : (R, n).
    parts : where the rows of each limited derivative begin and end.
    """

    rows: Array
    offset: Array
    lower: Array
    upper: Array
    parts: tuple[slice, ...] = ()

    @classmethod
    def of(cls, basis: Array, offset: Array, limits: JointLimits) -> LinearLimits:
        """Build from a basis (4, N, m) and an offset (4, N, n)."""
        symmetric = (limits.velocity, limits.acceleration, limits.jerk)
        bounds = [(limits.position_lower, limits.position_upper), *((-bound, bound) for bound in symmetric)]
        rows, offsets, lowers, uppers = [], [], [], []
        parts: list[slice] = []
        for order, (lower, upper) in enumerate(bounds):
            if not (np.isfinite(lower).any() or np.isfinite(upper).any()):
                continue
            size = np.abs(basis[order]).max(axis=1)
            free = size > _FIXED * size.max()
            rows.append(basis[order, free])
            first = parts[-1].stop if parts else 0
            parts.append(slice(first, first + len(rows[-1])))
            offsets.append(offset[order, free])
            shape = offsets[-1].shape
            lowers.append(np.broadcast_to(np.maximum(lower, -_UNREACHABLE), shape))
            uppers.append(np.broadcast_to(np.minimum(upper, _UNREACHABLE), shape))
        if not rows:
            none = np.empty((0, offset.shape[2]))
            return cls(np.empty((0, basis.shape[2])), none, none, none)
        stacked = (np.ascontiguousarray(np.concatenate(blocks)) for blocks in (rows, offsets, lowers, uppers))
        all_rows, all_offsets, all_lowers, all_uppers = stacked
        return cls(all_rows, all_offsets, all_lowers, all_uppers, tuple(parts))

    def slacks(self, x: Array) -> tuple[Array, Array]:
        """Return the distances to the upper and to the lower limits, (R, n) each; all positive = feasible."""
        value = self.offset + self.rows @ x.T
        return self.upper - value, value - self.lower

    def feasible(self, x: Array) -> bool:
        """Whether x is strictly inside."""
        above, below = self.slacks(x)
        return bool(np.all(above > 0.0) and np.all(below > 0.0))

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.tril_indices(self.rows.shape[1])

    @cached_property
    def _products(self) -> Array:
        """Products (R, m (m+1)/2) of the elements of each row: they turn all Hessians into one matrix product."""
        first, second = self._pairs
        return np.ascontiguousarray(self.rows[:, first] * self.rows[:, second])

    def worst_share(self, x: Array) -> float:
        """Return the largest excess over a limit as a share of half the allowed range; negative inside."""
        above, below = self.slacks(x)
        return -float((2.0 * np.minimum(above, below) / (self.upper - self.lower)).min(initial=1.0))

    def barrier(self, x: Array) -> tuple[float, Array, Array]:
        """Return -sum log slack, its gradient (n, m) and its Hessian, one block (n, m, m) per joint.

        Outside the limits the value is infinite and the derivatives mean nothing.
        """
        n, m = x.shape
        reached = self.rows @ x.T
        curvature = np.empty_like(reached)
        value = barrier_terms(reached, self.offset, self.lower, self.upper, curvature)  # reached becomes the slope
        hessian = np.empty((n, m, m))
        if np.isfinite(value):
            first, second = self._pairs
            hessian[:, first, second] = hessian[:, second, first] = curvature.T @ self._products
        return value, reached.T @ self.rows, hessian

    def barrier_value(self, x: Array) -> float:
        """Return -sum log slack; infinite outside the limits."""
        reached = self.rows @ x.T
        return barrier_terms(reached, self.offset, self.lower, self.upper, np.empty_like(reached))

    def largest_step(self, x: Array, direction: Array) -> float:
        """Return how far one can go from x along a direction before a limit is met; infinite if never."""
        return largest_step(self.rows @ x.T, self.rows @ direction.T, self.offset, self.lower, self.upper)
