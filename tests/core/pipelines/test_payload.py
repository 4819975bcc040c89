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
GAINS = (11.976, 11.976, 9.839, 10.763, 10.76, 11.33)


def record(
    robot, seed: int, payload: np.ndarray, noise: float, noise_seed: int | None = None, grows: float = LOAD_FRICTION
) -> Recording:
    model = robot.model
    carrying = replace(
        model, inertial_parameters=model.inertial_parameters + np.vstack([np.zeros((model.n_joints - 1, 10)), payload])
    )
    recording = replace(robot, model=carrying).record(seed, noise=noise, noise_seed=noise_seed, seconds=16.0)
    q, qd, qdd = robot.motion(recording.t, seed)
    grown = grows * np.abs(carrying.inverse_dynamics(q, qd, qdd)) * np.tanh(qd / 0.02)
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


@pytest.fixture(scope="module")
def nominal_arm(robot) -> tuple[Identification, Recording, Recording]:
    """Nominal gains off by up to a quarter, and not alike; what is noise in one run is not in the other."""
    empty, loaded = record(robot, 1, 0.0 * GRIPPED, 0.3, 5), record(robot, 1, GRIPPED, 0.3, 6)
    nominal = robot.gains * [1.25, 0.9, 1.1, 0.8, 1.05, 1.0]
    arm = identify(robot.model, [empty], gains=nominal, friction="coulomb_viscous+load(1, width=0.02)")
    return arm, empty, loaded


def test_a_known_mass_tells_the_drive_gains(robot, nominal_arm):
    arm, empty, loaded = nominal_arm
    found = from_paired_runs(arm, [loaded], [empty], {"m": GRIPPED[0]})
    assert found.values[:5] == pytest.approx(robot.gains[:5], rel=0.02)
    assert np.all(np.abs(found.values - robot.gains) < 4.0 * found.std)
    assert np.all(found.std[:3] < 0.01 * robot.gains[:3])
    assert found.payload[0] == GRIPPED[0]
    assert found.payload[1:4] == pytest.approx(GRIPPED[1:4], abs=0.02)
    assert found.disagreement < 1.5
    more = dict(zip(("m", "mx", "my", "mz"), GRIPPED.tolist(), strict=False))
    better = from_paired_runs(arm, [loaded], [empty], more)
    assert np.all(better.std <= 1.05 * found.std)
    assert np.all(np.abs(better.values - robot.gains) < 4.0 * better.std)


def test_what_a_model_gets_wrong_in_both_runs_leaves_the_gains_alone(robot):
    """A torque that no arm has, the same in both runs."""
    runs = [record(robot, 1, body, 0.3, 7 + i, grows=0.0) for i, body in enumerate((0.0 * GRIPPED, GRIPPED))]
    odd = [replace(r, current=r.current + 3.0 * np.sin(3.0 * r.q) ** 3 / robot.gains) for r in runs]
    arm = identify(robot.model, odd[:1], gains=robot.gains)
    assert np.all(arm.residual_std_ > 0.4)
    found = from_paired_runs(arm, odd[1:], odd[:1], {"m": GRIPPED[0]})
    assert found.values[:5] == pytest.approx(robot.gains[:5], rel=0.03)


def test_joints_that_disagree_about_the_payload_are_less_sure(robot, nominal_arm):
    """One joint feels another payload than the others do."""
    arm, empty, loaded = nominal_arm
    mixed = loaded.current.copy()
    mixed[:, 4] = record(robot, 1, GRIPPED * [1, -1, 1, 1, 1, 1, 1, 1, 1, 1], 0.3, 6).current[:, 4]
    found = from_paired_runs(arm, [replace(loaded, current=mixed)], [empty], {"m": GRIPPED[0]})
    calm = from_paired_runs(arm, [loaded], [empty], {"m": GRIPPED[0]})
    assert found.disagreement > 2.0 * max(calm.disagreement, 1.0)
    assert np.median(found.std / calm.std) > 2.0
    assert any("the joints disagree about the payload" in warning for warning in found.warnings)
    document = json.loads(json.dumps(found.to_document(), allow_nan=False))
    assert document["gains"] == found.values.tolist()
    assert document["payload"]["m"] == GRIPPED[0]


def test_gains_that_cannot_be_told_are_refused(nominal_arm):
    arm, empty, loaded = nominal_arm
    with pytest.raises(InputError, match="needs its mass m"):
        from_paired_runs(arm, [loaded], [empty], {"mx": 1.0})
    with pytest.raises(InputError, match="runs both with and without"):
        from_paired_runs(arm, [loaded], [], {"m": 1.0})
    by_torque = replace(arm, effort=replace(arm.effort, gains=None))
    with pytest.raises(IdentificationError, match="identified from currents"):
        from_paired_runs(by_torque, [loaded], [empty], {"m": 1.0})
    with pytest.raises(IdentificationError, match="the payload tells no drive gain"):
        from_paired_runs(arm, [empty], [empty], {"m": 50.0})


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


@pytest.fixture(scope="module")
def recorded(ur10e_data) -> tuple[Identification, Recording, Recording]:
    """2.805 kg on the scale; paired runs of one motion, the controller's own gains."""
    from core.models import load

    model = load(ur10e_data / "ur10e.urdf", rotor_inertia=True)
    folder = ur10e_data / "payload"
    empty = read(folder / "ur-20_02_19_14harm50sec.csv", "ur-log", (195, 4966))
    loaded = read(folder / "ur-20_02_19_14harm50secLoad.csv", "ur-log", (308, 5071))
    return identify(model, [empty], gains=GAINS, friction="arctan+load+hysteresis"), empty, loaded


def test_the_recorded_payload_is_within_half_a_per_cent(recorded):
    arm, empty, loaded = recorded
    payload = identify_payload(arm, [loaded], [empty])
    assert payload.mass == pytest.approx(2.805, rel=0.005)
    assert payload.std[0] < 0.03


def test_the_recorded_payload_tells_the_gains_of_the_controller(recorded):
    """What gears lose of the load is in these gains, most in the wrist; the first joint hardly feels the payload."""
    arm, empty, loaded = recorded
    found = from_paired_runs(arm, [loaded], [empty], {"m": 2.805})
    assert found.values[1:3] == pytest.approx(GAINS[1:3], rel=0.03)
    assert found.values[3:] == pytest.approx(GAINS[3:], rel=0.10)
    assert abs(found.values[0] - GAINS[0]) < 2.0 * found.std[0]
    assert any("shoulder_pan_joint are known to no better than 5%" in warning for warning in found.warnings)
