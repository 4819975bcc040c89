"""The zero-phase low-pass filter that torque, kinematics and regressor columns pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log
from typing import Protocol

import numpy as np
import scipy
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NOTHING = 1e-150
"""What a column that stays at zero decays to counts as zero before its arithmetic becomes denormal, tenfold slower."""


class LowPass(Protocol):
    """A linear filter without phase, which torque and the columns of its regressor pass alike."""

    @property
    def rate(self) -> float:
        """Hz of the signals it is made for."""
        ...

    @property
    def cutoff(self) -> float:
        """Hz at which it halves the amplitude."""
        ...

    def settling(self, fraction: float) -> int:
        """Return after how many samples a transient has decayed to ``fraction`` of itself."""
        ...

    def apply(self, values: Array) -> Array:
        """Return ``values`` (N, ...) filtered along the first axis."""
        ...

    def to_document(self) -> dict[str, float | str]:
        """Return its name and parameters, JSON-serialisable."""
        ...


@dataclass(frozen=True)
class ZeroPhaseButterworth:
    """A Butterworth low-pass filter run forward and backward along the first axis.

    Run twice, it attenuates by 6 dB at its cutoff.

    Attributes
    ----------
    order : of one run.
    cutoff, rate : Hz.
    """

    order: int
    cutoff: float
    rate: float

    @cached_property
    def _sections(self) -> Array:
        return np.asarray(scipy.signal.butter(self.order, self.cutoff, fs=self.rate, output="sos"))

    @cached_property
    def _steady(self) -> Array:
        """State of the sections (s, 2) for a constant input of one; `signal.sosfiltfilt` makes it anew each time."""
        return np.asarray(scipy.signal.sosfilt_zi(self._sections))

    @cached_property
    def _slowest(self) -> float:
        return float(np.abs(scipy.signal.butter(self.order, self.cutoff, fs=self.rate, output="zpk")[1]).max())

    def settling(self, fraction: float) -> int:
        """Return after how many samples a transient has decayed to ``fraction`` of itself."""
        return ceil(log(fraction) / log(self._slowest))

    def apply(self, values: Array) -> Array:
        """Return ``values`` (N, ...) filtered along the first axis.

        Both ends are continued by a point reflection for the time that transients take; what lies within
        ``settling(...)`` of an end depends on that continuation.
        """
        rows = values.reshape(len(values), -1)
        padding = min(self.settling(0.01), len(rows) - 1)
        extended = np.empty((len(rows) + 2 * padding, rows.shape[1]))
        extended[:padding] = 2.0 * rows[0] - rows[padding:0:-1]
        extended[padding : padding + len(rows)] = rows
        extended[padding + len(rows) :] = 2.0 * rows[-1] - rows[-2 : -padding - 2 : -1]
        _run(self._sections, self._steady, extended)
        _run(self._sections, self._steady, extended[::-1])
        return extended[padding : padding + len(rows)].reshape(values.shape)

    def to_document(self) -> dict[str, float | str]:
        return {"name": "butterworth", "order": self.order, "cutoff": self.cutoff}


@njit(cache=True, error_model="numpy", fastmath={"contract"}, nogil=True)
def _run(sections: Array, steady: Array, rows: Array) -> None:
    """Filter ``rows`` (N, k) forward in place, as if the first row had been there for ever.

    The columns run side by side: each step of a section waits for the one before it, columns do not.
    """
    n, k = rows.shape
    state = np.empty((len(sections), 2, k))
    for i in range(len(sections)):
        for c in range(k):
            state[i, 0, c] = steady[i, 0] * rows[0, c]
            state[i, 1, c] = steady[i, 1] * rows[0, c]
    for t in range(n):
        for i in range(len(sections)):
            b0, b1, b2, _, a1, a2 = sections[i]
            for c in range(k):
                value = rows[t, c]
                filtered = b0 * value + state[i, 0, c]
                if abs(filtered) < _NOTHING:
                    filtered = 0.0
                state[i, 0, c] = b1 * value - a1 * filtered + state[i, 1, c]
                state[i, 1, c] = b2 * value - a2 * filtered
                rows[t, c] = filtered
