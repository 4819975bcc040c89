"""What is judged: measured and predicted torque along one motion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PredictedMotion:
    """Measured and predicted torque of an uninterrupted motion.

    Attributes
    ----------
    recording : name of the recording it is a part of.
    times : (N,) s, controller time.
    measured, predicted : (N, n) torque or current.
    moving : (N, n) which joint moves in which sample.
    bracket : least and largest torque (N, n) at which a standing joint stays where it is, or None.
    velocity : (N, n) rad/s (m/s), or None where it is not known.
    bandwidth : Hz that torque was low-passed to, or None: below it residuals can be white.
    """

    recording: str
    times: Array
    measured: Array
    predicted: Array
    moving: NDArray[np.bool_]
    bracket: tuple[Array, Array] | None = None
    velocity: Array | None = None
    bandwidth: float | None = None
