"""Ordinary and joint-weighted least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators.estimator import Estimator
from core.estimators.identifiability import undetermined
from core.estimators.joint_factors import JointFactors

Array = NDArray[np.float64]

_SINGULAR = 1e10
"""Condition number, columns normalised, from which rounding decides on parameters."""
_EXACT = 1e-10
"""A joint is never trusted to more than this share of the torque: noise-free data have no variance."""


class OrdinaryLeastSquares(Estimator):
    """Least squares with all joints weighted alike."""

    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        matrix, _ = factors.stacked()
        _check_determined(matrix, factors.n_rows * factors.n_joints, names)
        self.weights_ = np.ones(factors.n_joints)
        self.coef_, inverse = _solve(*factors.stacked())
        squared = factors.squared_residuals(self.coef_)
        freedom = factors.n_rows * factors.n_joints - factors.n_parameters
        self.covariance_ = inverse * float(np.sum(squared)) / max(freedom, 1)
        self.residual_std_ = _residual_std(squared, factors)
        self.n_rows_ = factors.n_rows
        self.n_iter_ = 1
        self.condition_number_, self.normalised_condition_number_ = _condition_numbers(matrix)
        return self


class WeightedLeastSquares(Estimator):
    """Least squares with each joint weighted by the inverse of its residual's variance, iterated.

    Source: Gautier and Poignet 2001.

    Parameters
    ----------
    tolerance : relative change of the standard deviations at which they count as settled.
    max_iterations : IdentificationError after as many.
    """

    def __init__(self, tolerance: float = 1e-6, max_iterations: int = 50) -> None:
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        matrix, effort = factors.stacked()
        _check_determined(matrix, factors.n_rows * factors.n_joints, names)
        floor = _EXACT * max(float(np.linalg.norm(effort)) / np.sqrt(factors.n_rows), np.finfo(float).tiny)
        weights = np.ones(factors.n_joints)
        for iteration in range(1, self.max_iterations + 1):
            self.n_iter_ = iteration
            coef, inverse = _solve(*factors.stacked(weights))
            deviation = np.maximum(_residual_std(factors.squared_residuals(coef), factors), floor)
            change = float(np.abs(deviation * weights - 1.0).max())
            if change < self.tolerance:
                break
            weights = 1.0 / deviation
        else:
            raise IdentificationError(
                f"the joint weights did not settle within {self.max_iterations} iterations (last relative change "
                f"{change:.2g}); the data hold too little motion, or relax the tolerance",
                code="estimator-not-converged",
            )
        self.weights_ = weights
        self.coef_, self.covariance_ = coef, inverse
        self.residual_std_ = deviation
        self.n_rows_ = factors.n_rows
        self.condition_number_, self.normalised_condition_number_ = _condition_numbers(matrix)
        return self


def _solve(matrix: Array, effort: Array) -> tuple[Array, Array]:
    """Return the least-squares solution (p,) and the inverse (p, p) of the normal matrix."""
    size = np.linalg.norm(matrix, axis=0)
    orthogonal, triangle = np.linalg.qr(matrix / size)
    inverse_triangle = np.linalg.inv(triangle) / size[:, None]
    return inverse_triangle @ (orthogonal.T @ effort), inverse_triangle @ inverse_triangle.T


def _residual_std(squared: Array, factors: JointFactors) -> Array:
    freedom = factors.n_rows - factors.n_parameters / factors.n_joints
    return np.asarray(np.sqrt(squared / max(freedom, 1.0)))


def _condition_numbers(matrix: Array) -> tuple[float, float]:
    normalised = matrix / np.linalg.norm(matrix, axis=0)
    return float(np.linalg.cond(matrix)), float(np.linalg.cond(normalised))


def _check_determined(matrix: Array, rows: int, names: Sequence[str] | None) -> None:
    """Refuse observations that leave parameters undetermined, and name those."""
    parameters = matrix.shape[1]
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
