"""Moving columns between the regressor of a robot and its observation matrix, in one pass each."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.chain_arrays import Array

_compiled = njit(cache=True, error_model="numpy", nogil=True)


@_compiled
def take_columns(full: Array, chosen: NDArray[np.intp]) -> Array:
    """Return ``full[:, :, chosen]`` of full (N, r, P)."""
    out = np.empty((full.shape[0], full.shape[1], chosen.size))
    for k in range(full.shape[0]):
        for j in range(full.shape[1]):
            for c in range(chosen.size):
                out[k, j, c] = full[k, j, chosen[c]]
    return out


@_compiled
def spread_columns(weights: Array, chosen: NDArray[np.intp], count: int) -> Array:
    """Return (N, r, count), zero but for ``[:, :, chosen] = weights`` (N, r, chosen)."""
    out = np.zeros((weights.shape[0], weights.shape[1], count))
    for k in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            for c in range(chosen.size):
                out[k, j, chosen[c]] = weights[k, j, c]
    return out


@_compiled
def widen(base: Array, more: int) -> Array:
    """Return (N, r, b + more): base (N, r, b), and zeros to its right."""
    rows, n, b = base.shape
    out = np.zeros((rows, n, b + more))
    for k in range(rows):
        for j in range(n):
            for c in range(b):
                out[k, j, c] = base[k, j, c]
    return out


@_compiled
def put_own_columns(own: Array, joints: NDArray[np.intp], places: NDArray[np.intp], out: Array) -> None:
    """Write own (N k, l), the columns of k joints, to ``out[:, joints, places]`` (N, n, p); places are (k, l)."""
    for k in range(out.shape[0]):
        for i in range(joints.size):
            for c in range(places.shape[1]):
                out[k, joints[i], places[i, c]] = own[k * joints.size + i, c]


@_compiled
def add_own_slopes(
    weights: Array, slopes: Array, joints: NDArray[np.intp], places: NDArray[np.intp], out: Array
) -> None:
    """Add ``sum weights[:, joints, places] slopes`` over the columns to out (N, n); slopes are (N k, l)."""
    for k in range(out.shape[0]):
        for i in range(joints.size):
            total = 0.0
            for c in range(places.shape[1]):
                total += weights[k, joints[i], places[i, c]] * slopes[k * joints.size + i, c]
            out[k, joints[i]] += total
