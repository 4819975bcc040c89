"""Sequential identification from the last joint to the first, freezing what is already known.

The rows of the last joint hold only the last link and that joint's friction, and are the least noisy. What
they determine is frozen; the next joint inward then estimates what it adds, and so on. Frozen are directions
in the space of parameters rather than single parameters, since a joint may determine a sum well and its
summands not at all (methods, section 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.estimators.estimator import FactorEstimator
from core.estimators.joint_factors import JointFactors
from core.estimators.linear import check_determined, condition_numbers, residual_std

Array = NDArray[np.float64]

_ROUNDING = 1e-12


class SequentialLeastSquares(FactorEstimator):
    """Least squares joint by joint, distal to proximal.

    Parameters
    ----------
    tolerance : a direction is left to joints further inward when a joint determines it this much worse than
        its best one (columns of length one).

    Attributes
    ----------
    frozen_by_ : (n,) how many directions each joint determined.
    """

    frozen_by_: NDArray[np.intp]

    def __init__(self, tolerance: float = 0.02) -> None:
        self.tolerance = tolerance

    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        check_determined(factors, names)
        n, p = factors.n_joints, factors.n_parameters
        matrix, _ = factors.stacked()
        size = np.linalg.norm(matrix, axis=0)
        coef = np.zeros(p)
        free = np.eye(p)  # orthonormal directions not yet frozen, in units of 1 / size
        maps = np.zeros((n, p, p))
        self.frozen_by_ = np.zeros(n, dtype=np.intp)
        for joint in range(n - 1, -1, -1):
            if not free.shape[1]:
                break
            rows, effort = factors.of_joint(joint)
            own = rows / size
            _, values, directions = np.linalg.svd(own @ free, full_matrices=True)
            least = (self.tolerance if joint else _ROUNDING) * values.max(initial=0.0)
            known = int(np.count_nonzero(values > least))
            taken, rest = directions[:known].T, directions[known:].T
            step = free @ (taken / values[:known] ** 2) @ taken.T @ free.T / size / size[:, None]
            coef = coef + step @ (rows.T @ (effort - rows @ coef))
            maps = maps - np.einsum("ab,jbc->jac", step @ (rows.T @ rows), maps)
            maps[joint] += step
            free = free @ rest
            self.frozen_by_[joint] = known
        self.coef_ = coef
        self.maps_ = maps
        self.residual_std_ = residual_std(factors.squared_residuals(coef), factors)
        self.weights_ = np.ones(n)
        self.covariance_ = np.zeros((p, p))
        for joint in range(n):
            half = factors.of_joint(joint)[0] @ maps[joint].T * self.residual_std_[joint]
            self.covariance_ += half.T @ half
        self.n_rows_, self.n_iter_ = factors.n_rows, n
        self.condition_number_, self.normalised_condition_number_ = condition_numbers(matrix)
        return self
