"""Products of an observation matrix with itself and with what is symmetric, without the zeros in it.

A joint's torque depends on the links beyond it, on its own rotor and its own friction: more than half of the
observation matrix of an arm is zeros. Block j holds the other columns of row j of every sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.dynamics.chain_arrays import Array

_compiled = njit(cache=True, error_model="numpy", nogil=True)


class Blocks(NamedTuple):
    """Which columns the rows of a sample have: row j those in ``column[first[j] : first[j + 1]]``."""

    first: NDArray[np.int64]
    column: NDArray[np.int64]


@_compiled
def _block(W: Array, blocks: Blocks, j: int) -> Array:
    column = blocks.column[blocks.first[j] : blocks.first[j + 1]]
    out = np.empty((W.shape[0], column.size))
    for k in range(W.shape[0]):
        row = W[k, j]
        for c in range(column.size):
            out[k, c] = row[column[c]]
    return out


@_compiled
def add_gram(W: Array, blocks: Blocks, factor: float, out: Array) -> None:
    """Add ``factor W^T W`` to out (p, p), for W (N, r, p)."""
    for j in range(W.shape[1]):
        column = blocks.column[blocks.first[j] : blocks.first[j + 1]]
        block = _block(W, blocks, j)
        own = np.dot(block.T, block)
        for a in range(column.size):
            row = out[column[a]]
            for c in range(column.size):
                row[column[c]] += factor * own[a, c]


@_compiled
def times(W: Array, blocks: Blocks, factor: float, slope: Array, out: Array) -> None:
    """Write ``factor W slope`` (N, r, p) where W has elements, and nothing elsewhere; ``slope`` is (p, p)."""
    for j in range(W.shape[1]):
        column = blocks.column[blocks.first[j] : blocks.first[j + 1]]
        own = np.empty((column.size, column.size))
        for a in range(column.size):
            row = slope[column[a]]
            for c in range(column.size):
                own[a, c] = factor * row[column[c]]
        product = np.dot(_block(W, blocks, j), own)
        for k in range(W.shape[0]):
            for c in range(column.size):
                out[k, j, column[c]] = product[k, c]
