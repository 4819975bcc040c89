"""Least squares of which some parameters may not be negative (Lawson and Hanson 1974)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from core.estimators.joint_factors import r_factor

Array = NDArray[np.float64]

_RIDGE = 1e-6
"""Weight, beside columns of length one, of every parameter being zero: it decides where data do not."""


def nonnegative_least_squares(columns: Array, target: Array, nonnegative: Sequence[int]) -> tuple[Array, float]:
    """Return parameters (k,) for columns (N, k) and target (N,), and the sum of squared residuals.

    Parameters
    ----------
    nonnegative : indices of those that may not be negative. The others enter as a difference of two that may not.
    """
    k = columns.shape[1]
    size = np.linalg.norm(columns, axis=0)
    size[size == 0.0] = 1.0
    triangle = r_factor(np.column_stack([columns / size, target]))
    free = [i for i in range(k) if i not in set(nonnegative)]
    both = np.hstack([triangle[:, :k], -triangle[:, free]])
    ridge = _RIDGE * np.eye(both.shape[1])
    rows = np.vstack([both, ridge])
    right = np.append(triangle[:, k], np.zeros(len(ridge)))
    parts, _ = scipy.optimize.nnls(rows, right)
    scaled = parts[:k].copy()
    scaled[free] -= parts[k:]
    residual = triangle[:, k] - triangle[:, :k] @ scaled
    return scaled / size, float(residual @ residual)
