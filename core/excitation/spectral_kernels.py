"""Soft extremes of the spectrum of a positive definite matrix, with their gradients, by matrix products alone."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from core.dynamics.chain_arrays import Array

_compiled = njit(cache=True, error_model="numpy", nogil=True)

_SQUARINGS_UNSCALED = 3
"""A matrix of trace one may be squared so often before its trace underflows: n^-7 at worst."""


@_compiled
def _subtract(row: Array, factor: float, other: Array) -> None:
    for c in range(row.size):
        row[c] -= factor * other[c]


@_compiled
def _invert(matrix: Array, out: Array) -> bool:
    """Write the inverse of a positive definite matrix; False = it is not, to rounding. Rows only, so that loops are
    over neighbours in memory."""
    n = matrix.shape[0]
    upper = matrix.copy()  # becomes U of U^T U
    for k in range(n):
        pivot = upper[k, k]
        if not pivot > 0.0:
            return False
        upper[k, k:] *= 1.0 / math.sqrt(pivot)
        for i in range(k + 1, n):
            _subtract(upper[i, i:], upper[k, i], upper[k, i:])
    inverse = np.zeros((n, n))  # of U
    for i in range(n - 1, -1, -1):
        scale = 1.0 / upper[i, i]
        inverse[i, i] = scale
        for k in range(i + 1, n):
            _subtract(inverse[i, k:], upper[i, k] * scale, inverse[k, k:])
    np.dot(inverse, inverse.T, out)
    return True


@_compiled
def _trace(matrix: Array) -> float:
    total = 0.0
    for i in range(matrix.shape[0]):
        total += matrix[i, i]
    return total


@_compiled
def _power(matrix: Array, squarings: int, power: Array, scratch: Array) -> float:
    """Write ``matrix^(2^squarings) exp(-log)`` and return log."""
    trace = _trace(matrix)
    log = math.log(trace)
    power[:] = matrix / trace
    for done in range(squarings):
        np.dot(power, power, scratch)
        log *= 2.0
        if done % _SQUARINGS_UNSCALED == _SQUARINGS_UNSCALED - 1:
            trace = _trace(scratch)
            log += math.log(trace)
            scratch /= trace
        power[:] = scratch
    return log


@_compiled
def soft_log_condition(matrix: Array, squarings: int, gradient: Array) -> float:
    """Return the smoothed log condition number and write its gradient (p, p); infinite where the matrix is not
    positive definite to rounding.

    With s = 2^squarings, ``sum lambda^(s+1) = trace(M^s M)`` and ``sum lambda^-(s-1) = trace(M^-s M)``.
    """
    n = matrix.shape[0]
    inverse = np.empty((n, n))
    if not _invert(matrix, inverse):
        return math.inf
    s = 2.0**squarings
    scratch = np.empty((n, n))
    high = np.empty((n, n))
    high_log = _power(matrix, squarings, high, scratch)
    low = np.empty((n, n))
    low_log = _power(inverse, squarings, low, scratch)
    high_sum, low_sum = 0.0, 0.0
    for a in range(n):
        for b in range(n):
            high_sum += high[a, b] * matrix[a, b]
            low_sum += low[a, b] * matrix[a, b]
    for a in range(n):
        for b in range(n):
            gradient[a, b] = 0.5 * (high[a, b] / high_sum - low[a, b] / low_sum)
    return 0.5 * ((math.log(high_sum) + high_log) / (s + 1.0) + (math.log(low_sum) + low_log) / (s - 1.0))
