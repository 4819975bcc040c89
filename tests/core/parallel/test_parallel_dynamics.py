"""Forces of a 6-UPRU robot against two multibody engines, the source's equations body by body, and energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.models import SixUPRU

Array = np.ndarray
seeds = st.integers(0, 2**31)
moderately = settings(max_examples=15, deadline=None)


def test_forces_agree_with_two_multibody_engines(reference: Any) -> None:
    robot, data = reference
    sensor, motor = robot.inverse_dynamics(*reference.states), robot.motor_force(*reference.states)
    for force, name in ((sensor, "f_sensor"), (motor, "f_motor")):
        error = force - data[name]  # Exudyn, time integration of 25 bodies
        assert np.sqrt(np.mean(error**2)) < 1e-4
        assert np.abs(error).max() < 1e-3
        assert np.abs(force - data[f"{name}_pin"]).max() < 1e-8  # Pinocchio, loop closures


def test_regressors_give_the_forces_back(reference: Any) -> None:
    robot, states = reference.robot, reference.states
    force = robot.inverse_dynamics(*states)
    regressor, base_regressor = robot.regressor(*states), robot.base_regressor(*states)
    assert regressor.shape == (1001, 6, 29)
    assert base_regressor.shape == (1001, 6, 17)
    assert np.abs(regressor @ robot.parameters - force).max() < 1e-9
    assert np.abs(base_regressor @ robot.base_parameters - force).max() < 1e-9


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_any_robot_agrees_with_the_equations_of_the_source(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot, states = bodies.model(), bodies.states(seed, 4)
    wrench = np.random.default_rng(seed).normal(size=(4, 6)) * 100.0
    expected = np.array([bodies.forces(*sample) for sample in zip(*states, wrench, strict=True)])
    tolerance = 1e-10 * np.abs(expected).max()
    np.testing.assert_allclose(robot.inverse_dynamics(*states, wrench=wrench), expected[:, 0], atol=tolerance)
    np.testing.assert_allclose(robot.motor_force(*states, wrench=wrench), expected[:, 1], atol=tolerance)


@given(seed=seeds)
@moderately
def test_any_parameters_enter_linearly_through_both_regressors(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot = bodies.model().with_parameters(np.random.default_rng(seed).normal(size=29))  # no body behind them
    states = bodies.states(seed, 20)
    force = robot.inverse_dynamics(*states)
    tolerance = 1e-11 * np.abs(force).max()
    np.testing.assert_allclose(robot.regressor(*states) @ robot.parameters, force, atol=tolerance)
    np.testing.assert_allclose(robot.base_regressor(*states) @ robot.base_parameters, force, atol=tolerance)


@given(seed=seeds)
@settings(max_examples=6, deadline=None)
def test_the_power_of_the_legs_is_the_change_of_energy(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot = bodies.model()
    (q,), (qd,), (qdd,) = bodies.states(seed, 1)
    step = 2e-3
    weights = {-3: -1, -2: 9, -1: -45, 1: 45, 2: -9, 3: 1}  # sixth-order difference, over 60 steps

    def energy(t: float) -> float:
        return bodies.energy(q + qd * t + 0.5 * qdd * t**2, qd + qdd * t)

    change = sum(weight * energy(k * step) for k, weight in weights.items()) / (60.0 * step)
    power = robot.inverse_dynamics(q, qd, qdd)[0] @ robot.leg_rates(q, qd)[0]
    rod = robot.motor_force(q, qd, qdd)[0] - robot.inverse_dynamics(q, qd, qdd)[0]
    power += rod @ robot.leg_rates(q, qd)[0]
    assert power == pytest.approx(change, abs=1e-7 * max(1.0, abs(bodies.energy(q, qd))))


@given(seed=seeds)
@moderately
def test_an_external_wrench_does_virtual_work(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot, (q, qd, qdd) = bodies.model(), bodies.states(seed, 5)
    wrench = np.random.default_rng(seed).normal(size=6) * 50.0
    change = robot.inverse_dynamics(q, qd, qdd, wrench=wrench) - robot.inverse_dynamics(q, qd, qdd)
    step = 1e-6
    for sample in range(5):  # the platform's small motion from two poses, not from the Jacobian
        before, after = (bodies.platform(q[sample] + s * qd[sample], qd[sample], qdd[sample])[0] for s in (-step, step))
        turn = (after @ before.T - before @ after.T) / (4.0 * step)
        twist = np.array([*qd[sample, :3], turn[2, 1], turn[0, 2], turn[1, 0]])
        lengths = robot.leg_lengths([q[sample] - step * qd[sample], q[sample] + step * qd[sample]])
        rates = np.diff(lengths, axis=0)[0] / (2.0 * step)
        assert change[sample] @ rates + wrench @ twist == pytest.approx(0.0, abs=1e-5 * np.abs(wrench @ twist) + 1e-6)


def test_an_external_wrench_is_told_from_the_sensors(reference: Any) -> None:
    robot, states = reference.robot, reference.states
    wrench = np.random.default_rng(0).normal(size=(1001, 6)) * 100.0
    force = robot.inverse_dynamics(*states, wrench=wrench)
    assert np.abs(robot.external_wrench(*states, force) - wrench).max() < 1e-9


@given(seed=seeds)
@moderately
def test_forces_do_not_depend_on_how_the_base_frame_lies(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot, (q, qd, qdd) = bodies.model(), bodies.states(seed, 3)
    angle = np.random.default_rng(seed).uniform(-1.0, 1.0)
    turn = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])

    def turned(signal: Array, offset: float) -> Array:
        return np.column_stack([signal[:, :3] @ turn.T, signal[:, 3] + offset, signal[:, 4:]])

    other = replace(
        robot,
        base_joints=robot.base_joints @ turn.T,
        base_axes=robot.base_axes @ turn.T,
        gravity=turn @ robot.gravity,
        home=turned(robot.home[None], angle)[0],
    )
    expected = robot.inverse_dynamics(q, qd, qdd)
    found = other.inverse_dynamics(turned(q, angle), turned(qd, 0.0), turned(qdd, 0.0))
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(("kind", "rank"), [("any", 17), ("no gravity", 16), ("translation", 11), ("static", 6)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rank_is_what_the_structure_allows(random_upru: Callable[[int], Any], seed: int, kind: str, rank: int) -> None:
    bodies = random_upru(seed)
    robot, (q, qd, qdd) = bodies.model(), bodies.states(seed, 400)
    if kind == "no gravity":
        robot = robot.with_gravity([0.0, 0.0, 0.0])
    if kind == "translation":
        q[:, 3:], qd[:, 3:], qdd[:, 3:] = robot.home[3:], 0.0, 0.0
    if kind == "static":
        qd, qdd = np.zeros_like(qd), np.zeros_like(qdd)
    for columns in (robot.regressor(q, qd, qdd), robot.base_regressor(q, qd, qdd)):
        stacked = columns.reshape(-1, columns.shape[-1])
        scale = np.linalg.norm(stacked, axis=0)
        scaled = stacked / np.where(scale > 1e-9 * scale.max(), scale, np.inf)
        size = np.linalg.svd(scaled, compute_uv=False)
        assert np.count_nonzero(size > 1e-8 * size[0]) == rank


def test_treating_the_legs_as_ups_would_show(reference: Any) -> None:
    """Axial inertia of the links matters in the third digit of a newton, so the reference tells models apart."""
    robot, data = reference
    parameters = robot.parameters.copy()
    parameters[[0, 2]] = 0.0
    error = robot.with_parameters(parameters).inverse_dynamics(*reference.states) - data["f_sensor_pin"]
    assert np.abs(error).max() > 1e-3


def test_wrong_shapes_are_refused(upru: SixUPRU) -> None:
    q = np.tile(upru.home, (4, 1))
    with pytest.raises(InputError, match=r"qd has shape \(6, 4\), expected \(N, 6\)"):
        upru.inverse_dynamics(q, np.zeros((6, 4)), q)
    with pytest.raises(InputError, match="qdd has 3 samples, but q has 4"):
        upru.regressor(q, q, q[:3])
    with pytest.raises(InputError, match=r"wrench has shape \(3,\), expected \(6,\) or \(4, 6\)"):
        upru.inverse_dynamics(q, q, q, wrench=[0.0, 0.0, 1.0])
    with pytest.raises(InputError, match=r"force has 1 samples, but q has 4"):
        upru.external_wrench(q, q, q, np.zeros(6))
    assert upru.inverse_dynamics(upru.home, np.zeros(6), np.zeros(6)).shape == (1, 6)


@given(seed=seeds)
@moderately
def test_accelerations_come_back_from_forces(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot, (q, qd, qdd) = bodies.model(), bodies.states(seed, 4)
    wrench = np.random.default_rng(seed).normal(size=(4, 6)) * 50.0
    sensor, motor = robot.inverse_dynamics(q, qd, qdd, wrench), robot.motor_force(q, qd, qdd, wrench)
    np.testing.assert_allclose(robot.forward_dynamics(q, qd, sensor, wrench), qdd, atol=1e-8)
    np.testing.assert_allclose(robot.forward_dynamics(q, qd, motor, wrench, at="motor"), qdd, atol=1e-8)
    alone = robot.forward_dynamics(q[0], qd[0], robot.inverse_dynamics(q[0], qd[0], qdd[0], wrench[0]), wrench[0])
    np.testing.assert_allclose(alone, qdd[:1], atol=1e-8)
