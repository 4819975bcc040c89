"""Which parameters a set of observations leaves undetermined, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TAKES_PART = 0.3
"""A parameter belongs to a direction when its share is at least this much of the largest one's."""


def undetermined(matrix: Array, names: Sequence[str], limit: float) -> list[str]:
    """Return the parameters along which the singular values fall below the largest / ``limit``.

    Parameters
    ----------
    matrix : (r, p); raw, or with normalised columns where units should not matter.
    names : (p,).
    limit : condition number that is still good.
    """
    _, size, directions = np.linalg.svd(matrix)
    values = np.zeros(len(names))
    values[: size.size] = size
    found: set[int] = set()
    for direction in directions[values * limit < values[0]]:
        share = np.abs(direction)
        found.update(np.flatnonzero(share >= _TAKES_PART * share.max()).tolist())
    return [names[i] for i in sorted(found)]
