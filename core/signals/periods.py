"""Repeated excitation, averaged over its periods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError

Array = NDArray[np.float64]

_SPREAD = 0.05
"""Share of a joint's excursion by which periods may differ."""
_NEGLIGIBLE = 1e-3
"""rad (m)"""


@dataclass(frozen=True, eq=False)
class AveragedPeriods:
    """The mean period of a signal, and how much the periods differ.

    Attributes
    ----------
    mean : (P, n).
    spread : (P, n) standard deviation of the periods at each phase; that of the mean is ``sqrt(count)`` times smaller.
    count : number of periods.
    """

    mean: Array
    spread: Array
    count: int

    @property
    def rms_spread(self) -> Array:
        """Spread (n,) over all phases: for torque, the floor that no model's residual can go below."""
        return np.asarray(np.sqrt(np.mean(self.spread**2, axis=0)))


def average_periods(values: Array, samples: int, skipped: int = 0) -> AveragedPeriods:
    """Average whole periods of ``samples`` samples of a signal (N, n); what is left at the end is not used.

    Parameters
    ----------
    skipped : periods at the start that are left out, until transients have decayed.

    Raises
    ------
    RecordingError
        Fewer than two whole periods are left (code ``recording-too-short``).
    """
    count = len(values) // samples - skipped
    if count < 2:
        raise RecordingError(
            f"there are {len(values) / samples:.2f} periods, {skipped} of them skipped; averaging needs two whole ones",
            code="recording-too-short",
        )
    stacked = values[skipped * samples : (skipped + count) * samples].reshape(count, samples, -1)
    return AveragedPeriods(stacked.mean(axis=0), stacked.std(axis=0, ddof=1), count)


def check_periodic(q: AveragedPeriods, period: float, name: str) -> None:
    """Refuse positions that do not repeat with the period.

    Raises
    ------
    RecordingError
        Code ``recording-not-periodic``.
    """
    excursion = np.std(q.mean, axis=0)
    wrong = q.rms_spread > _SPREAD * excursion + _NEGLIGIBLE
    if np.any(wrong):
        joint = int(np.argmax(q.rms_spread - _SPREAD * excursion))
        raise RecordingError(
            f"{name}: joint {joint + 1} does not repeat every {period:g} s (its periods differ by "
            f"{q.rms_spread[joint]:.3g} rad); check the period, and cut off what is not excitation",
            code="recording-not-periodic",
            joint=joint + 1,
        )
