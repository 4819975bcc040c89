"""What the platform of a 6-UPRU robot carries, from sensor forces."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from core.errors import InputError
from core.models import SixUPRU
from core.models.chain import INERTIAL_NAMES
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.payload import Payload, identify_payload
from core.pipelines.payload_change import payload_from_change
from core.recordings import Recording

Array = np.ndarray

MASS, COM = 12.0, np.array([0.1, -0.05, 0.15])
INERTIA = np.array([[0.30, 0.02, -0.01], [0.02, 0.25, 0.03], [-0.01, 0.03, 0.20]])
PARAMETERS = np.array([*(MASS, *(MASS * COM)), *np.zeros(6)])
PARAMETERS[4:] = (INERTIA + MASS * (COM @ COM * np.eye(3) - np.outer(COM, COM)))[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
AXIAL = ["Ia1", "Ia2+Ia3+Ia4"]


class Runs:
    """The same motion without and with the payload, sensor noise included."""

    def __init__(self, reference: Any, robot: SixUPRU, noise: float) -> None:
        self.reference, self.noise = reference, noise
        self.empty = self.record(robot, 1)
        self.loaded = self.record(robot.with_payload(MASS, COM, INERTIA), 2)
        self.identified = identify(robot, [self.empty], friction="none", without=AXIAL)

    def record(self, robot: SixUPRU, seed: int) -> Recording:
        data = self.reference.data
        force = robot.inverse_dynamics(*self.reference.states)
        force += np.random.default_rng(seed).normal(0.0, self.noise, force.shape)
        return Recording(f"run {seed}", data["t"], data["l"], data["ld"], torque=force)


@pytest.fixture(scope="module")
def runs(upru: SixUPRU, fourier: Any) -> Runs:
    return Runs(fourier, upru, noise=0.5)


def check(payload: Payload) -> None:
    assert payload.frame == "platform frame"
    assert payload.mass == pytest.approx(MASS, abs=0.1)
    np.testing.assert_allclose(payload.centre, COM, atol=0.01)
    assert np.all(np.abs(payload.parameters - PARAMETERS) < 4.0 * payload.std)
    assert {"m", "mx", "my", "mz"} <= set(payload.identified)
    assert payload.relations == {}


def test_a_body_adds_to_ten_parameters_of_the_platform(upru: SixUPRU, fourier: Any) -> None:
    loaded = upru.with_payload(MASS, COM, INERTIA)
    columns = upru.regressor(*fourier.states)[..., upru.moved_body.columns]
    added = loaded.inverse_dynamics(*fourier.states) - upru.inverse_dynamics(*fourier.states)
    np.testing.assert_allclose(columns @ PARAMETERS, added, atol=1e-9)
    np.testing.assert_allclose(upru.carrying(PARAMETERS).parameters, loaded.parameters, atol=1e-12)
    impossible = PARAMETERS * np.array([1.0] * 4 + [-1.0] * 6)  # an estimate may be no body's
    added = upru.carrying(impossible).inverse_dynamics(*fourier.states) - upru.inverse_dynamics(*fourier.states)
    np.testing.assert_allclose(columns @ impossible, added, atol=1e-9)


def test_runs_without_and_with_it_tell_the_payload(runs: Runs) -> None:
    payload = identify_payload(runs.identified, [runs.loaded], [runs.empty])
    check(payload)
    assert payload.rms_without is not None
    assert payload.rms_with is not None
    assert payload.rms_with.max() < 0.5 * payload.rms_without.max()


def test_a_loaded_run_and_what_is_known_of_the_robot_tell_it_too(runs: Runs) -> None:
    check(identify_payload(runs.identified, [runs.loaded]))


def test_the_change_between_two_results_tells_it_too(upru: SixUPRU, runs: Runs) -> None:
    loaded = identify(upru, [runs.loaded], friction="none", without=AXIAL)
    payload = payload_from_change(runs.identified, loaded)
    check(payload)
    assert payload.rms_with is None
    document = json.loads(json.dumps(payload.to_document(), allow_nan=False))
    assert document["frame"] == "platform frame"
    assert document["names"] == list(INERTIAL_NAMES)
    nothing = payload_from_change(runs.identified, runs.identified)
    np.testing.assert_allclose(nothing.parameters, 0.0, atol=1e-12)


def test_results_of_different_robots_are_refused(upru: SixUPRU, runs: Runs) -> None:
    tilted = identify(upru.with_gravity([1.0, 0.0, -9.8]), [runs.loaded], friction="none", without=AXIAL)
    with pytest.raises(InputError, match="with other geometry, gravity"):
        payload_from_change(runs.identified, tilted)
    complete = identify(upru, [runs.loaded], friction="none")
    assert isinstance(complete, Identification)
    with pytest.raises(InputError, match="or base parameters"):
        payload_from_change(runs.identified, complete)
