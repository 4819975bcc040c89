"""Recordings with stamps as they come, made ready for regression.

Position and velocity are interpolated to a uniform grid by a cubic spline, torque, which is mostly noise from
one sample to the next, by straight lines, each exactly once. Position and velocity pass the kinematic filter, and the
acceleration is the central difference of the filtered velocity. Torque passes the torque filter; so must
every column of the regressor, by ``Segment.low_pass``. Nothing is filtered or differentiated across gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline, make_interp_spline

from core.errors import InputError, RecordingError
from core.recordings.recording import Recording
from core.signals.differentiation import central_difference
from core.signals.filters import ZeroPhaseButterworth
from core.signals.motion import JointMotion
from core.signals.settings import SignalSettings

Array = NDArray[np.float64]

_EDGE = 0.05
"""Samples near an end are left out until the torque filter's transient has decayed to this share."""
_SHORTEST = 4
"""A segment shorter than this many of those trims is not used."""
_SAME_RATE = 1.05
"""A grid up to this much slower than the recording counts as equally fast."""
_VELOCITY_MISFIT = 0.3
_VELOCITY_CHECKED = 0.02
"""rad/s (m/s); below this RMS a joint's velocity cannot be told from noise."""


@dataclass(frozen=True)
class Segment:
    """An uninterrupted piece of a recording on a uniform grid, ready for regression.

    Attributes
    ----------
    recording : name of the recording.
    start : s, controller time of the first grid sample.
    motion : filtered motion on the whole grid.
    effort : (N, n) filtered torque (or current) on the whole grid.
    low_pass : the filter that ``effort`` has passed and every column of the regressor must pass.
    rows : the grid samples that enter the estimate: ends trimmed, decimated to the rate of the settings.
    """

    recording: str
    start: float
    motion: JointMotion
    effort: Array
    low_pass: ZeroPhaseButterworth
    rows: slice

    @property
    def n_rows(self) -> int:
        return len(range(*self.rows.indices(self.motion.n_samples)))

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


def prepare(recording: Recording, effort: Array, settings: SignalSettings) -> Preparation:
    """Resample, filter and differentiate a recording.

    Parameters
    ----------
    effort : (N, n) torque or current of the recording's samples, in the unit of the estimate.

    Raises
    ------
    InputError
        ``effort`` has another shape than the recording.
    RecordingError
        The recording is too slow for the cutoffs, too short, has a gap (where settings refuse gaps), or its
        velocity is not the derivative of its position.
    """
    if effort.shape != recording.q.shape:
        raise InputError(f"{recording.name}: effort has shape {effort.shape}, expected {recording.q.shape}")
    own_rate = 1.0 / float(np.median(np.diff(recording.t)))
    _check_rate(recording, own_rate, settings)
    multiple = max(1, ceil(own_rate / settings.rate / _SAME_RATE))
    grid_rate = settings.rate * multiple
    low_pass = ZeroPhaseButterworth(settings.order, settings.torque_cutoff, grid_rate)
    trim = low_pass.settling(_EDGE)
    pieces, gaps = _pieces(recording, settings)
    segments = []
    dropped = []
    for piece in pieces:
        samples = int((recording.t[piece.stop - 1] - recording.t[piece.start]) * grid_rate) + 1
        if samples < _SHORTEST * trim:
            dropped.append(piece.stop - piece.start)
        else:
            segments.append(_segment(recording, effort, piece, samples, trim, multiple, low_pass, settings))
    if not segments:
        raise RecordingError(
            f"{recording.name}: no uninterrupted part is as long as {_SHORTEST * trim / grid_rate:.2f} s, which "
            f"the {settings.torque_cutoff:g} Hz filter needs; record longer, or choose a higher torque_cutoff",
            code="recording-too-short",
            gaps=len(gaps),
        )
    account = {
        "recording": recording.name,
        "samples": int(recording.t.size),
        "own_rate": own_rate,
        "lost": recording.lost,
        "grid_rate": grid_rate,
        "decimation": multiple,
        "interpolation": {"kinematics": "cubic spline", "torque": "linear"},
        "velocity": _source_of_velocity(recording, settings),
        "differentiation": "central difference, 7 points",
        "trimmed_per_end": trim,
        "gaps": gaps,
        "segments": [{"start": s.start, "rows": s.n_rows} for s in segments],
        "samples_in_dropped_segments": dropped,
    }
    return Preparation(tuple(segments), account)


def cut_before_stop(recording: Recording, margin: float, *, moving_threshold: float = 0.02) -> Recording:
    """Return the recording up to ``margin`` s before its last moving sample.

    A robot that is stopped at the end of a run brakes with torque that no model of its motion explains.

    Raises
    ------
    RecordingError
        No joint ever moves, or hardly anything would be left.
    """
    moving = np.flatnonzero(np.abs(recording.rates()).max(axis=1) > moving_threshold)
    if not moving.size:
        raise RecordingError(
            f"{recording.name}: no joint moves faster than {moving_threshold:g} rad/s; there is no stop to cut before",
            code="recording-motionless",
        )
    last = int(np.searchsorted(recording.t, recording.t[moving[-1]] - margin, side="right"))
    shortened = recording.rows(1, last)
    return replace(shortened, provenance={**shortened.provenance, "stop_margin": margin})


def _source_of_velocity(recording: Recording, settings: SignalSettings) -> str:
    if recording.qd is None:
        return "differentiated: the recording has none"
    return settings.velocity


def _check_rate(recording: Recording, own_rate: float, settings: SignalSettings) -> None:
    fastest = max(settings.torque_cutoff, settings.kinematic_cutoff)
    if own_rate < 2.0 * fastest:
        raise RecordingError(
            f"{recording.name}: recorded at {own_rate:.1f} Hz, which cannot carry the {fastest:g} Hz that the "
            "filters let through; record faster or lower torque_cutoff and kinematic_cutoff",
            code="recording-too-slow",
            rate=own_rate,
        )


def _pieces(recording: Recording, settings: SignalSettings) -> tuple[list[slice], list[dict[str, float]]]:
    """Return the index ranges between gaps, and the gaps."""
    step = np.diff(recording.t)
    after = np.flatnonzero(step > settings.max_gap) + 1
    gaps = [{"after": float(recording.t[i - 1]), "seconds": float(step[i - 1])} for i in after]
    if gaps and settings.on_gap == "refuse":
        raise RecordingError(
            f"{recording.name}: {len(gaps)} gaps longer than {settings.max_gap:g} s, the first of "
            f"{gaps[0]['seconds']:.3f} s after t = {gaps[0]['after']:.3f} s; cut the recording there, or let gaps "
            "split it",
            code="recording-gap",
            gaps=gaps,
        )
    borders = [0, *after.tolist(), recording.t.size]
    return [slice(a, b) for a, b in pairwise(borders)], gaps


def _segment(
    recording: Recording,
    effort: Array,
    piece: slice,
    samples: int,
    trim: int,
    decimation: int,
    low_pass: ZeroPhaseButterworth,
    settings: SignalSettings,
) -> Segment:
    t = recording.t[piece]
    period = 1.0 / low_pass.rate
    grid = np.minimum(t[0] + period * np.arange(samples), t[-1])
    smooth = ZeroPhaseButterworth(settings.order, settings.kinematic_cutoff, low_pass.rate)
    q = smooth.apply(CubicSpline(t, recording.q[piece])(grid))
    differentiated = central_difference(q, period)
    if settings.velocity == "measured" and recording.qd is not None:
        qd = smooth.apply(CubicSpline(t, recording.qd[piece])(grid))
        _check_velocity(recording, qd[trim:-trim], differentiated[trim:-trim])
    else:
        qd = differentiated
    motion = JointMotion(period, q, qd, central_difference(qd, period))
    return Segment(
        recording=recording.name,
        start=float(t[0]),
        motion=motion,
        effort=low_pass.apply(make_interp_spline(t, effort[piece], k=1)(grid)),
        low_pass=low_pass,
        rows=slice(trim, samples - trim, decimation),
    )


def _check_velocity(recording: Recording, measured: Array, differentiated: Array) -> None:
    """Refuse a velocity that is something else than the derivative of the position."""
    size = np.sqrt(np.mean(differentiated**2, axis=0))
    misfit = np.sqrt(np.mean((measured - differentiated) ** 2, axis=0))
    wrong = (size > _VELOCITY_CHECKED) & (misfit > _VELOCITY_MISFIT * size)
    if np.any(wrong):
        joint = int(np.argmax(wrong))
        slope = float(np.mean(measured[:, joint] * differentiated[:, joint]) / size[joint] ** 2)
        raise RecordingError(
            f"{recording.name}: the velocity of joint {joint + 1} is not the derivative of its position (they "
            f"differ by {misfit[joint] / size[joint]:.0%}, best factor {slope:.3g}); check units and columns, or "
            "let velocity be differentiated from position",
            code="recording-velocity-inconsistent",
            joint=joint + 1,
            factor=slope,
        )
