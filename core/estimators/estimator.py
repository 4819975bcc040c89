"""What every estimator has in common."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.estimators.joint_factors import JointFactors
from core.estimators.observations import Block, Observations, checked_samples

Array = NDArray[np.float64]


class Influence(NamedTuple):
    """What consecutive samples of one motion do to an estimate.

    To first order, their errors have moved the parameters by shift (p,), and parameters that differ by d would have
    been moved by shift - leverage d, with leverage (p, p). residual (n,), columns (n, p) and squared (n,) are sums over
    the samples: of residuals, regressor and squared residuals; motion is the number of the motion.
    """

    shift: Array
    leverage: Array
    residual: Array
    columns: Array
    squared: Array
    motion: int


class Estimator(ABC):
    """An estimator of parameters that torques are linear in.

    The contract is scikit-learn's: the constructor stores its parameters as they are, ``fit`` judges them and leaves
    its results in attributes that end with ``_``, ``get_params`` and ``set_params`` let ``sklearn.base.clone`` make
    an unfitted copy. None of these estimators draws a random number: the same rows give the same digits, so there is
    no ``random_state``; one that draws has to take it.

    After ``fit`` or ``fit_observations``:

    coef_ : (p,) parameters.
    covariance_ : (p, p) of the parameters, for residuals that are white; see ``coloured_covariance``.
    residual_std_ : (n,) standard deviation of the residual of each joint, degrees of freedom accounted for.
    weights_ : (n,) what the rows of each joint were multiplied by.
    maps_ : (n, p, p), of an estimate that is linear in the torque; an error e of the torque of joint j in a sample with
        columns x (p,) moves it by ``maps_[j] @ x * e``.
    prior_part_ : (p, p) what the uncertainty of a prior contributes to the covariance; None without a prior.
    n_rows_ : samples per joint.
    n_iter_ : solutions computed.
    condition_number_ : of the observation matrix, all joints together, unweighted.
    normalised_condition_number_ : the same with columns of length one, so without units.
    """

    coef_: Array
    covariance_: Array
    residual_std_: Array
    weights_: Array
    maps_: Array
    prior_part_: Array | None = None
    n_rows_: int
    n_iter_: int
    condition_number_: float
    normalised_condition_number_: float

    @abstractmethod
    def fit_observations(self, observations: Observations) -> Self:
        """Estimate from rows that can be read repeatedly.

        Raises
        ------
        IdentificationError
            The observations do not determine all parameters; the detail names which.
        """

    def fit(self, X: ArrayLike, y: ArrayLike, names: Sequence[str] | None = None) -> Self:
        """Estimate from a regressor and torques that are in memory.

        Parameters
        ----------
        X : (samples, n, p), or (samples, p) where there is one joint.
        y : (samples, n), or (samples,).
        names : (p,) of the parameters, for messages.

        Raises
        ------
        InputError
            A shape is wrong, a value is not finite, or a parameter of the constructor is out of its range.
        IdentificationError
            As ``fit_observations``.
        """
        return self.fit_observations(Observations.of(X, y, names))

    def predict(self, X: ArrayLike) -> Array:
        """Return torques (samples, n) for a regressor X (samples, n, p), or (samples,) for (samples, p).

        Raises
        ------
        InputError
            It was not fitted (``estimator-not-fitted``), or X has other parameters than it was fitted to.
        """
        if not hasattr(self, "coef_"):
            raise InputError(f"{self!r} predicts nothing before it is fitted", code="estimator-not-fitted")
        columns = np.asarray(X, dtype=np.float64)
        if columns.ndim not in (2, 3) or columns.shape[-1] != self.coef_.size:
            raise InputError(
                f"X has shape {columns.shape}; it must be (samples, joints, parameters), or (samples, parameters) for "
                f"one joint, with the {self.coef_.size} parameters that were estimated"
            )
        return np.asarray(columns @ self.coef_)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the coefficient of determination R2 of ``predict``, mean over joints; arguments as of ``fit``.

        Raises
        ------
        InputError
            As ``predict``, or a torque that never changes, which there is nothing to explain in.
        """
        columns, effort = checked_samples(X, y)
        unexplained = np.sum((effort - self.predict(columns)) ** 2, axis=0)
        spread = np.sum((effort - effort.mean(axis=0)) ** 2, axis=0)
        if not np.all(spread > 0.0):
            raise InputError(f"the torque of joint {int(np.argmin(spread)) + 1} never changes, so R2 is undefined")
        return float(np.mean(1.0 - unexplained / spread))

    def influences(self, observations: Observations, length: int) -> Iterator[Influence]:
        """Yield the influence of the samples that the estimate was made from, at most ``length`` of them at a time."""
        for block, instruments in self.rows(observations):
            residual = block.effort - block.columns @ self.coef_
            for start in range(0, len(residual), length):
                part = slice(start, start + length)
                columns, own = block.columns[part], residual[part]
                shift, leverage = self.influence(columns, own, instruments[part])
                sums = own.sum(axis=0), columns.sum(axis=0), np.sum(own**2, axis=0)
                yield Influence(shift, leverage, *sums, block.motion)

    def rows(self, observations: Observations) -> Iterator[tuple[Block, Array]]:
        """Yield the blocks with what their errors are multiplied by: their columns, or instruments."""
        for block in observations.blocks():
            yield block, block.columns

    def influence(self, columns: Array, residual: Array, instruments: Array) -> tuple[Array, Array]:
        """Return shift (p,) and leverage (p, q) of samples, as in ``Influence``.

        Parameters
        ----------
        columns : (m, n, q) of the parameters that may differ: those that are estimated, or others.
        residual : (m, n).
        instruments : (m, n, p), as ``rows`` gives them.
        """
        across = np.concatenate(list(self.maps_), axis=1)
        turned = instruments.transpose(1, 2, 0)
        scores = turned @ residual.T[:, :, None]
        grams = turned @ columns.transpose(1, 0, 2)
        return across @ scores.ravel(), across @ grams.reshape(-1, grams.shape[2])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters; ``deep`` changes nothing, as none of them is an estimator."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor by name.

        Raises
        ------
        InputError
            There is no such parameter; then none is set.
        """
        known = self._parameter_names()
        for name in params:
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known) or 'none'}",
                    code="estimator-parameter-unknown",
                    parameter=name,
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> tuple[str, ...]:
        return tuple(inspect.signature(cls).parameters)

    def _require(self, condition: bool, what: str) -> None:
        """Refuse, when fitting, a parameter of the constructor that is out of its range."""
        if not condition:
            raise InputError(f"{self!r}: {what}", code="estimator-parameter-invalid")

    def _require_iteration(self, tolerance: float, max_iterations: int) -> None:
        self._require(tolerance > 0.0, "tolerance must be positive")
        self._require(max_iterations >= 1, "max_iterations must be at least 1")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={_shown(v)}' for k, v in self.get_params().items())})"


def _shown(value: Any) -> str:
    return f"<array {value.shape}>" if isinstance(value, np.ndarray) else repr(value)


class FactorEstimator(Estimator):
    """An estimator that needs no more of the rows than their R factors, so any number of them."""

    @abstractmethod
    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        """Estimate from accumulated rows; ``names`` (p,) are used in errors, which are as there."""

    def fit_observations(self, observations: Observations) -> Self:
        return self.fit_factors(observations.factors, observations.names)
