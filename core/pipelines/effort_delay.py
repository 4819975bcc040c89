"""How far the recorded torque lags behind the recorded position, measured with an identified model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.errors import InputError
from core.pipelines.identification import Identification
from core.recordings.recording import Recording
from core.signals import EffortDelay, estimate_delay, prepare

_SHORTEST = 20
"""Segments shorter than this many times the longest delay tell nothing."""


def effort_delay(
    identification: Identification, recordings: Sequence[Recording], *, longest: float = 0.03
) -> EffortDelay:
    """Estimate the delay of each joint's torque (or current) over all segments of some recordings.

    The model was fitted to the delayed torque, and its viscous friction and inertia take part of a delay in; identify
    again with ``SignalSettings.delay`` and look whether any is left. A delay that hardly lowers the residual
    (``gain``) is not worth taking out, and one that differs from joint to joint is rather friction that builds up
    after a reversal: the signals of one controller lag alike. Let the friction model have ``hysteresis`` first.

    Parameters
    ----------
    longest : s; delays are sought within +- this.

    Raises
    ------
    InputError
        There is no recording, or none is long enough.
    RecordingError, IdentificationError
        A recording cannot be prepared, or lacks the signal.
    """
    model, settings = identification.torque_model, identification.signals
    found = []
    for recording in recordings:
        ordered = recording.for_joints(identification.model.joint_names)
        for segment in prepare(ordered, identification.effort.of(ordered), settings).segments:
            period = segment.motion.period * (segment.rows.step or 1)
            if segment.n_rows * period < _SHORTEST * longest:
                continue
            measured = segment.effort[segment.rows]
            predicted = model.predict(segment, identification.parameters_)
            found.append(estimate_delay(measured, predicted, period, settings.torque_cutoff, longest))
    if not found:
        raise InputError("there is no recording long enough to look for a delay in", code="recordings-missing")
    weights = np.array([1.0 / one.std**2 for one in found])
    total = weights.sum(axis=0)
    return EffortDelay(
        seconds=(weights * [one.seconds for one in found]).sum(axis=0) / total,
        std=1.0 / np.sqrt(total),
        gain=(weights * [one.gain for one in found]).sum(axis=0) / total,
    )
