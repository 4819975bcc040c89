"""Samples that are not what the robot did: outliers, frozen values, missing samples. Marked, never removed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from core.recordings.recording import Recording

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_NEIGHBOURS = 5
"""Samples on either side that a value is compared with."""
_DEVIATIONS = 12.0
"""Robust standard deviations beyond which a value is an outlier; friction and contact make tails of their own."""
_MAD_TO_STD = 1.4826
_MOVING = 0.05
"""rad/s (m/s); a robot faster than this does not repeat its positions."""
_LONG_STEP = 1.5
"""Median steps between stamps beyond which a sample is missing."""


@dataclass(frozen=True, eq=False)
class Marks:
    """What is odd in a recording.

    Attributes
    ----------
    outliers : (N, n) efforts far off their neighbours, once only.
    frozen : (N,) samples that repeat the one before in every position and effort, though the robot moves.
    missing : samples that the stamps leave room for.
    """

    outliers: Mask
    frozen: Mask
    missing: int

    @property
    def any(self) -> Mask:
        """Samples (N,) marked for any reason."""
        return np.asarray(self.frozen | self.outliers.any(axis=1))

    def to_document(self) -> dict[str, Any]:
        """Return counts, JSON-serialisable; outliers joint by joint."""
        return {
            "outliers": self.outliers.sum(axis=0).tolist(),
            "frozen": int(self.frozen.sum()),
            "missing": self.missing,
            "samples": int(self.any.sum()),
        }


def mark_samples(recording: Recording, effort: Array) -> Marks:
    """Mark the samples of a recording and its effort (N, n) that are not what the robot did."""
    step = np.diff(recording.t)
    usual = float(np.median(step))
    missing = int(np.rint(step[step > _LONG_STEP * usual] / usual - 1.0).sum())
    return Marks(mark_outliers(effort), mark_frozen(recording, effort), missing)


def mark_outliers(values: Array) -> Mask:
    """Mark values (N, n) that lie off the median of their neighbourhood (Hampel 1974).

    The scale is that of the whole column, so that a quiet stretch does not make outliers of its own noise; a column
    that hardly ever leaves its median has none.
    """
    width = 2 * _NEIGHBOURS + 1
    off = np.abs(values - median_filter(values, size=(width, 1), mode="nearest"))
    scale = _MAD_TO_STD * np.median(off, axis=0)
    typical = np.sqrt(np.mean(np.minimum(off, np.quantile(off, 0.95, axis=0)) ** 2, axis=0))
    limit = np.where(typical > 0.0, _DEVIATIONS * np.maximum(scale, typical), np.inf)
    return np.asarray(off > limit)


def mark_frozen(recording: Recording, effort: Array) -> Mask:
    """Mark samples (N,) that repeat all positions and efforts of the sample before while a joint moves."""
    frozen = np.zeros(recording.t.size, dtype=np.bool_)
    signals = np.hstack([recording.q, effort])
    repeated = (signals[1:] == signals[:-1]).all(axis=1)
    around = np.convolve(np.abs(recording.rates()).max(axis=1), np.ones(width := 2 * _NEIGHBOURS + 1) / width, "same")
    frozen[1:] = repeated & (around[1:] > _MOVING)
    return frozen
