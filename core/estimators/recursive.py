"""Recursive least squares: an estimate that follows the stream, sample by sample.

The covariance P is kept as a square root S, P = S S^T, that each row updates by Potter's formula (Bierman
1977), so that it stays positive definite whatever is rounded. Joints are weighted by the variance of their
prediction errors, which is learnt on the way.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.errors import InputError
from core.estimators.estimator import Estimator
from core.estimators.linear import check_determined, condition_numbers
from core.estimators.observations import Observations

Array = NDArray[np.float64]

_EXACT = 1e-20
"""Least variance of a joint's error as a share of its squared torque: noise-free data have none."""
_LEAST = 1e-300
_HASTE = 0.05
_HASTY = 100.0
"""The share of a new squared error in the variance starts at the first and falls after as many samples: slowly,
so that what wrong parameters do in the beginning does not pass for noise long."""


class RecursiveLeastSquares(Estimator):
    """Weighted least squares of a stream, with forgetting.

    ``partial_fit`` takes rows as they come; ``coef_`` is up to date after each call. Without forgetting the
    estimate tends to that of weighted least squares on all rows together.

    Parameters
    ----------
    forgetting : factor (0, 1] that what was known loses weight by with every sample; 1 forgets nothing, 0.9999
        forgets with a time constant of 10 000 samples.
    initial_std : standard deviation of every parameter before the first sample, and after a reset.
    reset_interval : samples after which the covariance is reset while the parameters stay, or None.
    variance_memory : samples over which the variance of each joint's prediction error is averaged.

    Attributes
    ----------
    innovation_std_ : (n,) standard deviation of the prediction error of each joint, as learnt so far.
    """

    def __init__(
        self,
        forgetting: float = 1.0,
        initial_std: float = 1e3,
        reset_interval: int | None = None,
        variance_memory: int = 100_000,
    ) -> None:
        self.forgetting = forgetting
        self.initial_std = initial_std
        self.reset_interval = reset_interval
        self.variance_memory = variance_memory

    def partial_fit(self, X: Array, y: Array) -> Self:
        """Take in consecutive samples: X (samples, n, p), y (samples, n). A sample (n, p), (n,) will do too.

        Raises
        ------
        InputError
            A shape is wrong, a value is not finite, or a setting is out of its range.
        """
        columns = np.ascontiguousarray(X if np.ndim(X) == 3 else np.asarray(X)[None], dtype=np.float64)
        effort = np.ascontiguousarray(np.atleast_2d(y), dtype=np.float64)
        if columns.ndim != 3 or effort.shape != columns.shape[:2]:
            raise InputError(f"columns {columns.shape} and effort {effort.shape} do not belong together")
        if not hasattr(self, "coef_"):
            self._start(columns.shape[1], columns.shape[2])
        if columns.shape[1:] != (self._variance.size, self.coef_.size):
            raise InputError(
                f"the stream has {self._variance.size} joints and {self.coef_.size} parameters, not {columns.shape[1:]}"
            )
        if not (np.isfinite(effort).all() and np.isfinite(columns).all()):
            raise InputError("the regressor or the torque holds values that are not finite")
        _update(
            columns, effort, self.forgetting, 1.0 / self.variance_memory, self.reset_interval or 0, self.initial_std,
            self._count, self.coef_, self._root, self._variance, self._gain,
        )  # fmt: skip
        self.n_rows_ = int(self._count[0])
        return self

    def reset_covariance(self) -> None:
        """Forget how sure the parameters are, but not the parameters: they follow new data at once."""
        self._root[:] = 0.0
        np.fill_diagonal(self._root, self.initial_std)

    def fit_observations(self, observations: Observations) -> Self:
        factors = observations.factors
        check_determined(factors, observations.names)
        self._start(observations.n_joints, observations.n_parameters)
        for columns, effort, _ in observations.blocks():
            self.partial_fit(columns, effort)
        freedom = max(factors.n_rows - factors.n_parameters / factors.n_joints, 1.0)
        self.residual_std_ = np.sqrt(factors.squared_residuals(self.coef_) / freedom)
        self.weights_ = 1.0 / self.innovation_std_
        self.maps_ = self.weights_[:, None, None] ** 2 * self.covariance_
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(factors.stacked()[0])
        self.n_iter_ = 1
        return self

    def _start(self, n_joints: int, n_parameters: int) -> None:
        if not (0.0 < self.forgetting <= 1.0 and self.initial_std > 0.0 and self.variance_memory >= 1):
            raise InputError(
                f"forgetting must lie in (0, 1], initial_std and variance_memory be positive; got {self!r}"
            )
        self.coef_ = np.zeros(n_parameters)
        self._root = self.initial_std * np.eye(n_parameters)
        self._variance = np.zeros(n_joints)
        self._gain = np.zeros((2, n_parameters))
        self._count = np.zeros(1, dtype=np.int64)

    @property
    def covariance_(self) -> Array:  # type: ignore[override]
        return np.asarray(self._root @ self._root.T)

    @property
    def innovation_std_(self) -> Array:
        return np.sqrt(self._variance)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"}, nogil=True)
def _update(  # noqa: PLR0912 - one loop nest over samples, joints and parameters
    columns: Array, effort: Array, forgetting: float, rate: float, interval: int, initial: float,
    count: NDArray[np.int64], coef: Array, root: Array, variance: Array, work: Array,
) -> None:  # fmt: skip
    """Take in m samples; ``reassoc`` lets sums run in vector registers, which changes rounding only."""
    p = coef.size
    projected, gain = work[0], work[1]
    fading = 1.0 / math.sqrt(forgetting)
    for k in range(effort.shape[0]):
        count[0] += 1
        if interval > 0 and count[0] % interval == 0:
            root[:] = 0.0
            for i in range(p):
                root[i, i] = initial
        elif forgetting < 1.0:
            for i in range(p):
                for c in range(p):
                    root[i, c] *= fading
        for j in range(effort.shape[1]):
            error = effort[k, j]
            projected[:] = 0.0
            for i in range(p):
                x = columns[k, j, i]
                if x != 0.0:  # joint j feels only the links beyond it
                    error -= x * coef[i]
                    for c in range(p):
                        projected[c] += x * root[i, c]
            spread = 0.0
            for c in range(p):
                spread += projected[c] * projected[c]
            floor = _EXACT * effort[k, j] * effort[k, j] + _LEAST
            if count[0] == 1:
                variance[j] = error * error
            variance[j] = max(variance[j], floor)
            power = variance[j] + spread
            # the error of a parameter that is not known yet says nothing of the joint's noise
            share = variance[j] / power
            step = max(rate, _HASTE / (1.0 + count[0] / _HASTY)) * share
            shrink = 1.0 / (power + math.sqrt(variance[j] * power))
            for i in range(p):
                total = 0.0
                for c in range(p):
                    total += root[i, c] * projected[c]
                gain[i] = total
            scaled = error / power
            for i in range(p):
                coef[i] += gain[i] * scaled
                part = gain[i] * shrink
                for c in range(p):
                    root[i, c] -= part * projected[c]
            variance[j] += step * (error * error * share - variance[j])
