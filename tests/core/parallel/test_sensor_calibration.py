"""Tares, gains and the direction of gravity from forces that sensors show."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import IdentificationError, InputError
from core.models import SixUPRU
from core.pipelines.sensor_calibration import SensorCalibration, calibrate_segments, calibrate_sensors
from core.recordings import Recording
from core.signals import Segment
from core.signals.filters import ZeroPhaseButterworth
from core.signals.motion import JointMotion

Array = np.ndarray
AXIAL = ("Ia1", "Ia2+Ia3+Ia4")


class Truth:
    """A robot that stands up to 3 degrees askew, with sensors off by up to 3 % and 20 N."""

    def __init__(self, seed: int, upru: SixUPRU, fourier: Any) -> None:
        rng = np.random.default_rng(seed)
        self.data = fourier.data
        self.tare = rng.uniform(-20.0, 20.0, 6)
        self.gain = rng.uniform(0.97, 1.03, 6)
        self.gain += 1.0 - self.gain.mean()
        self.robot = upru.with_mounting([*rng.uniform(-0.05, 0.05, 2), 0.0])
        force = self.robot.inverse_dynamics(*fourier.states)
        self.shown = self.tare + self.gain * force
        self.noise = rng.normal(size=force.shape)

    def segment(self, noise: float) -> Segment:
        """The exact motion of the legs, and what the sensors show."""
        low_pass = ZeroPhaseButterworth(5, 10.0, 100.0)
        motion = JointMotion(0.01, self.data["l"], self.data["ld"], self.data["ldd"])
        effort = low_pass.apply(self.shown + noise * self.noise)
        return Segment("exact", 0.0, motion, effort, low_pass, slice(20, 981, 2))

    def recording(self, noise: float) -> Recording:
        data = self.data
        return Recording("run", data["t"], data["l"], data["ld"], torque=self.shown + noise * self.noise)


def errors(found: SensorCalibration, truth: Truth) -> Array:
    """Largest errors of tare N, gain, gravity m/s2."""
    pairs = ((found.tare, truth.tare), (found.gain, truth.gain), (found.gravity, truth.robot.gravity))
    return np.array([np.abs(value - true).max() for value, true in pairs])


@given(seed=st.integers(0, 2**31))
@settings(max_examples=2, deadline=None)
def test_the_truth_comes_back_as_noise_vanishes(upru: SixUPRU, fourier: Any, seed: int) -> None:
    truth = Truth(seed, upru, fourier)
    exact = calibrate_segments(upru, [truth.segment(1e-5)])
    assert np.all(errors(exact, truth) < [1e-4, 1e-7, 1e-6])
    assert exact.gain.mean() == pytest.approx(1.0, abs=1e-12)
    assert np.linalg.norm(exact.gravity) == pytest.approx(np.linalg.norm(upru.gravity))
    np.testing.assert_allclose(exact.parameters, truth.robot.base_parameters, atol=1e-3)
    small, large = (calibrate_segments(upru, [truth.segment(noise)], without=AXIAL) for noise in (0.02, 0.2))
    assert np.all(errors(small, truth) < 0.25 * errors(large, truth) + [1e-3, 1e-5, 1e-4])
    off = [
        (large.tare - truth.tare) / large.tare_std,
        (large.gain - truth.gain) / large.gain_std,
        (large.gravity - truth.robot.gravity)[:2] / large.gravity_std[:2],
    ]
    assert max(np.abs(share).max() for share in off) < 6.0


def test_a_recording_is_corrected_by_it(upru: SixUPRU, fourier: Any) -> None:
    truth = Truth(3, upru, fourier)
    recording = truth.recording(0.5)
    found = calibrate_sensors(upru, [recording], without=AXIAL)
    assert found.gauge == "the mean of the gains is 1"
    corrected = found.corrected(recording)
    assert corrected.torque is not None
    true = (truth.shown - truth.tare) / truth.gain
    assert np.sqrt(np.mean((corrected.torque - true) ** 2)) < 2.0
    assert recording.torque is not None
    assert np.sqrt(np.mean((recording.torque - true) ** 2)) > 5.0
    assert corrected.provenance["sensor_calibration"]["gain"] == found.gain.tolist()
    json.dumps(found.to_document(), allow_nan=False)


def test_a_known_mass_gives_the_scale(upru: SixUPRU, fourier: Any) -> None:
    truth = Truth(4, upru, fourier)
    truth.shown = truth.tare + 1.1 * truth.gain * ((truth.shown - truth.tare) / truth.gain)
    known = ("m1", float(upru.base_parameters[3]))
    found = calibrate_segments(upru, [truth.segment(1e-5)], known=known)
    np.testing.assert_allclose(found.gain, 1.1 * truth.gain, atol=1e-6)
    assert found.gauge.startswith("m1 is 17.0")
    assert found.parameters[3] == known[1]
    assert found.parameters_std[3] == 0.0


def test_what_cannot_be_calibrated_is_refused(upru: SixUPRU, fourier: Any) -> None:
    truth = Truth(5, upru, fourier)
    recording = truth.recording(0.0)
    with pytest.raises(InputError, match="no recording"):
        calibrate_sensors(upru, [])
    with pytest.raises(InputError, match="knows no gravity"):
        calibrate_sensors(upru.with_gravity([0.0, 0.0, 0.0]), [recording])
    with pytest.raises(InputError, match="mp = 50 gives no scale"):
        calibrate_sensors(upru, [recording], known=("mp", 50.0))
    with pytest.raises(IdentificationError, match="there is no torque in it"):
        calibrate_sensors(upru, [replace(recording, torque=None, current=recording.torque)])
