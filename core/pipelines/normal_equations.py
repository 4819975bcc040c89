"""Least squares on normal equations, for costs that are compared many times over.

They square the condition number, which matters to parameters but not to such costs; whatever is kept in the end is
estimated anew from R factors. Columns are brought to length one wherever something is solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_RIDGE = 1e-10
"""Share of each normalised column that keeps nearly dependent ones harmless."""
_WEIGHINGS = 4
"""Weights of joints settle well within as many solutions."""


class Normal(NamedTuple):
    """Least squares in the base parameters: ``theta' N theta - 2 r' theta + c``."""

    N: Array
    r: Array
    c: float

    def plus(self, other: Normal, weight: float) -> Normal:
        return Normal(self.N + weight * other.N, self.r + weight * other.r, self.c + weight * other.c)

    def minimum(self) -> tuple[Array, float]:
        theta = regularised_solution(self.N, self.r)
        return theta, float(self.c - self.r @ theta)


def joint_weights(normals: Sequence[Normal], weights: Array, rows: int) -> tuple[Array, Array]:
    """Return parameters (b,), and the joints' weights (n,) by their residuals over so many rows.

    weights : (n,) to begin with.
    """
    for _ in range(_WEIGHINGS):
        theta, _ = weighted(normals, weights).minimum()
        squared = [float(n.c - 2.0 * n.r @ theta + theta @ n.N @ theta) for n in normals]
        floor = [1e-20 * max(n.c, 1e-20) for n in normals]
        weights = np.array([rows / max(s, f) for s, f in zip(squared, floor, strict=True)])
    return theta, weights


def weighted(normals: Sequence[Normal], weights: Array, like: Normal | None = None) -> Normal:
    """Return the weighted sum, of the size of ``like`` where there is nothing to sum up."""
    first = like or normals[0]
    total = Normal(np.zeros_like(first.N), np.zeros_like(first.r), 0.0)
    for normal, weight in zip(normals, weights, strict=True):
        total = total.plus(normal, float(weight))
    return total


def eliminate(own: Array, cross: Array, rest: Array) -> Normal:
    """Eliminate a joint's friction from its normal equations; ``rest`` is that of ``[W | tau]``."""
    reduced = rest - cross.T @ regularised_solution(own, cross)
    return Normal(reduced[:-1, :-1], reduced[:-1, -1], float(reduced[-1, -1]))


def regularised_solution(matrix: Array, right: Array) -> Array:
    size = np.sqrt(np.diag(matrix))
    size[size == 0.0] = 1.0
    normalised = matrix / np.outer(size, size) + _RIDGE * np.eye(len(matrix))
    scale = size if right.ndim == 1 else size[:, None]
    return np.asarray(np.linalg.solve(normalised, right / scale) / scale)
