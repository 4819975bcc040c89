"""Weighted least squares on top of what is known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError, InputError
from core.estimators.estimator import FactorEstimator
from core.estimators.joint_factors import JointFactors
from core.estimators.linear import condition_numbers, least_deviation, residual_std, solve

Array = NDArray[np.float64]


class PriorLeastSquares(FactorEstimator):
    """Joint-weighted least squares with a normally distributed prior on the first parameters.

    Parameters
    ----------
    mean, covariance : (k,), (k, k) of the prior on the first k parameters; nothing is known of the others.
    inflation : (n,) how many samples of each joint are worth an independent one (``ColouredCovariance``), so
        that data and prior count in proportion.
    tolerance : relative change of the residuals' standard deviations at which they count as settled.
    max_iterations : IdentificationError after as many.

    Attributes
    ----------
    prior_part_ : (p, p) what the prior's uncertainty contributes to the covariance.
    """

    prior_part_: Array

    def __init__(
        self,
        mean: Array,
        covariance: Array,
        inflation: Array | None = None,
        tolerance: float = 1e-6,
        max_iterations: int = 50,
    ) -> None:
        self.mean = mean
        self.covariance = covariance
        self.inflation = inflation
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        known, p = self.mean.size, factors.n_parameters
        if self.covariance.shape != (known, known) or known > p:
            raise InputError(f"a prior of shape {self.covariance.shape} does not fit {known} of {p} parameters")
        values, vectors = np.linalg.eigh(self.covariance)
        if values[0] <= 0.0:
            raise InputError("the covariance of the prior is not positive definite")
        prior = np.zeros((known, p))
        prior[:, :known] = (vectors / np.sqrt(values)).T
        target = prior[:, :known] @ self.mean
        floor = least_deviation(factors)
        worth = np.ones(factors.n_joints) if self.inflation is None else np.sqrt(self.inflation)
        deviation = np.full(factors.n_joints, np.inf)
        coef = np.append(self.mean, np.zeros(p - known))
        for iteration in range(1, self.max_iterations + 1):
            self.n_iter_ = iteration
            before = deviation
            deviation = np.maximum(residual_std(factors.squared_residuals(coef), factors), floor)
            if np.abs(deviation / before - 1.0).max() < self.tolerance:
                break
            weights = 1.0 / (deviation * worth)
            matrix, effort = factors.stacked(weights)
            whole = np.vstack([matrix, prior])
            absent = np.flatnonzero(~whole.any(axis=0))
            if absent.size:
                labels = [names[i] if names else f"parameter {i + 1}" for i in absent.tolist()]
                raise IdentificationError(
                    f"{', '.join(labels)} never act in these data", code="rank-deficient", parameters=labels
                )
            coef, inverse = solve(whole, np.append(effort, target))
        else:
            raise IdentificationError(
                f"the joint weights did not settle within {self.max_iterations} iterations",
                code="estimator-not-converged",
            )
        self.coef_, self.covariance_, self.weights_ = coef, inverse, weights
        self.residual_std_ = deviation
        self.maps_ = weights[:, None, None] ** 2 * inverse
        moved = prior @ inverse
        self.prior_part_ = moved.T @ moved
        self.n_rows_ = factors.n_rows
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(whole)
        return self
