"""Everything least squares needs of any number of samples, in the memory of a few.

The samples of joint j are a matrix ``[W_j | tau_j]`` of p + 1 columns. Its R factor has the same normal
equations and the same singular values, whatever the number of rows, so blocks of rows are folded into it one
after the other. One factor per joint allows any weighting of the joints afterwards, and joint j keeps only
the columns of the links beyond it.

A block's own R factor comes from the Cholesky factor of its Gram matrix, columns of length one, at four times
the speed of Householder reflections. That squares the condition number, so it is done only where the
squared one leaves half of the digits; other blocks, among them all without noise, go through Householder QR.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy
from numba import njit
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]

_WELL_CONDITIONED = 1e-4
"""Least diagonal element of an R factor, columns of length one, that a Cholesky factor is trusted with: its
relative error is then about 1e-16 / 1e-4**2."""


class JointFactors:
    """R factors of the observations of n joints.

    Attributes
    ----------
    n_joints, n_parameters : n and p.
    n_rows : samples folded in so far, or what they still count for where older ones are forgotten.
    """

    def __init__(self, n_joints: int, n_parameters: int) -> None:
        self.n_joints = n_joints
        self.n_parameters = n_parameters
        self.n_rows = 0
        self._used: list[NDArray[np.intp]] = [np.empty(0, np.intp)] * n_joints
        self._factors: list[Array] = [np.empty((0, 0))] * n_joints  # of the used columns, the effort last

    @classmethod
    def of(cls, columns: Array, effort: Array) -> Self:
        """Return the factors of samples that fit in memory; arguments as of ``add``."""
        if columns.ndim != 3:
            raise InputError(f"columns have shape {columns.shape}, expected (samples, joints, parameters)")
        factors = cls(columns.shape[1], columns.shape[2])
        factors.add(columns, effort)
        return factors

    @classmethod
    def of_triangles(cls, triangles: Array, n_rows: int) -> Self:
        """Return the factors that upper triangles (n, p + 1, p + 1), one of ``[W_j | tau_j]`` per joint, are."""
        factors = cls(len(triangles), triangles.shape[1] - 1)
        factors.n_rows = n_rows
        for j, triangle in enumerate(triangles):
            acting = np.flatnonzero(triangle.any(axis=1))
            factors._used[j] = np.flatnonzero(triangle[:, :-1].any(axis=0))
            factors._factors[j] = triangle[np.ix_(acting, np.append(factors._used[j], factors.n_parameters))]
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
        total = np.empty((self.n_joints, self.n_parameters))
        _absolute_sums(np.ascontiguousarray(columns), total)
        if not (np.all(np.isfinite(total)) and np.all(np.isfinite(effort))):
            raise InputError("the regressor or the torque holds values that are not finite")
        for j in range(self.n_joints):
            self._use(j, np.flatnonzero(total[j]))
            used = self._used[j]
            rows = np.empty((used.size + 1, len(effort)))
            _gather(columns, j, used, rows)
            rows[-1] = effort[:, j]
            triangle = _triangle(rows.T)
            self._factors[j] = r_factor(np.vstack([self._factors[j], triangle]))
        self.n_rows += len(effort)

    def of_joint(self, joint: int) -> tuple[Array, Array]:
        """Return matrix (r, p) and right-hand side (r,) of one joint."""
        factor = self._factors[joint]
        matrix = np.zeros((len(factor), self.n_parameters))
        matrix[:, self._used[joint]] = factor[:, :-1]
        return matrix, factor[:, -1]

    def stacked(self, weights: Array | None = None) -> tuple[Array, Array]:
        """Return matrix (r, p) and right-hand side (r,) of the joints together, each times its weight."""
        scale = np.ones(self.n_joints) if weights is None else weights
        parts = [self.of_joint(j) for j in range(self.n_joints)]
        matrix = np.vstack([rows * w for (rows, _), w in zip(parts, scale, strict=True)])
        return matrix, np.concatenate([effort * w for (_, effort), w in zip(parts, scale, strict=True)])

    def squared_residuals(self, coefficients: Array) -> Array:
        """Return the sum of squared residuals (n,) of each joint for parameters (p,)."""
        sums = np.zeros(self.n_joints)
        for j, (used, factor) in enumerate(zip(self._used, self._factors, strict=True)):
            sums[j] = np.sum((factor @ np.append(-coefficients[used], 1.0)) ** 2) if len(factor) else 0.0
        return sums

    def _use(self, joint: int, columns: NDArray[np.intp]) -> None:
        """Widen a joint's factor by columns that act on it for the first time."""
        before, old = self._used[joint], self._factors[joint]
        after = np.union1d(before, columns)
        if after.size > before.size or not old.shape[1]:
            wider = np.zeros((len(old), after.size + 1))
            if len(old):
                wider[:, np.searchsorted(after, before)] = old[:, :-1]
                wider[:, -1] = old[:, -1]
            self._used[joint], self._factors[joint] = after, wider


def r_factor(rows: Array) -> Array:
    """Return the R factor of rows (m, k) by Householder reflections: (min(m, k), k)."""
    return np.asarray(np.linalg.qr(rows, mode="r"))


def _triangle(rows: Array) -> Array:
    """Return an R factor of rows (m, k) in Fortran order."""
    upper = scipy.linalg.blas.dsyrk(1.0, rows, trans=1)
    size = np.sqrt(np.diag(upper))
    if len(rows) > rows.shape[1] and np.all(size > 0.0):
        triangle, failed = scipy.linalg.lapack.dpotrf(upper / size / size[:, None], clean=1)
        if not failed and np.diag(triangle).min() > _WELL_CONDITIONED:
            return np.asarray(triangle * size)
    return r_factor(rows)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"}, nogil=True)
def _absolute_sums(columns: Array, out: Array) -> None:
    """Sum up |columns| (m, n, p) over samples: zero where unused, not finite where any value is not."""
    out[:] = 0.0
    for k in range(columns.shape[0]):
        for j in range(columns.shape[1]):
            for i in range(columns.shape[2]):
                out[j, i] += abs(columns[k, j, i])


@njit(cache=True, error_model="numpy", nogil=True)
def _gather(columns: Array, joint: int, used: NDArray[np.intp], out: Array) -> None:
    """Copy the used columns of a joint to out (k, m), one after the other."""
    for start in range(0, columns.shape[0], 64):
        stop = min(start + 64, columns.shape[0])
        for i in range(used.size):
            for k in range(start, stop):
                out[i, k] = columns[k, joint, used[i]]
