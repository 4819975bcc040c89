"""Ordinary and joint-weighted least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.estimators.estimator import FactorEstimator
from core.estimators.joint_factors import JointFactors
from core.estimators.linear import check_determined, condition_numbers, joint_weighted, residual_std, solve

Array = NDArray[np.float64]


class OrdinaryLeastSquares(FactorEstimator):
    """Least squares with all joints weighted alike."""

    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        check_determined(factors, names)
        self.weights_ = np.ones(factors.n_joints)
        self.coef_, inverse = solve(*factors.stacked())
        squared = factors.squared_residuals(self.coef_)
        freedom = factors.n_rows * factors.n_joints - factors.n_parameters
        self.covariance_ = inverse * float(np.sum(squared)) / max(freedom, 1)
        self.residual_std_ = residual_std(squared, factors)
        self.maps_ = np.tile(inverse, (factors.n_joints, 1, 1))
        self.n_rows_ = factors.n_rows
        self.n_iter_ = 1
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(factors.stacked()[0])
        return self


class WeightedLeastSquares(FactorEstimator):
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
        self._require_iteration(self.tolerance, self.max_iterations)
        check_determined(factors, names)
        found = joint_weighted(factors, self.tolerance, self.max_iterations).settled(self.tolerance)
        self.coef_, self.covariance_, self.weights_ = found.coef, found.inverse, found.weights
        self.residual_std_ = found.deviation
        self.maps_ = found.weights[:, None, None] ** 2 * found.inverse
        self.n_rows_, self.n_iter_ = factors.n_rows, found.iterations
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(factors.stacked()[0])
        return self
