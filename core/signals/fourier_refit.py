"""Positions refitted by a Fourier series, whose derivatives are exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

_MISFIT = 0.05
"""Share of a joint's excursion that a series may leave unexplained."""
_NEGLIGIBLE = 1e-3
"""rad (m); no excursion worth fitting."""


@dataclass(frozen=True, eq=False)
class FourierSeries:
    """``q(t) = c0 + sum_k [a_k cos(k w t) + b_k sin(k w t)]`` for n joints.

    Attributes
    ----------
    period : s of the base frequency.
    coefficients : (1 + 2 order, n), first c0, then a_1, b_1, a_2, ...
    residual_rms : (n,) rad (m) that it leaves.
    """

    period: float
    coefficients: Array
    residual_rms: Array

    @property
    def order(self) -> int:
        return (len(self.coefficients) - 1) // 2

    def motion(self, samples: int, step: float) -> JointMotion:
        """Return position and analytic speed and acceleration at ``0, step, 2 step, ...`` s."""
        t = _times(samples, step)
        q, qd, qdd = (_columns(t, self.period, self.order, derivative) @ self.coefficients for derivative in range(3))
        return JointMotion(step, q, qd, qdd)


def fit_fourier(q: Array, step: float, period: float, order: int, name: str) -> FourierSeries:
    """Fit positions (N, n), sampled every ``step`` s, by least squares.

    Parameters
    ----------
    period : s of the base frequency.
    name : of the recording, for messages.

    Raises
    ------
    RecordingError
        The motion is shorter than a period (code ``recording-too-short``), or is no such series
        (``recording-not-periodic``).
    """
    if (len(q) - 1) * step < (1.0 - 1e-6) * period - step:
        raise RecordingError(
            f"{name}: {len(q) * step:.3f} s are less than the period of {period:g} s; no Fourier series can be fitted",
            code="recording-too-short",
        )
    columns = _columns(_times(len(q), step), period, order, 0)
    coefficients = np.asarray(np.linalg.lstsq(columns, q, rcond=None)[0], dtype=np.float64)
    residual = np.asarray(np.sqrt(np.mean((q - columns @ coefficients) ** 2, axis=0)))
    excursion = np.std(q, axis=0)
    wrong = (residual > _MISFIT * excursion) & (excursion > _NEGLIGIBLE)
    if np.any(wrong):
        joint = int(np.argmax(np.where(wrong, residual / np.maximum(excursion, _NEGLIGIBLE), 0.0)))
        raise RecordingError(
            f"{name}: joint {joint + 1} does not follow a Fourier series of order {order} and period {period:g} s: "
            f"{residual[joint] / excursion[joint]:.0%} of its motion are left; check both, and cut off what is not "
            "excitation",
            code="recording-not-periodic",
            joint=joint + 1,
        )
    return FourierSeries(period, coefficients, residual)


def _times(samples: int, step: float) -> Array:
    return step * np.arange(samples, dtype=np.float64)


def _columns(t: Array, period: float, order: int, derivative: int) -> Array:
    columns = np.empty((t.size, 1 + 2 * order))
    columns[:, 0] = 1.0 if derivative == 0 else 0.0
    for k in range(1, order + 1):
        rate = 2.0 * np.pi * k / period
        phase = rate * t + derivative * np.pi / 2.0  # each derivative turns by a quarter
        columns[:, 2 * k - 1] = rate**derivative * np.cos(phase)
        columns[:, 2 * k] = rate**derivative * np.sin(phase)
    return columns
