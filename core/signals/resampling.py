"""From stamps as they come to a uniform grid, every signal interpolated exactly once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from core.recordings.recording import Recording
from core.signals.marking import Marks

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UniformSignals:
    """Unfiltered signals on a uniform grid.

    Attributes
    ----------
    start : s, controller time of the first sample.
    rate : Hz.
    q, effort : (N, n).
    qd : (N, n), or None where it is to be differentiated.
    """

    start: float
    rate: float
    q: Array
    qd: Array | None
    effort: Array


def grid_samples(recording: Recording, piece: slice, rate: float, delay: float) -> int:
    """Return how many samples of the grid fit into a piece of a recording whose torque lags by ``delay`` s."""
    seconds = float(recording.t[piece.stop - 1] - recording.t[piece.start]) - abs(delay)
    return max(0, int(seconds * rate) + 1)


def resample(
    recording: Recording,
    effort: Array,
    piece: slice,
    rate: float,
    *,
    delay: float = 0.0,
    measured_velocity: bool = True,
    left_out: Marks | None = None,
) -> UniformSignals:
    """Interpolate a piece of a recording.

    Position and velocity take a cubic spline, torque, which is mostly noise from one sample to the next, straight
    lines. Torque is taken ``delay`` s later than position.

    Parameters
    ----------
    left_out : samples that are interpolated across: outliers of a joint's torque, jumps and frozen ones of all.
    """
    t = recording.t[piece]
    start, end = t[0] + max(0.0, -delay), t[-1]
    samples = grid_samples(recording, piece, rate, delay)
    grid = np.minimum(start + np.arange(samples) / rate, end)
    odd_position = np.zeros(t.size, dtype=np.bool_) if left_out is None else left_out.kinematic[piece]
    velocity = recording.qd if measured_velocity else None
    moving = t[~odd_position]
    lagging = np.minimum(grid + delay, end)
    efforts = []
    for j in range(recording.n_joints):
        odd = odd_position if left_out is None else odd_position | left_out.outliers[piece, j]
        efforts.append(np.interp(lagging, t[~odd], effort[piece, j][~odd]))
    return UniformSignals(
        start=float(start),
        rate=rate,
        q=scipy.interpolate.CubicSpline(moving, recording.q[piece][~odd_position])(grid),
        qd=None if velocity is None else scipy.interpolate.CubicSpline(moving, velocity[piece][~odd_position])(grid),
        effort=np.column_stack(efforts),
    )
