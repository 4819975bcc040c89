"""Derivatives of uniformly sampled signals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_WEIGHTS = (45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0)


def central_difference(values: Array, period: float) -> Array:
    """Return the time derivative of ``values`` (N, ...), N >= 2, sampled every ``period`` s.

    Central differences over seven points, exact for polynomials of degree six: the three-point difference
    would attenuate by 13 % at 15 Hz on a 100 Hz grid. The three samples next to each end, which every filter
    blurs anyway, get three-point (at the very ends one-sided) differences.
    """
    derivative = np.gradient(values, period, axis=0)
    reach = len(_WEIGHTS)
    inner = len(values) - 2 * reach
    if inner > 0:
        derivative[reach:-reach] = sum(
            weight / period * (values[reach + k : reach + k + inner] - values[reach - k : reach - k + inner])
            for k, weight in enumerate(_WEIGHTS, 1)
        )
    return derivative
