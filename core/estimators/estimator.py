"""What every estimator has in common."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.estimators.joint_factors import JointFactors
from core.estimators.observations import Observations

Array = NDArray[np.float64]


class Influence(NamedTuple):
    """What consecutive samples did to an estimate.

    shifts (m, p) is by how much each sample's error moved the parameters, to first order; residual (m, n); and
    the number of the motion the samples are part of.
    """

    shifts: Array
    residual: Array
    motion: int


class Estimator(ABC):
    """An estimator of parameters that torques are linear in.

    After ``fit`` or ``fit_observations``:

    coef_ : (p,) parameters.
    covariance_ : (p, p) of the parameters, for residuals that are white; see ``coloured_covariance``.
    residual_std_ : (n,) standard deviation of the residual of each joint, degrees of freedom accounted for.
    weights_ : (n,) what the rows of each joint were multiplied by.
    maps_ : (n, p, p); a torque error e of joint j in a sample with columns x (p,) moves the estimate by
        ``maps_[j] @ x * e``.
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

    def fit(self, X: Array, y: Array, names: Sequence[str] | None = None) -> Self:
        """Estimate from a regressor X (samples, n, p) and torques y (samples, n).

        Raises
        ------
        InputError
            A shape is wrong.
        IdentificationError
            As ``fit_observations``.
        """
        return self.fit_observations(Observations.of(X, y, names))

    def predict(self, X: Array) -> Array:
        """Return torques (samples, n) for a regressor X (samples, n, p)."""
        return np.asarray(X @ self.coef_)

    def influence(self, columns: Array, residual: Array) -> Array:
        """Return by how much the errors of each sample move the estimate (m, p), to first order.

        columns are (m, n, p), residual is (m, n).
        """
        return np.asarray(sum((columns[:, j] * residual[:, j, None]) @ m.T for j, m in enumerate(self.maps_)))

    def influences(self, observations: Observations) -> Iterator[Influence]:
        """Yield the influence of all samples that the estimate was made from, block by block."""
        for columns, effort, motion in observations.blocks():
            residual = effort - columns @ self.coef_
            yield Influence(self.influence(columns, residual), residual, motion)

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's parameters."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor by name."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(self._parameter_names()) or 'none'}"
                )
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> tuple[str, ...]:
        parameters = inspect.signature(cls).parameters.values()
        return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"


class FactorEstimator(Estimator):
    """An estimator that needs no more of the rows than their R factors, so any number of them."""

    @abstractmethod
    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        """Estimate from accumulated rows; ``names`` (p,) are used in errors, which are as there."""

    def fit_observations(self, observations: Observations) -> Self:
        return self.fit_factors(observations.factors, observations.names)
