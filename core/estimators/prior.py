"""Weighted least squares on top of what is known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators.estimator import FactorEstimator
from core.estimators.joint_factors import JointFactors
from core.estimators.linear import condition_numbers, joint_weighted, residual_std

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
    """

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
        self._require_iteration(self.tolerance, self.max_iterations)
        known, p = self.mean.size, factors.n_parameters
        self._require(
            self.covariance.shape == (known, known) and known <= p,
            f"a prior of shape {self.covariance.shape} does not fit {known} of {p} parameters",
        )
        values, vectors = np.linalg.eigh(self.covariance)
        self._require(values[0] > 0.0, "the covariance of the prior is not positive definite")
        prior = np.zeros((known, p))
        prior[:, :known] = (vectors / np.sqrt(values)).T
        target = prior[:, :known] @ self.mean
        matrix, _ = factors.stacked()
        absent = np.flatnonzero(~np.vstack([matrix, prior]).any(axis=0))
        if absent.size:
            labels = [names[i] if names else f"parameter {i + 1}" for i in absent.tolist()]
            raise IdentificationError(
                f"{', '.join(labels)} never act in these data", code="rank-deficient", parameters=labels
            )
        nominal = np.append(self.mean, np.zeros(p - known))
        found = joint_weighted(
            factors,
            self.tolerance,
            self.max_iterations,
            start=residual_std(factors.squared_residuals(nominal), factors),
            known=(prior, target),
            worth=1.0 if self.inflation is None else np.sqrt(self.inflation),
        ).settled(self.tolerance)
        self.coef_, self.covariance_, self.weights_ = found.coef, found.inverse, found.weights
        self.residual_std_ = found.deviation
        self.maps_ = found.weights[:, None, None] ** 2 * found.inverse
        moved = prior @ found.inverse
        self.prior_part_ = moved.T @ moved
        self.n_rows_, self.n_iter_ = factors.n_rows, found.iterations
        whole = np.vstack([factors.stacked(found.weights)[0], prior])
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(whole)
        return self
