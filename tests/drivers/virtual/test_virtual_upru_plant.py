"""The simulated parallel robot: forces are the mechanism's, drives follow, instruments lie as they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from drivers.virtual.truth import truth_leg_current, truth_leg_force
from drivers.virtual.upru_parameters import UpruPlantParameters, perturbed_upru, upru_model
from drivers.virtual.upru_plant import PERIOD, UpruPlant

Array = NDArray[np.float64]
MODEL = upru_model()


def wave(seconds: float) -> tuple[Array, Array, Array]:
    """A smooth motion of the platform from its home pose and back: q, qd, qdd (N, 6)."""
    t = np.arange(round(seconds / PERIOD) + 1) * PERIOD
    w = 2.0 * np.pi / seconds
    amplitude = np.array([0.04, 0.03, 0.04, 0.05, 0.06, 0.05])
    shape = np.sin(2.0 * w * t) * (1.0 - np.cos(w * t)) / 2.0
    rate = w * (np.cos(2 * w * t) * (1 - np.cos(w * t)) + np.sin(2 * w * t) * np.sin(w * t) / 2)
    change = w**2 * (
        -2 * np.sin(2 * w * t) * (1 - np.cos(w * t))
        + 2 * np.cos(2 * w * t) * np.sin(w * t)
        + np.sin(2 * w * t) * np.cos(w * t) / 2
    )
    return MODEL.home + np.outer(shape, amplitude), np.outer(rate, amplitude), np.outer(change, amplitude)


def quiet(parameters: UpruPlantParameters) -> UpruPlantParameters:
    return replace(parameters, force_noise=0.0, current_noise=0.0)


def play(plant: UpruPlant, targets: tuple[Array, Array, Array], feed: Array) -> tuple[Array, Array]:
    """Return what was measured (N, 4, 6) and the pose (N, 6) at the beginning of each cycle."""
    measured, poses = [], []
    for row, current in zip(np.stack(targets, axis=1), feed, strict=True):
        poses.append(plant.pose)
        assert plant.run_cycle(row, current, enabled=True)
        measured.append(plant.measured.copy())
    return np.array(measured), np.array(poses)


def test_no_two_robots_are_alike_and_none_is_the_catalogues() -> None:
    one, same, other = (perturbed_upru(MODEL, seed) for seed in (1, 1, 2))
    assert one.robot == same.robot
    assert np.array_equal(one.sensor_tare, same.sensor_tare)
    for robot in (one, other):
        change = robot.robot.base_parameters / MODEL.base_parameters - 1.0
        assert np.abs(change).max() > 0.05
        assert abs(robot.robot.parameters[13] / MODEL.parameters[13] - 1.0) > 0.04
        tilt = np.degrees(np.arccos(robot.robot.gravity @ MODEL.gravity / 9.81**2))
        assert 0.3 < tilt < 1.3
        assert np.array_equal(robot.robot.base_joints, MODEL.base_joints)
    assert not np.allclose(one.robot.parameters, other.robot.parameters)


def test_forces_at_the_sensors_are_those_of_the_inverse_dynamics() -> None:
    """With what the platform really does: poses of the plant, differentiated as it integrates them."""
    parameters = quiet(perturbed_upru(MODEL, 3))
    plant = UpruPlant(parameters)
    q, qd, qdd = wave(1.5)
    targets = MODEL.joint_motion(q, qd, qdd)
    measured, poses = play(plant, targets, np.zeros_like(q))
    rate = np.diff(poses, axis=0) / PERIOD  # at the end of each cycle
    acceleration = np.diff(rate, axis=0) / PERIOD
    force = truth_leg_force(parameters, poses[1:-1], rate[:-1], acceleration)
    shown = parameters.sensor_gain * force + parameters.sensor_tare
    assert np.abs(measured[1:-1, 3] - shown).max() < 1e-3
    assert np.abs(measured[:, 0] - MODEL.leg_lengths(poses)).max() < 1e-7


def test_feedforward_of_the_true_current_reduces_the_tracking_error() -> None:
    parameters = perturbed_upru(MODEL, 4)
    motion = wave(3.0)
    targets = MODEL.joint_motion(*motion)
    error = []
    for share in (0.0, 1.0):
        plant = UpruPlant(parameters)
        current = truth_leg_current(parameters, *motion)
        measured, _ = play(plant, targets, share * (current - current[0]))
        error.append(np.sqrt(np.mean((targets[0] - measured[:, 0]) ** 2)))
    assert 1e-4 < error[0] < 2e-3
    assert error[1] < 0.5 * error[0]


def test_noise_is_on_the_instruments_not_in_the_robot() -> None:
    parameters = perturbed_upru(MODEL, 5)
    plants = [UpruPlant(parameters), UpruPlant(quiet(parameters))]
    q, qd, qdd = wave(0.5)
    targets = MODEL.joint_motion(q, qd, qdd)
    noisy, clean = (play(plant, targets, np.zeros_like(q))[0] for plant in plants)
    assert np.array_equal(noisy[:, :2], clean[:, :2])
    assert (noisy[:, 3] - clean[:, 3]).std() == pytest.approx(parameters.force_noise, rel=0.1)
    assert (noisy[:, 2] - clean[:, 2]).std() == pytest.approx(parameters.current_noise, rel=0.1)


def test_brakes_hold_the_platform_in_motion_and_at_rest() -> None:
    plant = UpruPlant(quiet(perturbed_upru(MODEL, 6)))
    motion = wave(1.0)
    targets = MODEL.joint_motion(*motion)
    half = 300
    play(plant, (targets[0][:half], targets[1][:half], targets[2][:half]), np.zeros((half, 6)))
    held = plant.pose
    for _ in range(50):
        plant.run_cycle(np.stack(targets)[:, half], np.zeros(6), enabled=False)
    assert np.array_equal(plant.pose, held)
    assert (plant.measured[2] == 0.0).all()


def test_a_saturated_sensor_reads_its_limit() -> None:
    plant = UpruPlant(perturbed_upru(MODEL, 7))
    plant.saturated[2] = True
    target = np.vstack([plant.measured[0], np.zeros((2, 6))])
    plant.run_cycle(target, np.zeros(6), enabled=True)
    assert plant.measured[3, 2] == plant.force_limit
    assert (np.delete(plant.measured[3], 2) < 1000.0).all()
