"""Everything least squares needs of any number of samples, in the memory of a few.

The samples of joint j are a matrix ``[W_j | tau_j]`` of p + 1 columns. Its R factor has the same normal
equations and the same singular values, whatever the number of rows, so blocks of rows are folded into it one
after the other. That keeps the condition number of W, which the shorter way over ``W^T W`` squares. One
factor per joint allows any weighting of the joints afterwards.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]


class JointFactors:
    """R factors of the observations of n joints.

    Attributes
    ----------
    n_joints, n_parameters : n and p.
    n_rows : samples folded in so far.
    """

    def __init__(self, n_joints: int, n_parameters: int) -> None:
        self.n_joints = n_joints
        self.n_parameters = n_parameters
        self.n_rows = 0
        self._factors = [np.empty((0, n_parameters + 1)) for _ in range(n_joints)]

    @classmethod
    def of(cls, columns: Array, effort: Array) -> Self:
        """Return the factors of samples that fit in memory; arguments as of ``add``."""
        if columns.ndim != 3:
            raise InputError(f"columns have shape {columns.shape}, expected (samples, joints, parameters)")
        factors = cls(columns.shape[1], columns.shape[2])
        factors.add(columns, effort)
        return factors

    def add(self, columns: Array, effort: Array) -> None:
        """Fold in m samples.

        Parameters
        ----------
        columns : (m, n, p) regressor.
        effort : (m, n) measured torque or current.

        Raises
        ------
        InputError
            A shape is wrong, or a value is not finite.
        """
        expected = (len(effort), self.n_joints, self.n_parameters)
        if columns.shape != expected or effort.shape != expected[:2]:
            raise InputError(
                f"columns {columns.shape} and effort {effort.shape} do not fit {self.n_joints} joints and "
                f"{self.n_parameters} parameters"
            )
        if not (np.all(np.isfinite(columns)) and np.all(np.isfinite(effort))):
            raise InputError("the regressor or the torque holds values that are not finite")
        for j, factor in enumerate(self._factors):
            rows = np.vstack([factor, np.column_stack([columns[:, j], effort[:, j]])])
            used = np.flatnonzero(rows.any(axis=0))  # joint j feels only the links beyond it
            triangle = np.linalg.qr(rows[:, used], mode="r")
            self._factors[j] = np.zeros((len(triangle), self.n_parameters + 1))
            self._factors[j][:, used] = triangle
        self.n_rows += len(effort)

    def stacked(self, weights: Array | None = None) -> tuple[Array, Array]:
        """Return matrix (r, p) and right-hand side (r,) of the joints together, each times its weight."""
        scale = np.ones(self.n_joints) if weights is None else weights
        rows = np.vstack([factor * w for factor, w in zip(self._factors, scale, strict=True)])
        return rows[:, :-1], rows[:, -1]

    def squared_residuals(self, coefficients: Array) -> Array:
        """Return the sum of squared residuals (n,) of each joint for parameters (p,)."""
        extended = np.append(-coefficients, 1.0)
        return np.array([np.sum((factor @ extended) ** 2) for factor in self._factors])
