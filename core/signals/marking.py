"""Samples that are not what the robot did: outliers, frozen values, missing samples. Marked, never removed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from core.recordings.recording import Recording

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_NEIGHBOURS = 5
"""Samples on either side that a value is compared with."""
_DEVIATIONS = 12.0
"""Robust standard deviations beyond which a value is an outlier; friction and contact make tails of their own."""
_MAD_TO_STD = 1.4826
_TRUSTED = 0.95
"""Share of the samples from which the usual distance is taken."""
_MOVING = 0.05
"""rad/s (m/s); a robot faster than this does not repeat its positions."""
_LONG_STEP = 1.5
"""Median steps between stamps beyond which a sample is missing."""


@dataclass(frozen=True, eq=False)
class Marks:
    """What is odd in a recording.

    Attributes
    ----------
    outliers : (N, n) efforts far off their neighbours.
    jumps : (N, n) single positions far off the line between their neighbours.
    frozen : (N,) samples that repeat the one before in every position and effort, though the robot moves.
    missing : samples that the stamps leave room for.
    """

    outliers: Mask
    jumps: Mask
    frozen: Mask
    missing: int

    @property
    def kinematic(self) -> Mask:
        """Samples (N,) whose positions are not the robot's."""
        return np.asarray(self.frozen | self.jumps.any(axis=1))

    @property
    def any(self) -> Mask:
        """Samples (N,) marked for any reason."""
        return np.asarray(self.kinematic | self.outliers.any(axis=1))

    def to_document(self) -> dict[str, Any]:
        """Return counts, JSON-serialisable; outliers and jumps joint by joint."""
        return {
            "outliers": self.outliers.sum(axis=0).tolist(),
            "jumps": self.jumps.sum(axis=0).tolist(),
            "frozen": int(self.frozen.sum()),
            "missing": self.missing,
            "samples": int(self.any.sum()),
        }


def mark_samples(recording: Recording, effort: Array) -> Marks:
    """Mark the samples of a recording and its effort (N, n) that are not what the robot did."""
    step = np.diff(recording.t)
    usual = float(np.median(step))
    missing = int(np.rint(step[step > _LONG_STEP * usual] / usual - 1.0).sum())
    frozen = mark_frozen(recording, effort)
    jumps = mark_jumps(recording.t, recording.q)
    jumps[scipy.ndimage.binary_dilation(frozen, iterations=2)] = False  # where frozen values catch up
    return Marks(mark_outliers(effort), jumps, frozen, missing)


def mark_outliers(values: Array) -> Mask:
    """Mark values (N, n) that lie off the median of their neighbourhood (Hampel 1974).

    The scale is that of the whole column, so that a quiet stretch does not make outliers of its own noise; a column
    that hardly ever leaves its median has none.
    """
    width = 2 * _NEIGHBOURS + 1
    off = np.abs(values - scipy.ndimage.median_filter(values, size=(width, 1), mode="nearest"))
    return np.asarray(off > _limit(off))


def mark_jumps(t: Array, q: Array) -> Mask:
    """Mark positions (N, n) that lie off the straight line between their neighbours, and further than those do."""
    off = np.zeros_like(q)
    share = ((t[1:-1] - t[:-2]) / (t[2:] - t[:-2]))[:, None]
    off[1:-1] = np.abs(q[1:-1] - (1.0 - share) * q[:-2] - share * q[2:])
    return np.asarray((off > _limit(off)) & (off >= scipy.ndimage.maximum_filter(off, size=(3, 1), mode="nearest")))


def _limit(off: Array) -> Array:
    """Return (n,) the largest distance that is still usual."""
    scale = _MAD_TO_STD * np.median(off, axis=0)
    typical = np.sqrt(np.mean(np.minimum(off, np.quantile(off, _TRUSTED, axis=0)) ** 2, axis=0))
    return np.where(typical > 0.0, _DEVIATIONS * np.maximum(scale, typical), np.inf)


def mark_frozen(recording: Recording, effort: Array) -> Mask:
    """Mark samples (N,) that repeat all positions and efforts of the sample before while a joint moves."""
    frozen = np.zeros(recording.t.size, dtype=np.bool_)
    signals = np.hstack([recording.q, effort])
    repeated = (signals[1:] == signals[:-1]).all(axis=1)
    speed = np.abs(recording.rates()).max(axis=1)
    around = scipy.ndimage.uniform_filter1d(speed, 2 * _NEIGHBOURS + 1, mode="constant")
    frozen[1:] = repeated & (around[1:] > _MOVING)
    return frozen
