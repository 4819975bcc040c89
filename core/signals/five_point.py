"""The five-point cubic smoother, run again and again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def _smooth(rows: Array, passes: int) -> None:
    """Smooth each row of (k, N), N >= 5, in place."""
    n = rows.shape[1]
    before = np.empty(n)
    for row in rows:
        for _ in range(passes):
            before[:] = row
            x = before
            row[0] = (69.0 * x[0] + 4.0 * x[1] - 6.0 * x[2] + 4.0 * x[3] - x[4]) / 70.0
            row[1] = (2.0 * x[0] + 27.0 * x[1] + 12.0 * x[2] - 8.0 * x[3] + 2.0 * x[4]) / 35.0
            for i in range(2, n - 2):
                row[i] = (-3.0 * (x[i - 2] + x[i + 2]) + 12.0 * (x[i - 1] + x[i + 1]) + 17.0 * x[i]) / 35.0
            row[n - 2] = (2.0 * x[n - 1] + 27.0 * x[n - 2] + 12.0 * x[n - 3] - 8.0 * x[n - 4] + 2.0 * x[n - 5]) / 35.0
            row[n - 1] = (69.0 * x[n - 1] + 4.0 * x[n - 2] - 6.0 * x[n - 3] + 4.0 * x[n - 4] - x[n - 5]) / 70.0


@dataclass(frozen=True)
class FivePointCubic:
    """Each sample becomes the value of the cubic fitted to it and its two neighbours on either side.

    Linear, without phase, exact for cubics; a filter that signals and regressor columns can pass alike. Passes narrow
    its band slowly: at 100 Hz, 100 passes halve the amplitude of 8.5 Hz.

    Attributes
    ----------
    passes : how often it is run (source C of the methods: 100).
    rate : Hz.
    """

    passes: int
    rate: float

    @property
    def cutoff(self) -> float:
        """Hz at which all passes together halve the amplitude."""
        once = 0.5 ** (1.0 / self.passes)
        # the response (17 + 24 cos w - 6 cos 2w) / 35 of one pass, solved for w
        return float(np.arccos(1.0 - np.sqrt(35.0 * (1.0 - once) / 12.0)) * self.rate / (2.0 * np.pi))

    @cached_property
    def _response(self) -> Array:
        """The share of an impulse that is still to come, by distance from it, largest first."""
        reach = 2 * self.passes + 5
        impulse = np.zeros((1, 2 * reach + 1))
        impulse[0, reach] = 1.0
        _smooth(impulse, self.passes)
        return np.asarray(np.cumsum(np.abs(impulse[0, reach:])[::-1])[::-1])

    def settling(self, fraction: float) -> int:
        """Return after how many samples less than ``fraction`` of an impulse is to come."""
        return int(np.argmax(self._response < fraction))

    def apply(self, values: Array) -> Array:
        """Return ``values`` (N, ...), N >= 5, smoothed along the first axis."""
        columns = np.ascontiguousarray(values.reshape(len(values), -1).T, dtype=np.float64)
        if columns is values or np.shares_memory(columns, values):
            columns = columns.copy()
        _smooth(columns, self.passes)
        return np.ascontiguousarray(columns.T).reshape(values.shape)

    def to_document(self) -> dict[str, float | str]:
        return {"name": "five_point_cubic", "passes": self.passes}
