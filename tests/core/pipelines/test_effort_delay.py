"""A lag between torque and position is found with the identified model, and gone once it is taken out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError
from core.pipelines.effort_delay import effort_delay
from core.pipelines.identify import identify
from core.recordings import Recording
from core.signals import SignalSettings


def lagging(robot, seed: int, lag: float) -> Recording:
    recording = robot.record(seed, seconds=15.0, rate=250.0)
    torque = robot.torque(*robot.motion(recording.t - lag, seed))
    noise = np.random.default_rng(seed).normal(0.0, 0.5, torque.shape)
    return replace(recording, current=(torque + noise) / robot.gains)


def test_a_delay_is_measured_and_can_be_taken_out(robot):
    lag = 0.006
    recordings = [lagging(robot, seed, lag) for seed in (1, 2)]
    result = identify(robot.model, recordings, gains=robot.gains)
    found = effort_delay(result, recordings)
    assert found.significant[:3].all()
    assert found.seconds[:3] == pytest.approx(lag, abs=0.004)
    corrected = identify(robot.model, recordings, gains=robot.gains, signals=SignalSettings(delay=lag))
    rest = effort_delay(corrected, recordings)
    assert np.all(np.abs(rest.seconds) < np.maximum(0.001, 4.0 * rest.std))
    assert np.all(rest.gain < 0.05)
    rms, before = (np.array(r.to_document()["train"]["rms"]) for r in (corrected, result))
    assert np.all(rms[:3] < 0.9 * before[:3])
    assert not found.at_bound.any()
    assert effort_delay(result, recordings, longest=0.0005).at_bound[:3].all()
    with pytest.raises(InputError, match="no recording"):
        effort_delay(result, [])
