"""How far the recorded torque lags behind the recorded position, measured with an identified model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.pipelines.identification import Identification
from core.pipelines.torque_model import TorqueModel
from core.pipelines.training import prepared
from core.recordings.recording import Recording
from core.signals import EffortDelay, Segment, estimate_delay

Array = NDArray[np.float64]

LONGEST = 0.03
"""s; delays are sought within +- this."""
_SHORTEST = 20
"""Segments shorter than this many times the longest delay tell nothing."""
_ENOUGH = 20_000
"""Rows of a segment that are looked at: more say nothing new."""
_CERTAINTY = (1e-9, 1e3)
"""s; standard deviations are taken within these, where there is no noise, or no motion to tell a delay by."""


def effort_delay(
    identification: Identification, recordings: Sequence[Recording], *, longest: float = LONGEST
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
    settings, effort = identification.signals, identification.effort
    segments = [
        segment
        for recording in recordings
        for segment in prepared(recording, identification.model, effort, settings).segments
    ]
    model, parameters = identification.torque_model, identification.parameters_
    found = segments_delay(segments, model, parameters, settings.torque_cutoff, longest=longest)
    if found is None:
        raise InputError("there is no recording long enough to look for a delay in", code="recordings-missing")
    return found


def segments_delay(
    segments: Iterable[Segment], model: TorqueModel, parameters: Array, cutoff: float, *, longest: float = LONGEST
) -> EffortDelay | None:
    """Return the delay over segments whose torque was low-passed to ``cutoff`` Hz; None where all are too short."""
    found = []
    for segment in segments:
        period = segment.motion.period * (segment.rows.step or 1)
        if segment.n_rows * period < _SHORTEST * longest:
            continue
        measured = segment.effort[segment.rows][:_ENOUGH]
        predicted = model.predict(segment, parameters)[:_ENOUGH]
        found.append(estimate_delay(measured, predicted, period, cutoff, longest))
    if not found:
        return None
    weights = np.array([1.0 / np.clip(one.std, *_CERTAINTY) ** 2 for one in found])
    total = weights.sum(axis=0)
    return EffortDelay(
        seconds=(weights * [one.seconds for one in found]).sum(axis=0) / total,
        std=1.0 / np.sqrt(total),
        gain=(weights * [one.gain for one in found]).sum(axis=0) / total,
        at_bound=np.any([one.at_bound for one in found], axis=0),
    )
