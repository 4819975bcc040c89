"""Cumulative sums that tell a lasting change from noise (Page 1954), many at a time."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from core.errors import InputError

Array = NDArray[np.float64]

_OVERSHOOT = 1.166
"""By how much a random walk of unit steps overshoots, twice over (Siegmund 1985)."""


def average_run_length(threshold: float, allowance: float) -> float:
    """Return after how many values without a change a two-sided sum trips on average (Siegmund 1985, chapter 2).

    Parameters
    ----------
    threshold, allowance : h and k of the sum, in standard deviations of a value.
    """
    reach = threshold + _OVERSHOOT
    one_sided = (np.exp(2.0 * allowance * reach) - 2.0 * allowance * reach - 1.0) / (2.0 * allowance**2)
    return float(0.5 * one_sided)


def threshold_for(run_length: float, allowance: float) -> float:
    """Return the h at which a two-sided sum trips every ``run_length`` values on average, though nothing changes.

    Raises
    ------
    InputError
        The run length is not above 10, or the allowance not above zero.
    """
    if not (run_length > 10.0 and allowance > 0.0):
        raise InputError(f"a run length above 10 and an allowance above 0 are needed, got {run_length}, {allowance}")
    most = 1.0
    while average_run_length(most, allowance) < run_length:
        most *= 2.0
    return float(scipy.optimize.brentq(lambda h: average_run_length(h, allowance) - run_length, 0.0, most))


class Cusum:
    """Two-sided sums of standardised values, one for each of m signals.

    Parameters
    ----------
    allowance : k; the change that is sought, halved, in standard deviations.
    run_length : values between two false alarms of one signal, on average.

    Attributes
    ----------
    threshold : h.
    upper, lower : (m,) the sums now.
    """

    def __init__(self, signals: int, run_length: float, allowance: float = 0.5) -> None:
        self.allowance = allowance
        self.threshold = threshold_for(run_length, allowance)
        self.upper, self.lower = np.zeros(signals), np.zeros(signals)

    @property
    def level(self) -> Array:
        """The larger sum of each signal (m,) as a share of the threshold; from 1 on it has tripped."""
        return np.maximum(self.upper, self.lower) / self.threshold

    def update(self, values: Array) -> NDArray[np.bool_]:
        """Take one value of each signal (m,); NaN says nothing. Return which signals are above the threshold now."""
        given = np.where(np.isnan(values), 0.0, values)
        allowance = np.where(np.isnan(values), 0.0, self.allowance)
        self.upper = np.maximum(self.upper + given - allowance, 0.0)
        self.lower = np.maximum(self.lower - given - allowance, 0.0)
        return np.asarray(self.level >= 1.0)

    def reset(self) -> None:
        self.upper[:] = 0.0
        self.lower[:] = 0.0
