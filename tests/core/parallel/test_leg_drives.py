"""Drives between motor current and force sensor: gains, screws and friction, and current as feedforward."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.dynamics.base_parameters import reduce_to_base
from core.errors import IdentificationError, InputError, ModelError
from core.excitation.motion_check import joint_samples
from core.excitation.trajectory import TrajectorySamples
from core.feedforward import build_table
from core.models import LegDrives, SixUPRU, model_from_document
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.leg_drives import found_drives, identify_drives
from core.recordings import Recording

Array = np.ndarray
AXIAL = ["Ia1", "Ia2+Ia3+Ia4"]
GAIN = np.array([250.0, 240.0, 263.0, 255.0, 246.0, 251.0])
SCREW = np.array([90.0, 85.0, 99.0, 80.0, 94.0, 92.0])
LOAD = 0.02
FRICTION = "coulomb_viscous+load(1, width=0.01)"


def current(robot: SixUPRU, reference: Any) -> Array:
    """What these drives take for a motion: friction grows with all that the screw carries."""
    _, rate, acceleration = robot.joint_motion(*reference.states)
    carried = robot.motor_force(*reference.states) + SCREW * acceleration
    friction = 50.0 * np.sign(rate) + 260.0 * rate + LOAD * np.abs(carried) * np.tanh(rate / 0.01)
    return (carried + friction) / GAIN


def recorded(robot: SixUPRU, reference: Any, noise: float = 0.02) -> Recording:
    data, rng = reference.data, np.random.default_rng(0)
    force = data["f_sensor"] + rng.normal(0.0, 0.5, (1001, 6))
    amperes = current(robot, reference) + rng.normal(0.0, noise, (1001, 6))
    return Recording("run", data["t"], data["l"], data["ld"], current=amperes, torque=force)


@pytest.fixture(scope="module")
def stages(upru: SixUPRU, fourier: Any) -> tuple[Identification, Identification]:
    run = recorded(upru, fourier)
    sensors = identify(upru.with_drive_gains(None), [run], friction="none", without=AXIAL)
    return sensors, identify_drives(sensors, [run], friction=FRICTION)


def test_gains_screws_and_friction_are_told_apart(stages: tuple[Identification, Identification]) -> None:
    _, drives = stages
    assert drives.unit == "A"
    found = found_drives(drives)
    np.testing.assert_allclose(found.gain, GAIN, rtol=0.01)
    assert np.all(np.abs(found.gain - GAIN) < 5.0 * found.gain_std)
    assert np.all(np.abs(found.screw_inertia - SCREW) < 5.0 * found.screw_inertia_std)
    assert found.screw_inertia_std.max() < 15.0
    named = dict(zip(drives.names, drives.parameters_, strict=True))
    for leg in range(1, 7):
        assert named[f"fc{leg}"] * GAIN[leg - 1] == pytest.approx(50.0, abs=5.0)
        assert named[f"k1_{leg}"] == pytest.approx(LOAD, abs=0.02)  # of the current that carries
    json.dumps(found.to_document())


def test_current_comes_out_as_feedforward(
    upru: SixUPRU, cosine: Any, stages: tuple[Identification, Identification]
) -> None:
    drives = Identification.from_document(json.loads(json.dumps(stages[1].to_document())))
    assert isinstance(drives.model, LegDrives)
    assert drives.model == stages[1].model
    platform = TrajectorySamples(0.01, cosine.data["t"], *cosine.states)
    table = build_table(drives, joint_samples(platform, drives.model))
    assert table.current is not None
    wanted = current(upru, cosine)
    moving = np.abs(cosine.data["ld"]) > 0.05
    assert np.sqrt(np.mean((table.current - wanted)[moving] ** 2)) < 0.02 * np.sqrt(np.mean(wanted[moving] ** 2))
    gains = drives.model.drive_gains
    assert gains is not None
    np.testing.assert_allclose(table.torque, table.current * gains, rtol=1e-5)


def test_drives_are_a_robot_of_their_own(upru: SixUPRU, fourier: Any) -> None:
    drives = LegDrives(upru, np.concatenate([1.0 / GAIN, SCREW / GAIN]))
    states = fourier.states
    expected = (upru.motor_force(*states) + SCREW * upru.leg_accelerations(*states)) / GAIN
    np.testing.assert_allclose(drives.inverse_dynamics(*states), expected, atol=1e-12)
    assert reduce_to_base(drives).base_names == drives.parameter_names
    assert model_from_document(json.loads(json.dumps(drives.to_document()))) == drives
    assert drives.with_gravity([0.0, 0.0, -1.0]).gravity[2] == -1.0
    with pytest.raises(InputError, match="told by its force sensors"):
        _ = drives.moved_body
    with pytest.raises(ModelError, match="incomplete or foreign"):
        LegDrives.from_document({"kind": "leg-drives", "version": 1})
    with pytest.raises(ModelError, match="not a leg-drives document"):
        LegDrives.from_document(upru.to_document())


def test_what_is_no_pair_of_current_and_force_is_refused(
    upru: SixUPRU, fourier: Any, stages: tuple[Identification, Identification]
) -> None:
    sensors, drives = stages
    run = recorded(upru, fourier)
    assert run.current is not None
    with pytest.raises(InputError, match="beside the forces of a 6-UPRU robot's sensors, in N; this result is in A"):
        identify_drives(drives, [run])
    with pytest.raises(InputError, match="no complete result of identify_drives"):
        found_drives(sensors)
    with pytest.raises(IdentificationError, match=r"drive gains of leg1, leg2, .* come out negative"):
        identify_drives(sensors, [replace(run, current=-run.current)])
    with pytest.raises(IdentificationError, match="there is no current in it"):
        identify_drives(sensors, [replace(run, current=None)])
