"""How far the torque signal lags behind the position signal.

The prediction is shifted, never the measurement: interpolating a noisy torque a second time smooths it, which lowers
the residual at every delay but the one it was sampled at, and so makes a delay of half a sample look good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]

_ROUNDS = 20
_SETTLED = 1e-9
"""s; steps below this end the search."""


@dataclass(frozen=True, eq=False)
class EffortDelay:
    """Delays of n joints; positive where torque lags behind position.

    Attributes
    ----------
    seconds : (n,).
    std : (n,) s, for residuals of the given bandwidth.
    gain : (n,) share by which the residual's RMS falls when the delay is taken out.
    at_bound : (n,) whether it is the longest that was looked for, so that the true one may be longer.
    """

    seconds: Array
    std: Array
    gain: Array
    at_bound: NDArray[np.bool_]

    @property
    def significant(self) -> NDArray[np.bool_]:
        """Which delays (n,) are more than three standard deviations away from none."""
        return np.asarray(np.abs(self.seconds) > 3.0 * self.std)

    def to_document(self) -> dict[str, list[Any]]:
        """Return JSON-serialisable lists."""
        return {name: getattr(self, name).tolist() for name in ("seconds", "std", "gain", "at_bound")}


def estimate_delay(measured: Array, predicted: Array, period: float, bandwidth: float, longest: float) -> EffortDelay:
    """Find the delay d of each joint that minimises ``|measured(t) - predicted(t - d)|``.

    Parameters
    ----------
    measured, predicted : (N, n) uniformly sampled, filtered alike.
    period : s between samples.
    bandwidth : Hz of the filter they have passed: how fast residuals become independent of each other.
    longest : s; delays are sought within +- this.

    Raises
    ------
    InputError
        Shapes differ, or the signals are too short for the longest delay.
    """
    margin = int(np.ceil(longest / period)) + 1
    if measured.shape != predicted.shape or measured.ndim != 2:
        raise InputError(f"measured has shape {measured.shape}, predicted {predicted.shape}")
    if len(measured) < 4 * margin:
        raise InputError(f"{len(measured)} samples are too few to look for delays of {longest:g} s")
    t = period * np.arange(len(measured), dtype=np.float64)
    inner = slice(margin, len(measured) - margin)
    independent = min(1.0, 2.0 * bandwidth * period)
    columns = [
        _one_delay(
            measured[inner, j], scipy.interpolate.CubicSpline(t, predicted[:, j]), t[inner], longest, independent
        )
        for j in range(measured.shape[1])
    ]
    seconds, std, gain = np.array(columns).T
    return EffortDelay(seconds, std, gain, np.abs(seconds) >= longest)


def _one_delay(
    measured: Array, predicted: scipy.interpolate.CubicSpline, t: Array, longest: float, independent: float
) -> tuple[float, float, float]:
    slope = predicted.derivative()
    candidates = np.linspace(-longest, longest, 41)
    delay = float(min(candidates, key=lambda d: float(np.sum((measured - predicted(t - d)) ** 2))))
    for _ in range(_ROUNDS):  # Gauss-Newton
        residual, direction = measured - predicted(t - delay), -slope(t - delay)
        step = float(direction @ residual) / max(float(direction @ direction), np.finfo(np.float64).tiny)
        delay = float(np.clip(delay + step, -longest, longest))
        if abs(step) < _SETTLED:
            break
    residual, direction = measured - predicted(t - delay), slope(t - delay)
    before = measured - predicted(t)
    rms, first = (float(np.sqrt(np.mean(r**2))) for r in (residual, before))
    energy = max(float(direction @ direction) * independent, np.finfo(np.float64).tiny)
    return delay, rms / energy**0.5, 1.0 - rms / first if first > 0.0 else 0.0
