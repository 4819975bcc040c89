"""Limits on position, speed, acceleration and jerk of a linear family: linear in its coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    def barrier(self, x: Array) -> tuple[float, Array, Array]:
        """Return -sum log slack, its gradient (n, m) and its Hessian, one block (n, m, m) per joint."""
        above, below = self.slacks(x)
        value = -float(np.log(above).sum() + np.log(below).sum())
        inverse_above, inverse_below = 1.0 / above, 1.0 / below
        gradient = (inverse_above - inverse_below).T @ self.rows
        curvature = inverse_above**2 + inverse_below**2
        hessian = np.stack([self.rows.T @ (curvature[:, j, None] * self.rows) for j in range(x.shape[0])])
        return value, gradient, hessian

    def largest_step(self, x: Array, direction: Array) -> float:
        """Return how far one can go from x along a direction before a limit is met; infinite if never."""
        above, below = self.slacks(x)
        rate = self.rows @ direction.T
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(rate > 0.0, above / rate, np.where(rate < 0.0, -below / rate, np.inf))
        return float(steps.min(initial=np.inf))
