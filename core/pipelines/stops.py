"""Recordings that run into their stop: braking with a torque that no model of the motion explains."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.dynamics.base_parameters import BaseParameters
from core.estimators import OrdinaryLeastSquares
from core.friction import friction_model
from core.models import Mechanism
from core.pipelines.estimation import TrainingData, estimate
from core.pipelines.torque_model import TorqueModel
from core.recordings.recording import Recording
from core.signals import Segment

Array = NDArray[np.float64]

STOP_MARGIN = 0.25
"""s before the last moving sample from which a recording that runs into its stop is left out."""
_OUTLYING = 6.0
"""A residual beyond this many robust standard deviations is no matter of friction or inertia."""


@dataclass(frozen=True)
class JoltedStop:
    """A recording that ends with a jolt.

    Attributes
    ----------
    recording, joint : where; the joint, counted from 1, whose residual is the most outlying.
    jolt : s, controller time of that residual.
    deviations : its size in robust standard deviations.
    stop : s, controller time of the last moving sample.
    left_out : samples of the recording that do not enter the estimate.
    """

    recording: str
    joint: int
    jolt: float
    deviations: float
    stop: float
    left_out: int

    def __str__(self) -> str:
        return (
            f"{self.recording}: it runs into its stop, a jolt of joint {self.joint} at t = {self.jolt:.2f} s of "
            f"{self.deviations:.0f} standard deviations; the last {self.left_out} samples are left out of the estimate"
        )

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


def find_jolted_stops(
    chain: Mechanism, base: BaseParameters, data: TrainingData, moving_threshold: float
) -> list[JoltedStop | None]:
    """Return, recording by recording, whether it ends at rest after a jolt.

    Judged by the residual of a plain estimate (Coulomb and viscous friction) in the last 0.25 s of the motion.
    """
    last = [segments[-1] for segments in data.segments]
    stops = [_stop(segment, moving_threshold) for segment in last]
    if all(stop is None for stop in stops):
        return [None] * len(stops)
    plain = TorqueModel(chain, base, friction_model("coulomb_viscous", chain.n_joints))
    parameters = estimate(plain, data, OrdinaryLeastSquares(), None).estimator.coef_
    found: list[JoltedStop | None] = []
    for recording, segment, stop in zip(data.recordings, last, stops, strict=True):
        found.append(None)
        if stop is None:
            continue
        residual = segment.effort[segment.rows] - plain.predict(segment, parameters)
        deviation = 1.4826 * np.median(np.abs(residual - np.median(residual, axis=0)), axis=0)
        ending = np.flatnonzero((segment.times >= stop - STOP_MARGIN) & (segment.times <= stop))
        size = np.abs(residual[ending]) / np.maximum(deviation, np.finfo(float).tiny)
        if ending.size and size.max() > _OUTLYING:
            row, joint = np.unravel_index(int(np.argmax(size)), size.shape)
            kept = int(np.searchsorted(recording.t, stop - STOP_MARGIN, side="right"))
            jolt = float(segment.times[ending[row]])
            left_out = int(recording.t.size) - kept
            found[-1] = JoltedStop(recording.name, int(joint) + 1, jolt, float(size.max()), stop, left_out)
    return found


def without_stop(recording: Recording, jolted: JoltedStop) -> Recording:
    """Return the recording without what ``jolted`` leaves out."""
    kept = recording.rows(1, int(recording.t.size) - jolted.left_out)
    return replace(kept, provenance={**kept.provenance, "jolted_stop": jolted.to_document()})


def _stop(segment: Segment, moving_threshold: float) -> float | None:
    """Return when a motion comes to rest; None if it does not, or never moved."""
    moving = np.flatnonzero(np.abs(segment.motion.qd).max(axis=1) > moving_threshold)
    if not moving.size or moving[-1] == segment.motion.n_samples - 1:
        return None
    return float(segment.start + segment.motion.period * moving[-1])
