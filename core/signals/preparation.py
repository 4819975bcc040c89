"""Recordings with stamps as they come, made ready for regression.

Signals are interpolated to a uniform grid, each exactly once. Position and velocity pass the kinematic filter, and the
acceleration is the central difference of the filtered velocity; or a Fourier series takes their place. Torque passes
the torque filter; so must every column of the regressor, by ``Segment.low_pass``. Nothing is filtered or differentiated
across gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, RecordingError
from core.recordings.recording import Recording
from core.recordings.row_checks import time_unit
from core.signals.differentiation import central_difference
from core.signals.filters import LowPass, ZeroPhaseButterworth
from core.signals.five_point import FivePointCubic
from core.signals.fourier_refit import fit_fourier
from core.signals.marking import Marks, mark_samples
from core.signals.motion import JointMotion
from core.signals.periods import average_periods, check_periodic
from core.signals.resampling import UniformSignals, grid_samples, resample
from core.signals.segment import Preparation, Segment
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
_MOST_LEFT_OUT = 0.2
"""Share of a recording's rows that marked samples may cost."""
_SHORTEST_STRETCH = 0.5
"""s; shorter stretches between marked samples are left out as well: errors cannot be judged on them."""
_COPIES = 3
"""An averaged period is laid end to end this often: filters and friction enter the middle one settled."""


@dataclass(frozen=True)
class _Plan:
    """What is the same for all pieces of a recording."""

    rate: float  # of the grid, Hz
    decimation: int
    low_pass: LowPass
    trim: int
    marks: Marks | None


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
        The recording is too slow for the cutoffs, too short, has a gap (where settings refuse gaps), does not repeat
        (where settings say it does), consists of outliers, or its velocity is not the derivative of its position.
    """
    if effort.shape != recording.q.shape:
        raise InputError(f"{recording.name}: effort has shape {effort.shape}, expected {recording.q.shape}")
    own_rate = 1.0 / float(np.median(np.diff(recording.t)))
    _check_rate(recording, own_rate, settings)
    marks = None if settings.marked == "ignore" else mark_samples(recording, effort)
    plan = _plan(own_rate, settings, marks)
    pieces, gaps = _pieces(recording, settings)
    segments: list[Segment] = []
    accounts: list[dict[str, Any]] = []
    dropped = []
    for piece in pieces:
        if grid_samples(recording, piece, plan.rate, settings.delay) < _SHORTEST * plan.trim:
            dropped.append(piece.stop - piece.start)
            continue
        made, account = _segments(recording, effort, piece, plan, settings)
        segments += made
        accounts.append(account)
    if not segments:
        raise RecordingError(
            f"{recording.name}: no uninterrupted part is as long as {_SHORTEST * plan.trim / plan.rate:.2f} s, which "
            "the torque filter needs; record longer, or choose a higher torque_cutoff",
            code="recording-too-short",
            gaps=len(gaps),
        )
    account = {
        "recording": recording.name,
        "samples": int(recording.t.size),
        "own_rate": own_rate,
        "lost": recording.lost,
        "grid_rate": plan.rate,
        "decimation": plan.decimation,
        "interpolation": {"kinematics": "cubic spline", "torque": "linear"},
        "delay": settings.delay,
        "torque_filter": plan.low_pass.to_document(),
        "velocity": _source_of_velocity(recording, settings),
        "differentiation": _differentiation(settings),
        "trimmed_per_end": plan.trim,
        "marked": _account_of_marks(marks, settings, sum(account["rows_left_out"] for account in accounts)),
        "gaps": gaps,
        "segments": accounts,
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
    if last < 2:
        raise RecordingError(
            f"{recording.name}: it lasts {recording.duration:.2f} s, and leaving out {margin:g} s before its stop "
            "leaves nothing",
            code="recording-too-short",
        )
    shortened = recording.rows(1, last)
    return replace(shortened, provenance={**shortened.provenance, "stop_margin": margin})


def _plan(own_rate: float, settings: SignalSettings, marks: Marks | None) -> _Plan:
    multiple = max(1, ceil(own_rate / settings.rate / _SAME_RATE))
    rate = settings.rate * multiple
    if settings.periods == "averaged" and settings.period is not None:
        rate = round(settings.period * rate / multiple) * multiple / settings.period  # whole rows per period
    low_pass: LowPass = ZeroPhaseButterworth(settings.order, settings.torque_cutoff, rate)
    if settings.torque_filter == "five_point_cubic":
        low_pass = FivePointCubic(settings.smoothing_passes, rate)
    return _Plan(rate, multiple, low_pass, low_pass.settling(_EDGE), marks)


def _check_rate(recording: Recording, own_rate: float, settings: SignalSettings) -> None:
    fastest = max(settings.torque_cutoff, settings.kinematic_cutoff)
    if own_rate < 2.0 * fastest:
        unit = time_unit(1.0 / own_rate)
        if recording.qd is None and unit is not None:  # with velocities, which stamps in another unit contradict
            raise RecordingError(
                f"{recording.name}: time steps by {1.0 / own_rate:.4g}, which looks like {unit}, not s; state the unit "
                "of t in a column map, or convert it",
                code="recording-units",
                signal="t",
            )
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


def _segments(
    recording: Recording, effort: Array, piece: slice, plan: _Plan, settings: SignalSettings
) -> tuple[list[Segment], dict[str, Any]]:
    """Return the segments of a piece without gaps, and the account of it."""
    raw = resample(
        recording,
        effort,
        piece,
        plan.rate,
        delay=settings.delay,
        measured_velocity=settings.velocity == "measured",
        left_out=plan.marks if settings.marked == "leave_out" else None,
    )
    account: dict[str, Any] = {"start": raw.start}
    rows = slice(plan.trim, len(raw.q) - plan.trim, plan.decimation)
    if settings.periods == "averaged":
        raw, rows, account["periods"] = _averaged(raw, plan, settings, recording.name)
    motion, account["kinematics"] = _motion(raw, plan, settings, recording)
    whole = Segment(recording.name, raw.start, motion, plan.low_pass.apply(raw.effort), plan.low_pass, rows)
    kept = [rows]
    if settings.marked == "leave_out" and plan.marks is not None and settings.periods == "separate":
        kept = _without(whole, recording.t[piece][plan.marks.any[piece]], settings)
    segments = [replace(whole, rows=part) for part in kept]
    account["rows"] = sum(segment.n_rows for segment in segments)
    account["rows_left_out"] = whole.n_rows - account["rows"]
    if account["rows_left_out"] > _MOST_LEFT_OUT * whole.n_rows:
        raise RecordingError(
            f"{recording.name}: {account['rows_left_out']} of {whole.n_rows} rows lie next to outliers or frozen "
            "samples; this is more than a few bad samples, look at what wrote the recording",
            code="recording-too-many-outliers",
            rows=account["rows_left_out"],
        )
    return segments, account


def _averaged(
    raw: UniformSignals, plan: _Plan, settings: SignalSettings, name: str
) -> tuple[UniformSignals, slice, dict[str, Any]]:
    """Return the mean period laid end to end, the rows of one of its copies, and the account of it."""
    period = float(settings.period or 0.0)
    samples, skipped = round(period * plan.rate), settings.skipped_periods
    q = average_periods(raw.q, samples, skipped)
    check_periodic(q, period, name)
    effort = average_periods(raw.effort, samples, skipped)
    qd = None if raw.qd is None else np.tile(average_periods(raw.qd, samples, skipped).mean, (_COPIES, 1))
    before = (_COPIES // 2) * samples
    start = raw.start + (skipped * samples - before) / plan.rate
    mean = UniformSignals(start, plan.rate, np.tile(q.mean, (_COPIES, 1)), qd, np.tile(effort.mean, (_COPIES, 1)))
    account = {
        "count": effort.count,
        "skipped": skipped,
        "seconds": period,
        "effort_rms_spread": effort.rms_spread.tolist(),
        "position_rms_spread": q.rms_spread.tolist(),
    }
    return mean, slice(before, before + samples, plan.decimation), account


def _motion(
    raw: UniformSignals, plan: _Plan, settings: SignalSettings, recording: Recording
) -> tuple[JointMotion, dict[str, Any]]:
    period = 1.0 / plan.rate
    if settings.kinematics == "fourier" and settings.period is not None:
        series = fit_fourier(raw.q, period, settings.period, settings.fourier_order, recording.name)
        account = {
            "name": "fourier",
            "period": series.period,
            "order": series.order,
            "residual_rms": series.residual_rms.tolist(),
        }
        return series.motion(len(raw.q), period), account
    smooth = ZeroPhaseButterworth(settings.order, settings.kinematic_cutoff, plan.rate)
    q = smooth.apply(raw.q)
    differentiated = central_difference(q, period)
    qd = differentiated
    if raw.qd is not None:
        qd = smooth.apply(raw.qd)
        _check_velocity(recording, qd[plan.trim : -plan.trim], differentiated[plan.trim : -plan.trim])
    return JointMotion(period, q, qd, central_difference(qd, period)), smooth.to_document()


def _without(segment: Segment, odd: Array, settings: SignalSettings) -> list[slice]:
    """Return the rows of a segment in stretches that keep away from the odd times.

    What is interpolated across an odd sample reaches, through the torque filter, half a period of its cutoff.
    """
    times = segment.times
    reach = 0.5 / settings.torque_cutoff
    near = np.searchsorted(odd, times + reach, side="right") > np.searchsorted(odd, times - reach, side="left")
    borders = np.flatnonzero(np.diff(np.concatenate([[True], near, [True]]).astype(np.int8)))
    start, _, step = segment.rows.indices(segment.motion.n_samples)
    least = _SHORTEST_STRETCH / (segment.motion.period * step)
    stretches = [(first, end) for first, end in borders.reshape(-1, 2).tolist() if end - first >= least]
    return [slice(start + first * step, start + (end - 1) * step + 1, step) for first, end in stretches]


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


def _source_of_velocity(recording: Recording, settings: SignalSettings) -> str:
    if settings.kinematics == "fourier":
        return "derivative of the Fourier series"
    if recording.qd is None:
        return "differentiated: the recording has none"
    return settings.velocity


def _differentiation(settings: SignalSettings) -> str:
    return "analytic" if settings.kinematics == "fourier" else "central difference, 7 points"


def _account_of_marks(marks: Marks | None, settings: SignalSettings, left_out: int) -> dict[str, Any]:
    if marks is None:
        return {"treatment": settings.marked}
    return {"treatment": settings.marked, **marks.to_document(), "rows_left_out": left_out}
