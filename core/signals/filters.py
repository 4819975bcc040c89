"""The zero-phase low-pass filter that torque, kinematics and regressor columns pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import signal

Array = NDArray[np.float64]


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
        return np.asarray(signal.butter(self.order, self.cutoff, fs=self.rate, output="sos"))

    @cached_property
    def _steady(self) -> Array:
        """State of the sections (s, 2) for a constant input of one; `signal.sosfiltfilt` makes it anew each time."""
        return np.asarray(signal.sosfilt_zi(self._sections))

    @cached_property
    def _slowest(self) -> float:
        return float(np.abs(signal.butter(self.order, self.cutoff, fs=self.rate, output="zpk")[1]).max())

    def settling(self, fraction: float) -> int:
        """Return after how many samples a transient has decayed to ``fraction`` of itself."""
        return ceil(log(fraction) / log(self._slowest))

    def apply(self, values: Array) -> Array:
        """Return ``values`` (N, ...) filtered along the first axis.

        Both ends are continued by a point reflection for the time that transients take; what lies within
        ``settling(...)`` of an end depends on that continuation.
        """
        columns = np.ascontiguousarray(values.reshape(len(values), -1).T)  # the filter runs along memory
        padding = min(self.settling(0.01), len(values) - 1)
        before, after = columns[:, padding:0:-1], columns[:, -2 : -padding - 2 : -1]
        extended = np.hstack([2.0 * columns[:, :1] - before, columns, 2.0 * columns[:, -1:] - after])
        filtered = self._run(self._run(extended)[:, ::-1])[:, ::-1]
        return np.ascontiguousarray(filtered[:, padding : padding + len(values)].T).reshape(values.shape)

    def _run(self, columns: Array) -> Array:
        """Filter forward along the last axis, as if the first value had been there for ever."""
        first = self._steady[:, None, :] * columns[None, :, :1]
        return np.asarray(signal.sosfilt(self._sections, columns, axis=-1, zi=first)[0])

    def to_document(self) -> dict[str, float | str]:
        return {"name": "butterworth", "order": self.order, "cutoff": self.cutoff}
