"""Sequential identification from the last joint to the first, freezing what is already known.

The rows of the last joint hold only the last link and that joint's friction, and are the least noisy. What
they determine is frozen; the next joint inward then estimates what it adds, and so on. Frozen are directions
in the space of parameters rather than single parameters, since a joint may determine a sum well and its
summands not at all (methods, section 6). Directions are measured by the torque they make in all joints
together, which needs no units; what a joint hardly feels of such a direction, it must not decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.estimators.estimator import FactorEstimator
from core.estimators.joint_factors import JointFactors, r_factor
from core.estimators.linear import check_determined, condition_numbers, residual_std

Array = NDArray[np.float64]

_ROUNDING = 1e-12


class SequentialLeastSquares(FactorEstimator):
    """Least squares joint by joint, distal to proximal.

    Parameters
    ----------
    least_share : a direction is left to joints further inward when less than this share of the torque it makes
        in all joints (RMS) shows in a joint itself, as errors of that joint would be enlarged by its inverse.

    Attributes
    ----------
    frozen_by_ : (n,) how many directions each joint determined.
    """

    frozen_by_: NDArray[np.intp]

    def __init__(self, least_share: float = 0.3) -> None:
        self.least_share = least_share

    def fit_factors(self, factors: JointFactors, names: Sequence[str] | None = None) -> Self:
        self._require(0.0 < self.least_share < 1.0, "least_share must lie between 0 and 1")
        check_determined(factors, names)
        n, p = factors.n_joints, factors.n_parameters
        matrix, _ = factors.stacked()
        size = np.linalg.norm(matrix, axis=0)
        per_torque = np.linalg.inv(r_factor(matrix / size)) / size[:, None]
        coef = np.zeros(p)
        free = per_torque  # directions not yet frozen, orthonormal in the torque of all joints
        maps = np.zeros((n, p, p))
        self.frozen_by_ = np.zeros(n, dtype=np.intp)
        for joint in range(n - 1, -1, -1):
            if not free.shape[1]:
                break
            rows, effort = factors.of_joint(joint)
            _, values, directions = np.linalg.svd(rows @ free, full_matrices=True)
            known = int(np.count_nonzero(values > (self.least_share if joint else _ROUNDING)))
            taken, rest = directions[:known].T, directions[known:].T
            step = free @ (taken / values[:known] ** 2) @ taken.T @ free.T
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
