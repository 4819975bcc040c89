"""Logarithmic barriers, element by element in one pass."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from core.dynamics.chain_arrays import Array

_compiled = njit(cache=True, error_model="numpy", nogil=True)

_PER_LOGARITHM = 8
"""So many rows share one logarithm; their product stays far from the ends of the exponent range."""


@_compiled
def barrier_terms(reached: Array, offset: Array, lower: Array, upper: Array, curvature: Array) -> float:
    """Return ``-sum log slack`` of ``lower < offset + reached < upper``, all (R, n); infinite outside.

    ``reached`` becomes the first derivative of each term in it, ``curvature`` the second.
    """
    rows, n = reached.shape
    product = np.ones(n)
    total = 0.0
    for r in range(rows):
        for j in range(n):
            value = offset[r, j] + reached[r, j]
            above, below = upper[r, j] - value, value - lower[r, j]
            if not (above > 0.0 and below > 0.0):
                return math.inf
            product[j] *= above * below
            inverse_above, inverse_below = 1.0 / above, 1.0 / below
            reached[r, j] = inverse_above - inverse_below
            curvature[r, j] = inverse_above * inverse_above + inverse_below * inverse_below
        if r % _PER_LOGARITHM == _PER_LOGARITHM - 1 or r == rows - 1:
            for j in range(n):
                total -= math.log(product[j])
                product[j] = 1.0
    return total


@_compiled
def largest_step(reached: Array, rate: Array, offset: Array, lower: Array, upper: Array) -> float:
    """Return the step t at which ``offset + reached + t rate``, all (R, n), first leaves its limits."""
    least = math.inf
    for r in range(reached.shape[0]):
        for j in range(reached.shape[1]):
            value, change = offset[r, j] + reached[r, j], rate[r, j]
            if change > 0.0:
                least = min(least, (upper[r, j] - value) / change)
            elif change < 0.0:
                least = min(least, (lower[r, j] - value) / change)
    return least
