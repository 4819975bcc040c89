"""Parameters that another procedure has found, judged on observations like those of any estimator."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from core.errors import InputError
from core.estimators.estimator import Estimator
from core.estimators.linear import check_determined, condition_numbers, least_deviation, residual_std, solve
from core.estimators.observations import Observations


class PresetParameters(Estimator):
    """Nothing is estimated: residuals, conditioning and uncertainty are those of given parameters.

    Their covariance is that of joint-weighted least squares on the same rows, weighted by their own residuals: what
    noise does to parameters near an unconstrained optimum. Where a constraint holds, it is too wide.

    Parameters
    ----------
    coef : (p,).
    """

    def __init__(self, coef: ArrayLike = ()) -> None:
        self.coef = coef

    def fit_observations(self, observations: Observations) -> Self:
        coef = np.asarray(self.coef, dtype=np.float64)
        if coef.shape != (observations.n_parameters,) or not np.all(np.isfinite(coef)):
            raise InputError(f"coef has shape {coef.shape}; {observations.n_parameters} finite numbers are needed")
        factors = observations.factors
        check_determined(factors, observations.names)
        squared = factors.squared_residuals(coef)
        self.coef_ = coef
        self.residual_std_ = np.maximum(residual_std(squared, factors), least_deviation(factors))
        self.weights_ = 1.0 / self.residual_std_
        _, self.covariance_ = solve(*factors.stacked(self.weights_))
        self.maps_ = self.weights_[:, None, None] ** 2 * self.covariance_
        self.n_rows_, self.n_iter_ = factors.n_rows, 0
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(factors.stacked()[0])
        return self
