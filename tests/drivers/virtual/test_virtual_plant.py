"""The simulated robot: its physics against independent formulas, and how far it is from its model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.virtual_arms import three_joint
from drivers.virtual.lugre import LuGreFriction, bend
from drivers.virtual.plant import CONTROL_PERIOD, JOINT_ENCODER, Plant
from drivers.virtual.plant_parameters import (
    NominalDrives,
    PlantParameters,
    controller_model,
    inertial_parameters,
    perturbed_plant,
    pseudo_inertia,
)
from drivers.virtual.truth import truth_torque
from drivers.virtual.ur_controller.variables import CYCLE_ROWS

HOME = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
MODEL = controller_model()
ROW = {name: index for index, name in enumerate(CYCLE_ROWS)}


def at_rest(q: np.ndarray = HOME) -> np.ndarray:
    return np.vstack([q, np.zeros(6), np.zeros(6)])


def swing(t: float) -> np.ndarray:
    """A smooth motion of all joints that starts at rest; speed zero only at its turning points."""
    w, amplitude = 2.0 * np.pi * 0.3, np.array([0.6, 0.4, 0.5, 0.6, 0.6, 0.6])
    return np.array(
        [
            HOME + amplitude * (1.0 - np.cos(w * t)),
            amplitude * w * np.sin(w * t),
            amplitude * w * w * np.cos(w * t),
        ]
    )


def passive(parameters: PlantParameters) -> Plant:
    """A robot whose drives are off."""
    plant = Plant(MODEL, parameters, HOME)
    plant.drives.current_limit[:] = 0.0
    return plant


def energy(plant: Plant) -> float:
    chain = plant.parameters.chain
    q, qd = plant.state.q, plant.state.qd
    kinetic = 0.5 * qd @ chain.mass_matrix(q)[0] @ qd
    potential = 0.0
    for frame, row in zip(chain.joint_frames(q)[0], chain.inertial_parameters, strict=False):
        potential -= chain.gravity @ (frame[:3, :3] @ row[1:4] + row[0] * frame[:3, 3])
    return float(kinetic + potential)


def frictionless(parameters: PlantParameters) -> PlantParameters:
    small = np.full(6, 1e-9)
    friction = LuGreFriction(small * 1e3, 0 * small, small, small, np.full(6, 0.1), 0 * small)
    return replace(parameters, friction=friction)


# --- friction ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [1e-4, 5e-4, 2e-3])
@pytest.mark.parametrize("speed", [-2.0, -0.1, -0.01, 0.01, 0.1, 2.0])
def test_sliding_steadily_takes_the_steady_state_torque(speed: float, dt: float) -> None:
    friction = perturbed_plant(MODEL, 5).friction
    expected = friction.steady_state(np.full(6, speed))
    for row, torque in zip(friction.table(), expected, strict=True):
        deflection = 0.0
        for _ in range(round(0.03 / abs(speed) / dt)):  # thirty times the presliding distance
            deflection, got, slope = bend(row, deflection, speed, dt)
        assert got == pytest.approx(torque, rel=1e-5)
        assert slope == pytest.approx(0.0, abs=1e-3 * row[0])


def test_the_curve_falls_from_static_to_coulomb_then_rises() -> None:
    friction = perturbed_plant(MODEL, 5).friction
    slow, fast = friction.steady_state(np.full(6, 1e-6)), friction.steady_state(np.full(6, 0.25))
    np.testing.assert_allclose(slow, friction.static, rtol=1e-3)
    np.testing.assert_allclose(fast - friction.viscous * 0.25, friction.coulomb, rtol=1e-3)
    np.testing.assert_array_equal(friction.steady_state(np.zeros(6)), 0.0)


def test_presliding_is_a_spring() -> None:
    row = perturbed_plant(MODEL, 5).friction.table()[0]
    deflection = 0.0
    for _ in range(100):
        deflection, torque, _slope = bend(row, deflection, 1e-3, 1e-3)
    assert deflection == pytest.approx(1e-4, rel=0.1)
    assert torque == pytest.approx(row[0] * deflection, rel=0.05)


# --- rigid body -------------------------------------------------------------------------------------------


def test_energy_is_kept_without_friction_and_lost_with_it() -> None:
    parameters = perturbed_plant(MODEL, 2)
    free = passive(frictionless(parameters))
    before = energy(free)
    for _ in range(150):
        free.run_cycle(at_rest())
    scale = 0.5 * free.state.qd @ parameters.chain.mass_matrix(free.state.q)[0] @ free.state.qd
    assert scale > 20.0  # it fell
    assert abs(energy(free) - before) < 0.01 * scale

    rubbing = passive(parameters)
    energies = [energy(rubbing)]
    for _ in range(150):
        rubbing.run_cycle(at_rest())
        energies.append(energy(rubbing))
    assert np.diff(energies).max() < 1e-3
    assert energies[-1] < before - 1.0


def test_torque_that_the_drives_give_is_the_truth_of_the_motion() -> None:
    parameters = perturbed_plant(MODEL, 7)
    plant = Plant(MODEL, parameters, HOME)
    torque, states = [], []
    for k in range(1500):
        assert plant.run_cycle(swing(k * CONTROL_PERIOD))
        states.append((plant.state.q.copy(), plant.state.qd.copy()))
        torque.append(plant.out[ROW["joint_control_output"]] * parameters.drive_gains)
    q, qd = (np.array(values) for values in zip(*states, strict=True))
    qdd = np.diff(qd, axis=0) / CONTROL_PERIOD
    middle = slice(1, None)
    truth = truth_torque(parameters, (q[:-1] + q[middle]) / 2, (qd[:-1] + qd[middle]) / 2, qdd)
    sliding = np.abs(qd[middle]) > 0.15  # presliding is no function of the state
    error = np.where(sliding, truth - np.array(torque)[middle], 0.0)
    assert sliding.mean() > 0.7
    assert np.all(np.sqrt((error**2).mean(axis=0)) < 0.01 * np.abs(truth).max(axis=0))


def test_drives_track_and_the_tool_follows() -> None:
    plant = Plant(MODEL, perturbed_plant(MODEL, 7), HOME)
    for k in range(1500):
        assert plant.run_cycle(swing(k * CONTROL_PERIOD))
        error = np.abs(plant.out[ROW["target_q"]] - plant.out[ROW["actual_q"]])
        assert error.max() < 2e-3
    q, qd = plant.out[ROW["target_q"]], plant.out[ROW["target_qd"]]
    frame = MODEL.joint_frames(q)[0, -1]
    pose, speed = plant.out[ROW["target_TCP_pose"]], plant.out[ROW["target_TCP_speed"]]
    np.testing.assert_allclose(pose[:3], frame[:3, 3], atol=1e-12)
    angle = np.linalg.norm(pose[3:])
    assert np.trace(frame[:3, :3]) == pytest.approx(1.0 + 2.0 * np.cos(angle), abs=1e-9)
    np.testing.assert_allclose(frame[:3, :3] @ pose[3:], pose[3:], atol=1e-9)
    ahead = MODEL.joint_frames(q + 1e-6 * qd)[0, -1]
    np.testing.assert_allclose(speed[:3], (ahead - frame)[:3, 3] / 1e-6, atol=1e-5)
    spin = (ahead - frame)[:3, :3] @ frame[:3, :3].T / 1e-6
    np.testing.assert_allclose(speed[3:], [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-5)


# --- what the controller shows ----------------------------------------------------------------------------


def test_at_rest_moment_over_current_is_the_calibrated_gain() -> None:
    parameters = perturbed_plant(MODEL, 7)
    plant = Plant(MODEL, parameters, HOME)
    plant.run_cycle(at_rest())
    moment, current = plant.out[ROW["target_moment"]], plant.out[ROW["target_current"]]
    loaded = np.abs(moment) > 1.0
    assert loaded.sum() >= 3
    np.testing.assert_allclose(moment[loaded] / current[loaded], parameters.calibrated_gains[loaded], rtol=1e-12)
    np.testing.assert_allclose(moment, MODEL.inverse_dynamics(HOME, 0 * HOME, 0 * HOME)[0], atol=1e-9)


def test_readings_are_quantised_and_currents_noisy() -> None:
    parameters = perturbed_plant(MODEL, 7)
    plant = Plant(MODEL, parameters, HOME)
    measured = []
    for k in range(1000):
        plant.run_cycle(at_rest() if k < 500 else swing((k - 500) * CONTROL_PERIOD))
        counts = plant.out[ROW["actual_q"]] / JOINT_ENCODER
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
        measured.append(plant.out[ROW["actual_current"]] - plant.out[ROW["joint_control_output"]])
    np.testing.assert_allclose(np.std(measured, axis=0), parameters.nominal.current_noise, rtol=0.15)


# --- the individual ---------------------------------------------------------------------------------------


def test_the_same_seed_is_the_same_robot() -> None:
    runs = []
    for _ in range(2):
        plant = Plant(MODEL, perturbed_plant(MODEL, 11), HOME)
        for k in range(50):
            plant.run_cycle(swing(k * CONTROL_PERIOD))
        runs.append(plant.out.copy())
    np.testing.assert_array_equal(runs[0], runs[1])
    other = perturbed_plant(MODEL, 12)
    assert not np.allclose(other.chain.parameters, perturbed_plant(MODEL, 11).chain.parameters, rtol=0.01)


def test_rotor_columns_of_the_model_make_no_other_robot() -> None:
    with_rotors = perturbed_plant(MODEL.with_rotor_inertia(np.ones(6)), 11)
    assert with_rotors.chain == perturbed_plant(MODEL, 11).chain


@pytest.mark.parametrize("seed", range(5))
def test_no_value_is_the_models_and_every_link_could_exist(seed: int) -> None:
    robot = perturbed_plant(MODEL, seed)
    mass = robot.chain.inertial_parameters[:, 0] / MODEL.inertial_parameters[:, 0] - 1.0
    assert np.all((np.abs(mass) >= 0.05) & (np.abs(mass) <= 0.2))
    rotor = robot.chain.rotor_inertia / NominalDrives.of(MODEL).rotor_inertia - 1.0
    assert np.all((np.abs(rotor) >= 0.05) & (np.abs(rotor) <= 0.2))
    gain = robot.drive_gains / MODEL.drive_gains - 1.0
    assert np.all((np.abs(gain) >= 0.02) & (np.abs(gain) <= 0.08))
    calibration = robot.calibrated_gains / robot.drive_gains - 1.0
    assert np.all(np.abs(calibration) <= 0.004) and np.any(np.abs(calibration) > 1e-4)
    assert np.all(robot.friction.static > robot.friction.coulomb)
    for true, believed in zip(robot.chain.inertial_parameters, MODEL.inertial_parameters, strict=True):
        assert np.linalg.eigvalsh(pseudo_inertia(true)).min() > 0.0
        centre, nominal = true[1:4] / true[0], believed[1:4] / believed[0]
        gyration = np.sqrt(np.trace(pseudo_inertia(believed)[:3, :3]) / believed[0] - nominal @ nominal)
        assert 0.04 * gyration < np.linalg.norm(centre - nominal) < 0.21 * gyration
        np.testing.assert_allclose(inertial_parameters(pseudo_inertia(true)), true, atol=1e-12)


def test_an_arm_of_three_joints_stays_within_its_memory() -> None:
    arm = three_joint(1)
    pose = np.array([0.1, 0.2, 0.3])
    plant = Plant(arm.model, arm.parameters, pose, arm.design)
    guarded = np.full((17, 3), 7.0)
    plant.out = guarded[:15]
    plant.out[:] = 0.0
    assert plant.run_cycle(np.vstack([pose, np.zeros((2, 3))]))
    assert np.all(guarded[15:] == 7.0)
    assert not plant.out[11:].any()
