"""Iteratively reweighted least squares: outlying samples lose weight until the estimate settles.

Huber's estimator weighs the samples of each joint on their own. The generalised one takes the full n x n
covariance of the joints' residuals, so that what a disturbance does to all joints at once is not counted n
times, and weighs a sample by its Mahalanobis distance (methods, section 2, layer 1).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators.estimator import Estimator
from core.estimators.joint_factors import JointFactors
from core.estimators.least_squares import WeightedLeastSquares
from core.estimators.linear import condition_numbers, least_deviation, residual_std, solve
from core.estimators.observations import Observations

Array = NDArray[np.float64]

_SCALE_STEPS = 50
"""The covariance of given residuals and the weights that follow from it settle well within this many steps."""
_NORMAL_MEDIAN = 0.6744897501960817
"""Median absolute deviation of a standard normal variable."""


class _Reweighted(Estimator):
    """Solve, look at the residuals, weigh the rows anew, until nothing changes.

    Attributes
    ----------
    precision_ : (n, n) inverse covariance of the joints' residuals.
    sample_weights_ : (samples, n), 1 for samples that are not outlying.
    """

    tolerance: float
    max_iterations: int
    precision_: Array
    sample_weights_: Array

    @abstractmethod
    def _precision(self, residuals: Array, floor: float) -> Array:
        """Return the inverse (n, n) of the covariance of the residuals (N, n)."""

    @abstractmethod
    def _weights(self, residuals: Array, precision: Array) -> tuple[Array, Array]:
        """Return weights (N, n), and the derivatives (N, n) of weight times residual that follow from them."""

    @abstractmethod
    def _check(self) -> None:
        """Refuse parameters that are out of their range."""

    def fit_observations(self, observations: Observations) -> Self:
        self._require_iteration(self.tolerance, self.max_iterations)
        self._check()
        start = WeightedLeastSquares().fit_factors(observations.factors, observations.names)
        factors = observations.factors
        floor = least_deviation(factors)
        coef, deviation = start.coef_, start.covariance_.diagonal() ** 0.5
        for iteration in range(1, self.max_iterations + 1):
            self.n_iter_ = iteration
            residuals = observations.residuals(coef)
            self.precision_ = self._precision(residuals, floor)
            self.sample_weights_, slopes = self._weights(residuals, self.precision_)
            solution, inverse = solve(*self._whitened(observations).stacked())
            change = float(np.max(np.abs(solution - coef) / np.maximum(deviation, np.finfo(float).tiny)))
            coef = solution
            if change < self.tolerance:
                break
        else:
            raise IdentificationError(
                f"the estimate did not settle within {self.max_iterations} iterations (last change {change:.2g} "
                "standard deviations); allow more iterations or relax the tolerance",
                code="estimator-not-converged",
            )
        self.coef_ = coef
        slope, weight = float(slopes.mean()), float(self.sample_weights_.mean())
        self._bread = inverse * (weight / slope)  # Huber 1981: the curvature is that of psi, not of the weights
        power = float(np.einsum("ki,ij,kj->", weighted := self.sample_weights_ * residuals, self.precision_, weighted))
        self.covariance_ = self._bread * (power / weight / residuals.size) * (weight / slope)
        squared = np.sum(self.sample_weights_ * residuals**2, axis=0)
        self.residual_std_ = residual_std(squared, factors)
        self.weights_ = np.sqrt(np.diag(self.precision_))
        self.n_rows_ = factors.n_rows
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(factors.stacked()[0])
        return self

    def influence(self, columns: Array, residual: Array, instruments: Array) -> tuple[Array, Array]:
        weights, slopes = self._weights(residual, self.precision_)
        score = (weights * residual) @ self.precision_
        bent = (self.precision_ @ (slopes[:, :, None] * columns)).reshape(-1, columns.shape[2])
        shift = self._bread @ np.einsum("kj,kjp->p", score, instruments)
        return shift, self._bread @ (instruments.reshape(-1, instruments.shape[2]).T @ bent)

    def _whitened(self, observations: Observations) -> JointFactors:
        """Return the factor of all rows of all joints together, whitened and weighted."""
        whitener = np.linalg.cholesky(self.precision_).T
        p = observations.n_parameters
        factors = JointFactors(1, p)
        start = 0
        for columns, effort, _ in observations.blocks():
            root = np.sqrt(self.sample_weights_[start : start + len(effort)])
            start += len(effort)
            rows = np.matmul(whitener, root[:, :, None] * columns).reshape(-1, 1, p)
            factors.add(rows, ((root * effort) @ whitener.T).reshape(-1, 1))
        return factors


class HuberRegression(_Reweighted):
    """Huber's M-estimator, joint by joint: beyond a threshold a residual counts linearly, not squared.

    Source: Huber 1981; the scale of each joint is the median absolute deviation.

    Parameters
    ----------
    threshold : standard deviations from which on a residual is outlying; 1.345 is 95 % efficient on normal ones.
    tolerance : change of the parameters, in standard deviations, at which they count as settled.
    max_iterations : IdentificationError after as many.
    """

    def __init__(self, threshold: float = 1.345, tolerance: float = 1e-3, max_iterations: int = 100) -> None:
        self.threshold = threshold
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def _check(self) -> None:
        self._require(self.threshold > 0.0, "threshold must be positive")

    def _precision(self, residuals: Array, floor: float) -> Array:
        deviation = np.median(np.abs(residuals), axis=0) / _NORMAL_MEDIAN
        return np.diag(1.0 / np.maximum(deviation, floor) ** 2)

    def _weights(self, residuals: Array, precision: Array) -> tuple[Array, Array]:
        size = np.abs(residuals) * np.sqrt(np.diag(precision))
        weights = self.threshold / np.maximum(size, self.threshold)
        return weights, (size <= self.threshold).astype(np.float64)


class GeneralisedLeastSquares(_Reweighted):
    """Least squares with the full covariance of the joints' residuals, robust against outlying samples.

    A sample whose Mahalanobis distance exceeds the chosen quantile of its distribution is weighted down in
    all joints. Sources: Janot, Vandanjon and Gautier 2014 (IRLS); Maronna 1976 (the covariance).

    Parameters
    ----------
    quantile : share of normally distributed samples that keep their full weight.
    tolerance : change of the parameters, in standard deviations, at which they count as settled.
    max_iterations : IdentificationError after as many.
    """

    def __init__(self, quantile: float = 0.95, tolerance: float = 1e-3, max_iterations: int = 100) -> None:
        self.quantile = quantile
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def _check(self) -> None:
        self._require(0.0 < self.quantile < 1.0, "quantile must lie between 0 and 1")

    def _precision(self, residuals: Array, floor: float) -> Array:
        n = residuals.shape[1]
        shrinkage = _mean_weighted_square(n, float(scipy.stats.chi2.ppf(self.quantile, n) ** 0.5)) / n
        least = floor**2 * np.eye(n)
        covariance: Array = np.cov(residuals.T, bias=True).reshape(n, n) + least
        for _ in range(_SCALE_STEPS):
            weights, _ = self._weights(residuals, np.asarray(np.linalg.inv(covariance)))
            renewed = (weights * residuals).T @ residuals / (shrinkage * len(residuals)) + least
            change = np.abs(renewed - covariance).max() / np.abs(covariance).max()
            covariance = renewed
            if change < self.tolerance:
                break
        return np.asarray(np.linalg.inv(covariance))

    def _weights(self, residuals: Array, precision: Array) -> tuple[Array, Array]:
        n = residuals.shape[1]
        distance = np.sqrt(np.einsum("ki,ij,kj->k", residuals, precision, residuals, optimize=True))
        limit = float(scipy.stats.chi2.ppf(self.quantile, n) ** 0.5)
        weights = limit / np.maximum(distance, limit)
        slopes = np.where(distance <= limit, 1.0, weights * (1.0 - 1.0 / n))
        everywhere = np.ones((1, n))
        return weights[:, None] * everywhere, slopes[:, None] * everywhere


def _mean_weighted_square(n: int, limit: float) -> float:
    """Return E[min(1, limit / d) d^2] for d^2 chi-square distributed with n degrees of freedom."""
    tail = (
        np.sqrt(2.0)
        * np.exp(scipy.special.gammaln((n + 1) / 2) - scipy.special.gammaln(n / 2))
        * scipy.stats.chi2.sf(limit**2, n + 1)
    )
    return float(n * scipy.stats.chi2.cdf(limit**2, n + 2) + limit * tail)
