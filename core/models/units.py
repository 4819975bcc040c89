"""Numbers of a model that betray another unit: files tell numbers, not units."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.typing import ArrayLike

_LONGEST = 50.0
"""m; three times the longest arm there is, the one on the space station."""
_TURN = 2.0 * pi * 1.01
"""rad; more than a full turn, and what rounding adds to one, places nothing anywhere else."""


def length_problem(lengths: ArrayLike) -> str | None:
    """Say what is wrong with lengths in m, if one is that of no robot."""
    largest = _largest(lengths)
    if abs(largest) <= _LONGEST:
        return None
    return f"{largest:g} m is longer than any robot; lengths are in m, this looks like mm"


def angle_problem(angles: ArrayLike) -> str | None:
    """Say what is wrong with constant angles in rad, if one is more than a turn."""
    largest = _largest(angles)
    if abs(largest) <= _TURN:
        return None
    return f"{largest:g} rad is more than a full turn; angles are in rad, this looks like degrees"


def _largest(values: ArrayLike) -> float:
    flat = np.ravel(np.asarray(values, dtype=np.float64))
    return float(flat[np.argmax(np.abs(flat))])
