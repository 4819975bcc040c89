"""Total least squares: errors in the regressor as well as in the torque."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import IdentificationError
from core.estimators.estimator import FactorEstimator
from core.estimators.joint_factors import JointFactors, r_factor
from core.estimators.least_squares import WeightedLeastSquares
from core.estimators.linear import residual_std

Array = NDArray[np.float64]


class TotalLeastSquares(FactorEstimator):
    """The parameters that least corrections of regressor and torque together make exact.

    Joints are weighted like in weighted least squares. Every column may be corrected in proportion to its
    length; ``column_error`` says how its relative error compares with that of the torque. Encoders are far
    better than currents, so it is small. Source: Van Huffel and Vandewalle 1991.

    Parameters
    ----------
    column_error : relative error of a regressor column over the relative error of the torque; 0 is weighted
        least squares.
    exact : names of columns without error, such as the constant one of an offset.
    """

    def __init__(self, column_error: float = 0.1, exact: Sequence[str] = ()) -> None:
        self.column_error = column_error
        self.exact = exact

    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        self._require(self.column_error >= 0.0, "column_error must not be negative")
        start = WeightedLeastSquares().fit_factors(factors, names)
        matrix, effort = factors.stacked(start.weights_)
        known = set(self.exact)
        sure = np.array([name in known for name in (names or [""] * factors.n_parameters)])
        if len(known) != sure.sum():
            raise IdentificationError(
                f"exact columns {', '.join(sorted(known))} are not all among the parameters", code="parameter-unknown"
            )
        length = np.linalg.norm(matrix, axis=0)
        error = np.where(sure, 0.0, self.column_error) * length
        free = np.flatnonzero(error > 0.0)
        coef = start.coef_
        if free.size:
            coef = _solve_total(matrix, effort, error, free, float(np.linalg.norm(effort)))
        self.coef_ = coef
        self.weights_ = start.weights_
        squared = factors.squared_residuals(coef)
        self.residual_std_ = residual_std(squared, factors)
        # first order: the normal matrix without what the columns' own errors add to it
        noise = float(np.sum((matrix @ coef - effort) ** 2)) / (1.0 + np.sum((error * coef) ** 2) / _square(effort))
        normal = matrix.T @ matrix - np.diag(error**2) * noise / _square(effort)
        inverse = np.linalg.inv(normal)
        self.maps_ = start.weights_[:, None, None] ** 2 * inverse
        scatter = float(np.mean((self.residual_std_ * start.weights_) ** 2))
        self.covariance_ = inverse @ (matrix.T @ matrix) @ inverse * scatter
        self.n_rows_, self.n_iter_ = factors.n_rows, 1
        self.condition_number_ = start.condition_number_
        self.normalised_condition_number_ = start.normalised_condition_number_
        return self


def _square(values: Array) -> float:
    return float(values @ values)


def _solve_total(matrix: Array, effort: Array, error: Array, free: NDArray[np.intp], size: float) -> Array:
    """Golub, Hoffman and Stewart 1987: eliminate the exact columns, then the smallest singular vector."""
    p = matrix.shape[1]
    exact = np.setdiff1d(np.arange(p), free)
    order = np.concatenate([exact, free])
    triangle = r_factor(np.column_stack([matrix[:, order], effort]))
    scale = np.append(error[free], size)
    part = triangle[exact.size :, exact.size :] / scale
    _, values, directions = np.linalg.svd(part)
    last = directions[-1]
    if abs(last[-1]) < 1e-8 or (values.size > 1 and values[-1] > (1.0 - 1e-12) * values[-2] > 0.0):
        raise IdentificationError(
            "total least squares has no solution here: some combination of columns is weaker than the errors "
            "allowed in them; excite the robot more, or lower column_error",
            code="total-least-squares-undefined",
        )
    coef = np.empty(p)
    coef[free] = -last[:-1] / error[free] / (last[-1] / size)
    top = triangle[: exact.size]
    rest = top[:, -1] - top[:, exact.size : -1] @ coef[free]
    coef[exact] = np.linalg.solve(top[:, : exact.size], rest) if exact.size else rest
    return coef
