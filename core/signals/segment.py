"""What preparation makes of a recording: segments ready for regression, and an account of how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.signals.filters import LowPass
from core.signals.motion import JointMotion

Array = NDArray[np.float64]

_ROWS_PER_PERIOD = 10.0


@dataclass(frozen=True)
class Segment:
    """An uninterrupted piece of a recording on a uniform grid, ready for regression.

    Where samples in the middle are left out, several segments share one motion.

    Attributes
    ----------
    recording : name of the recording.
    start : s, controller time of the first grid sample.
    motion : motion on the whole grid.
    effort : (N, n) filtered torque (or current) on the whole grid.
    low_pass : the filter that ``effort`` has passed and every column of the regressor must pass.
    rows : the grid samples that enter the estimate: ends trimmed, decimated to the rate of the settings.
    """

    recording: str
    start: float
    motion: JointMotion
    effort: Array
    low_pass: LowPass
    rows: slice

    @property
    def n_rows(self) -> int:
        return len(range(*self.rows.indices(self.motion.n_samples)))

    @property
    def oversampling(self) -> float:
        """How many rows tell as much as one: a filter leaves no news closer than a tenth of its cutoff's period."""
        spacing = self.motion.period * (self.rows.step or 1)
        return max(1.0, 1.0 / (_ROWS_PER_PERIOD * self.low_pass.cutoff * spacing))

    @property
    def times(self) -> Array:
        """Controller times (n_rows,) of the rows, s."""
        samples = np.arange(self.motion.n_samples, dtype=np.float64)[self.rows]
        return np.asarray(self.start + self.motion.period * samples)


@dataclass(frozen=True)
class Preparation:
    """The segments of one recording and a JSON-serialisable account of how they were made."""

    segments: tuple[Segment, ...]
    account: dict[str, Any]
