"""Instrumental variables: columns along a simulated motion stand in for the measured, noisy ones.

Noise of position and speed enters the regressor and biases least squares. Columns evaluated along a motion
that is simulated with the estimated model hold the same motion but not that noise; with them as instruments
Z the estimate ``(Z^T W)^-1 Z^T y`` is consistent (Janot, Vandanjon and Gautier 2014).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import IdentificationError
from core.estimators.estimator import Estimator
from core.estimators.least_squares import WeightedLeastSquares
from core.estimators.linear import condition_numbers, least_deviation, residual_std
from core.estimators.observations import Block, Observations

Array = NDArray[np.float64]

_WEAK = 1e-12
"""Reciprocal condition of Z^T W, columns of length one, below which the instruments say nothing."""


class InstrumentalVariable(Estimator):
    """Joint-weighted instrumental variable estimate.

    Parameters
    ----------
    simulations : how often the instruments are simulated anew with a better estimate. Any motion without the
        measurement's noise makes the estimate consistent, a better one only more precise, so few will do.
    tolerance : change of the parameters, in standard deviations, at which they count as settled.
    max_iterations : IdentificationError after as many.
    """

    def __init__(self, simulations: int = 2, tolerance: float = 1e-2, max_iterations: int = 20) -> None:
        self.simulations = simulations
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        names: Sequence[str] | None = None,
        instruments: ArrayLike | None = None,
    ) -> Self:
        """As usual, with instruments in the shape of X that belong to it sample by sample."""
        return self.fit_observations(Observations.of(X, y, names, instruments=instruments))

    def fit_observations(self, observations: Observations) -> Self:
        self._require_iteration(self.tolerance, self.max_iterations)
        self._require(self.simulations >= 1, "simulations must be at least 1")
        factors = observations.factors
        start = WeightedLeastSquares().fit_factors(factors, observations.names)
        floor = least_deviation(factors)
        coef, weights = start.coef_, start.weights_
        deviation = np.maximum(np.sqrt(np.diag(start.covariance_)), np.finfo(float).tiny)
        size = np.linalg.norm(factors.stacked(weights)[0], axis=0)
        self._simulated_with = coef
        for iteration in range(1, self.max_iterations + 1):
            self.n_iter_ = iteration
            if iteration <= self.simulations:
                self._simulated_with = coef
            cross, right, own = self._products(observations, self._simulated_with, weights)
            scaled = cross / size / size[:, None]
            if np.linalg.cond(scaled) * _WEAK > 1.0:
                raise IdentificationError(
                    "the simulated motion does not excite all parameters, so it yields no instruments",
                    code="instruments-weak",
                )
            inverse = np.linalg.inv(scaled) / size / size[:, None]
            solution = inverse @ right
            change = float(np.max(np.abs(solution - coef) / deviation))
            coef = solution
            if change < self.tolerance:
                break
            weights = 1.0 / np.maximum(residual_std(factors.squared_residuals(coef), factors), floor)
        else:
            raise IdentificationError(
                f"the estimate did not settle within {self.max_iterations} iterations (last change {change:.2g} "
                "standard deviations); allow more iterations or relax the tolerance",
                code="estimator-not-converged",
            )
        self.coef_ = coef
        self.covariance_ = inverse @ own @ inverse.T
        self.residual_std_ = residual_std(factors.squared_residuals(coef), factors)
        self.weights_ = weights
        self.maps_ = weights[:, None, None] ** 2 * inverse
        self.n_rows_ = factors.n_rows
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(factors.stacked()[0])
        return self

    def rows(self, observations: Observations) -> Iterator[tuple[Block, Array]]:
        yield from zip(observations.blocks(), observations.instruments(self._simulated_with), strict=True)

    @staticmethod
    def _products(observations: Observations, coef: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Return Z^T W, Z^T y and Z^T Z, weighted."""
        p = observations.n_parameters
        cross, right, own = np.zeros((p, p)), np.zeros(p), np.zeros((p, p))
        for block, simulated in zip(observations.blocks(), observations.instruments(coef), strict=True):
            for j, weight in enumerate(weights):
                instruments = simulated[:, j] * weight**2
                cross += instruments.T @ block.columns[:, j]
                right += instruments.T @ block.effort[:, j]
                own += instruments.T @ simulated[:, j]
        return cross, right, own
