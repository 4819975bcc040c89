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


@_compiled
def add_curvature(slopes: Array, bases: Array, out: Array) -> None:
    """Add ``sum_k sum_c (sum_o S_oc B_o) (sum_o S_oc B_o)^T`` over samples k and limits c to out (n, m, n, m).

    slopes (O, N, C, n) are derivatives of C limits by O signals of n coordinates, bases (O, N, m) those of the signals
    by coefficients. Limits are contracted first, to one (O n, O n) matrix per sample. Only blocks [j, :, i, :] with
    i >= j are written; the others are these transposed.
    """
    orders, samples, limits, n = slopes.shape
    row, gram = np.empty(orders * n), np.empty((orders * n, orders * n))
    half = np.empty((orders, bases.shape[2]))
    for s in range(samples):
        gram[:] = 0.0
        for c in range(limits):
            for o in range(orders):
                for j in range(n):
                    row[o * n + j] = slopes[o, s, c, j]
            for a in range(orders * n):
                for b in range(orders * n):
                    gram[a, b] += row[a] * row[b]
        for j in range(n):
            for i in range(j, n):
                _add_block(gram, j, i, bases[:, s], half, out[j, :, i])


@_compiled
def _add_block(gram: Array, j: int, i: int, basis: Array, half: Array, out: Array) -> None:
    """Add to out (m, m) what coordinates j and i of one sample bring, with its basis (O, m)."""
    orders, m = basis.shape
    n = gram.shape[0] // orders
    half[:] = 0.0
    for p in range(orders):
        for o in range(orders):
            for u in range(m):
                half[p, u] += gram[o * n + j, p * n + i] * basis[o, u]
    for p in range(orders):
        for u in range(m):
            for v in range(m):
                out[u, v] += half[p, u] * basis[p, v]
