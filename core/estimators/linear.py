"""What estimators share: the least-squares solution, and what it says about the observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators.identifiability import undetermined
from core.estimators.joint_factors import JointFactors, r_factor

Array = NDArray[np.float64]

_SINGULAR = 1e10
"""Condition number, columns normalised, from which rounding decides on parameters."""
_EXACT = 1e-10
"""A joint is never trusted to more than this share of the torque: noise-free data have no variance."""
_LEAST = 1e-100
"""N·m (N, A); the same where there is no torque at all. Its inverse can still be squared."""


def solve(matrix: Array, effort: Array) -> tuple[Array, Array]:
    """Return the least-squares solution (p,) and the inverse (p, p) of the normal matrix."""
    size = np.linalg.norm(matrix, axis=0)
    triangle = r_factor(np.column_stack([matrix / size, effort]))
    inverse_triangle, _ = scipy.linalg.lapack.dtrtri(triangle[: size.size, :-1])
    inverse_triangle /= size[:, None]
    return inverse_triangle @ triangle[: size.size, -1], inverse_triangle @ inverse_triangle.T


def residual_std(squared: Array, factors: JointFactors) -> Array:
    """Return the standard deviation (n,) of the residual for its sum of squares (n,)."""
    freedom = factors.n_rows - factors.n_parameters / factors.n_joints
    return np.asarray(np.sqrt(squared / max(freedom, 1.0)))


def least_deviation(factors: JointFactors) -> float:
    """Return the standard deviation below which a residual counts as rounding."""
    _, effort = factors.stacked()
    typical = float(np.linalg.norm(effort)) / max(factors.n_rows, 1) ** 0.5
    return float(max(_EXACT * typical, _LEAST))


class JointWeighted(NamedTuple):
    """A least-squares solution with each joint weighted by the inverse of its residual's variance.

    coef (p,), inverse (p, p) of the weighted normal matrix, weights (n,) of the joints' rows, deviation (n,) of their
    residuals, the number of solutions computed, and the largest relative change of a deviation in the last of them.
    """

    coef: Array
    inverse: Array
    weights: Array
    deviation: Array
    iterations: int
    change: float

    def settled(self, tolerance: float) -> JointWeighted:
        """Return this solution, or say that its weights did not settle."""
        if self.change < tolerance:
            return self
        raise IdentificationError(
            f"the joint weights did not settle within {self.iterations} iterations (last relative change "
            f"{self.change:.2g}); the data hold too little motion, or relax the tolerance",
            code="estimator-not-converged",
        )


def joint_weighted(
    factors: JointFactors,
    tolerance: float,
    max_iterations: int,
    *,
    start: Array | None = None,
    known: tuple[Array, Array] | None = None,
    worth: Array | float = 1.0,
) -> JointWeighted:
    """Iterate solution and joint weights until both agree, or ``max_iterations`` are over.

    Parameters
    ----------
    start : (n,) deviations to begin with; by default all joints are alike.
    known : rows (k, p) and right-hand side (k,) that are there besides the samples, with errors of variance one.
    worth : how many times the deviation of a residual its row counts for.
    """
    floor = least_deviation(factors)
    rows, target = known if known is not None else (np.empty((0, factors.n_parameters)), np.empty(0))
    expected = np.ones(factors.n_joints) if start is None else np.maximum(start, floor)
    for iterations in range(1, max_iterations + 1):  # noqa: B007 - how many there were is told
        weights = 1.0 / (expected * worth)
        matrix, effort = factors.stacked(weights)
        coef, inverse = solve(np.vstack([matrix, rows]), np.append(effort, target))
        deviation = np.maximum(residual_std(factors.squared_residuals(coef), factors), floor)
        change = float(np.abs(deviation / expected - 1.0).max())
        if change < tolerance:
            break
        expected = deviation
    return JointWeighted(coef, inverse, weights, deviation, iterations, change)


def condition_numbers(matrix: Array) -> tuple[float, float]:
    """Return the condition number, raw and with columns of length one."""
    normalised = matrix / np.linalg.norm(matrix, axis=0)
    return float(np.linalg.cond(matrix)), float(np.linalg.cond(normalised))


def check_determined(factors: JointFactors, names: Sequence[str] | None) -> None:
    """Refuse observations that leave parameters undetermined, and name those."""
    matrix, _ = factors.stacked()
    rows, parameters = factors.n_rows * factors.n_joints, factors.n_parameters
    labels = list(names) if names is not None else [f"parameter {i + 1}" for i in range(parameters)]
    if rows < parameters:
        raise IdentificationError(
            f"{rows} torque samples cannot determine {parameters} parameters; record longer",
            code="too-few-samples",
        )
    size = np.linalg.norm(matrix, axis=0)
    absent = [label for label, length in zip(labels, size, strict=True) if length == 0.0]
    weak = absent or undetermined(matrix / size, labels, _SINGULAR)
    if weak:
        why = "never act in these data" if absent else "cannot be told apart by these data"
        raise IdentificationError(
            f"{', '.join(weak)} {why}: the motion does not excite them; let all joints move, and in more varied ways",
            code="rank-deficient",
            parameters=weak,
        )
