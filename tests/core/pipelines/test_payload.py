"""Payloads: recovered on a simulated robot whose friction grows with the load, and on the recorded UR10e."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from core.errors import IdentificationError, InputError
from core.models.chain import INERTIAL_NAMES
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.paired_drive_gains import from_paired_runs
from core.pipelines.payload import Payload, identify_payload
from core.recordings import Recording, read

GRIPPED = np.array([2.5, 0.05, -0.1, 0.25, 0.06, 0.002, 0.055, -0.004, 0.012, 0.03])
"""2.5 kg, 0.1 m in front of the flange, as a body of some 0.1 m radius may have it."""
LOAD_FRICTION = 0.04


def record(robot, seed: int, payload: np.ndarray, noise: float) -> Recording:
    model = robot.model
    carrying = replace(
        model, inertial_parameters=model.inertial_parameters + np.vstack([np.zeros((model.n_joints - 1, 10)), payload])
    )
    recording = replace(robot, model=carrying).record(seed, noise=noise, seconds=16.0)
    q, qd, qdd = robot.motion(recording.t, seed)
    grown = LOAD_FRICTION * np.abs(carrying.inverse_dynamics(q, qd, qdd)) * np.tanh(qd / 0.02)
    return replace(recording, current=recording.current + grown / robot.gains)


@pytest.fixture(scope="module")
def pair(robot) -> tuple[Identification, Recording, Recording]:
    empty, loaded = record(robot, 1, 0.0 * GRIPPED, 0.3), record(robot, 1, GRIPPED, 0.3)
    friction = "coulomb_viscous+load(1, width=0.02)"
    return identify(robot.model, [empty], gains=robot.gains, friction=friction), empty, loaded


def near(payload: Payload) -> None:
    assert payload.mass == pytest.approx(GRIPPED[0], rel=0.01)
    assert payload.centre == pytest.approx(GRIPPED[1:4] / GRIPPED[0], abs=0.005)
    assert np.all(np.abs(payload.parameters - GRIPPED) < 4.0 * payload.std + 1e-3)
    assert np.abs(payload.parameters[4:] - GRIPPED[4:]).max() < 0.02
    assert payload.rms_with.max() < 0.5 * payload.rms_without.max()


def test_paired_runs_tell_the_payload(robot, pair):
    arm, empty, loaded = pair
    payload = identify_payload(arm, [loaded], [empty])
    near(payload)
    assert {"m", "mx", "my", "mz"} <= set(payload.identified)
    assert payload.relations == {}
    centre = GRIPPED[1:4] / GRIPPED[0]
    assert robot.model.carrying(payload.parameters).inertial_parameters[-1] == pytest.approx(
        robot.model.inertial_parameters[-1] + payload.parameters
    )
    moved = payload.inertia + payload.mass * (payload.centre @ payload.centre * np.eye(3))
    moved -= payload.mass * np.outer(payload.centre, payload.centre)
    assert moved[2, 2] == pytest.approx(payload.parameters[9])
    assert centre == pytest.approx(payload.centre, abs=6 * payload.centre_std.max())
    document = json.loads(json.dumps(payload.to_document(), allow_nan=False))
    assert document["names"] == list(INERTIAL_NAMES)
    assert document["mass"] == payload.mass


def test_an_identified_arm_and_one_run_tell_it_too(robot, pair):
    arm, _, _ = pair
    near(identify_payload(arm, [record(robot, 4, GRIPPED, 0.3)]))


def test_an_empty_hand_weighs_nothing(pair):
    arm, empty, _ = pair
    payload = identify_payload(arm, [empty])
    assert abs(payload.mass) < max(4.0 * payload.std[0], 0.02)
    assert any("not identified" in warning for warning in payload.warnings)


def test_a_known_mass_tells_the_drive_gains(robot, pair):
    """Nominal gains off by up to a quarter, and not alike."""
    _, empty, loaded = pair
    nominal = robot.gains * [1.25, 0.9, 1.1, 0.8, 1.05, 1.0]
    arm = identify(robot.model, [empty], gains=nominal, friction="coulomb_viscous+load(1, width=0.02)")
    found = from_paired_runs(arm, [loaded], [empty], {"m": GRIPPED[0]})
    assert found.values == pytest.approx(robot.gains, rel=0.02)
    assert np.all(np.abs(found.values - robot.gains) < 4.0 * found.std)
    assert found.payload[0] == GRIPPED[0]
    assert found.payload[1:4] == pytest.approx(GRIPPED[1:4], abs=0.02)
    with pytest.raises(InputError, match="needs its mass m"):
        from_paired_runs(arm, [loaded], [empty], {"mx": 1.0})
    with pytest.raises(InputError, match="runs both with and without"):
        from_paired_runs(arm, [loaded], [], {"m": 1.0})
    by_torque = replace(arm, effort=replace(arm.effort, gains=None))
    with pytest.raises(IdentificationError, match="identified from currents"):
        from_paired_runs(by_torque, [loaded], [empty], {"m": 1.0})


def test_what_cannot_be_is_refused(robot, pair):
    arm, _, loaded = pair
    with pytest.raises(InputError, match="no run with the payload"):
        identify_payload(arm, [])
    in_current = replace(arm, effort=replace(arm.effort, unit="A"))
    with pytest.raises(IdentificationError, match="without drive gains a payload has no scale"):
        identify_payload(in_current, [loaded])
    two = replace(loaded, q=loaded.q[:, :2], qd=loaded.qd[:, :2], current=loaded.current[:, :2])
    with pytest.raises(InputError, match="it is of 2 joints, the arm has 6"):
        identify_payload(arm, [two])


def test_the_recorded_payload_is_within_half_a_per_cent(ur10e_data):
    """2.805 kg on the scale; paired runs of one motion, the controller's own gains."""
    from core.models import load

    model = load(ur10e_data / "ur10e.urdf", rotor_inertia=True)
    folder = ur10e_data / "payload"
    empty = read(folder / "ur-20_02_19_14harm50sec.csv", "ur-log", (195, 4966))
    loaded = read(folder / "ur-20_02_19_14harm50secLoad.csv", "ur-log", (308, 5071))
    gains = (11.976, 11.976, 9.839, 10.763, 10.76, 11.33)
    arm = identify(model, [empty], gains=gains, friction="arctan+load+hysteresis")
    payload = identify_payload(arm, [loaded], [empty])
    assert payload.mass == pytest.approx(2.805, rel=0.005)
    assert payload.std[0] < 0.03
