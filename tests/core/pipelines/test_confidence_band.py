"""The confidence band of predicted torque holds the true torque as often as it says, over several settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from core.pipelines.identify import identify
from core.recordings import Recording

REPEATS = 5
NOISE = 3.0
FRESH = np.linspace(100.0, 110.0, 500)
"""Times of a motion that no recording holds."""


def recordings(robot, motions: Sequence[int], seconds: float, memory: float, repeat: int) -> list[Recording]:
    """Motions with noise of current whose correlation falls to ``memory`` from sample to sample."""
    found = []
    for motion in motions:
        clean = robot.record(motion, seconds=seconds)
        random = np.random.default_rng((motion, repeat))
        white = random.normal(size=(clean.t.size + 200, clean.n_joints))
        noise = NOISE * lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], white, axis=0)[200:]
        found.append(replace(clean, current=clean.current + noise / robot.gains))
    return found


@pytest.mark.parametrize(
    ("motions", "seconds", "memory", "friction", "estimator"),
    [
        ((8,), 12.0, 0.0, "coulomb_viscous", "wls"),  # 58 parameters of 1200 samples
        ((8,), 30.0, 0.0, "coulomb_viscous", "wls"),
        ((3,), 15.0, 0.9, "coulomb_viscous", "wls"),
        ((8, 9), 12.0, 0.0, "coulomb_viscous", "wls"),
        ((3,), 15.0, 0.6, "coulomb_viscous", "huber"),
    ],
)
def test_nominal_95_percent_hold_90_to_99(robot, motions, seconds, memory, friction, estimator):
    states = robot.motion(FRESH, 70)
    moving = np.abs(states[1]) > 0.1  # where the filtered sign of the data says what the sign of the truth does
    truth = robot.torque(*states)
    inside = []
    for repeat in range(REPEATS):
        noisy = recordings(robot, motions, seconds, memory, repeat)
        fitted = identify(robot.model, noisy, gains=robot.gains, friction=friction, estimator=estimator)
        error = np.abs(fitted.predict(*states) - truth)
        inside.append(error[moving] < 1.96 * fitted.predict_std(*states)[moving])
    assert 0.90 <= np.mean(inside) <= 0.99
