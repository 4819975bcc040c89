"""Recordings made ready to estimate from: joints in order, ends cut, signals prepared, motion checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from core.errors import IdentificationError, InputError
from core.models import Mechanism
from core.pipelines.effort import Effort
from core.pipelines.estimation import Progress, TrainingData, report
from core.pipelines.plausibility import check_plausible
from core.pipelines.stops import JoltedStop, find_jolted_stops, without_stop
from core.pipelines.torque_model import TorqueModel
from core.recordings.recording import Recording
from core.signals import Preparation, Segment, SignalSettings, cut_before_stop, prepare


def training_data(
    model: TorqueModel,
    recordings: Sequence[Recording],
    effort: Effort,
    settings: SignalSettings,
    stop_margin: float | Literal["auto"],
    moving_threshold: float,
    progress: Progress | None,
) -> tuple[TrainingData, list[dict[str, Any]], list[JoltedStop]]:
    """Return prepared recordings, accounts of it, and those whose end had to be left out.

    Parameters
    ----------
    model : its friction plays no part.
    stop_margin, moving_threshold : as of ``identify``.
    """
    if stop_margin != "auto" and stop_margin > 0.0:
        recordings = [cut_before_stop(r, stop_margin, moving_threshold=moving_threshold) for r in recordings]
    preparations = []
    for i, recording in enumerate(recordings):
        preparations.append(prepared(recording, model.chain, effort, settings))
        report(progress, "preparing signals", (i + 1) / len(recordings))
    data = TrainingData(recordings, [p.segments for p in preparations], settings)
    stops = find_jolted_stops(model.chain, model.base, data, moving_threshold) if stop_margin == "auto" else []
    jolted = [stop for stop in stops if stop is not None]
    if jolted:
        recordings = [without_stop(r, stop) if stop else r for r, stop in zip(recordings, stops, strict=True)]
        preparations = [prepared(recording, model.chain, effort, settings) for recording in recordings]
        data = TrainingData(recordings, [p.segments for p in preparations], settings)
    return data, [p.account for p in preparations], jolted


def prepared(recording: Recording, model: Mechanism, effort: Effort, settings: SignalSettings) -> Preparation:
    """Return a recording as its effort and the settings ask for.

    Raises
    ------
    RecordingError, IdentificationError, InputError
        It cannot be prepared, lacks the signal, is of a robot with other joints, or in impossible units.
    """
    recording = for_joints_of(model, recording)
    check_plausible(model, recording, effort)
    return prepare(recording, effort.of(recording), settings)


def for_joints_of(model: Mechanism, recording: Recording) -> Recording:
    """Return the recording with its joints in the model's order, by name where the file names them."""
    recording = recording.for_joints(model.joint_names)
    if recording.n_joints != model.n_joints:
        raise InputError(
            f"{recording.name}: it is of {recording.n_joints} joints, {model.name} has {model.n_joints}",
            code="joint-count-differs",
        )
    return recording


def check_motion(segments: Sequence[Segment], model: Mechanism, moving_threshold: float) -> None:
    """Refuse training data in which a joint stands still (IdentificationError)."""
    fastest = np.max([np.abs(s.motion.qd[s.rows]).max(axis=0) for s in segments], axis=0)
    still = [model.joint_names[j] for j in np.flatnonzero(fastest <= moving_threshold)]
    if still:
        raise IdentificationError(
            f"{', '.join(still)} never move faster than {moving_threshold:g} rad/s (m/s) in the training data, "
            "so neither friction nor inertia of theirs can be estimated; let every joint move",
            code="too-little-motion",
            joints=still,
        )
