"""From platform to legs and back, angles of the universal joints, and what is said where there is no answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError, KinematicsError, ModelError
from core.models import SixUPRU

Array = np.ndarray
seeds = st.integers(0, 2**31)
moderately = settings(max_examples=15, deadline=None)
STEP = 2e-3


def differentiated(function: Callable[[float], Array]) -> Array:
    """Sixth-order central difference at 0."""
    weights = {-3: -1, -2: 9, -1: -45, 1: 45, 2: -9, 3: 1}
    return sum(weight * function(k * STEP) for k, weight in weights.items()) / (60.0 * STEP)


def test_legs_agree_with_the_reference(reference: Any) -> None:
    robot, data = reference
    for found, name in zip(robot.joint_motion(*reference.states), ("l", "ld", "ldd"), strict=True):
        np.testing.assert_allclose(found, data[name], atol=1e-12)
    lower, upper = robot.leg_angular_velocity(data["q"][::10], data["qd"][::10])
    np.testing.assert_allclose(lower, data["omega_b"], atol=1e-12)
    np.testing.assert_allclose(upper, data["omega_p"], atol=1e-12)


def test_the_platforms_state_follows_from_the_legs(reference: Any) -> None:
    robot, data = reference
    start = data["q"][0] + 0.01
    found = robot.from_joints(data["l"], data["ld"], data["ldd"], start=start)
    for value, expected in zip(found, reference.states, strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-12)


@given(seed=seeds)
@moderately
def test_leg_rates_and_accelerations_are_derivatives(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot, ((q,), (qd,), (qdd,)) = bodies.model(), bodies.states(seed, 1)

    def pose(t: float) -> Array:
        return q + qd * t + 0.5 * qdd * t**2

    rates = differentiated(lambda t: robot.leg_lengths(pose(t))[0])
    accelerations = differentiated(lambda t: robot.leg_rates(pose(t), qd + qdd * t)[0])
    np.testing.assert_allclose(robot.leg_rates(q, qd)[0], rates, atol=1e-8)
    np.testing.assert_allclose(robot.leg_accelerations(q, qd, qdd)[0], accelerations, atol=1e-7)


@given(seed=seeds)
@moderately
def test_any_state_comes_back_from_its_legs(random_upru: Callable[[int], Any], seed: int) -> None:
    bodies = random_upru(seed)
    robot, states = bodies.model(), bodies.states(seed, 1)
    for found, expected in zip(robot.from_joints(*robot.joint_motion(*states)), states, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


@given(seed=seeds)
@moderately
def test_universal_joints_turn_as_the_source_says(random_upru: Callable[[int], Any], seed: int) -> None:
    """omega_b = theta_b1' r_b1 + theta_b2' r_b2, and omega - omega_p likewise: equations (12) and (17)."""
    bodies = random_upru(seed)
    robot, ((q,), (qd,), _) = bodies.model(), bodies.states(seed, 1)
    rates = differentiated(lambda t: np.unwrap(robot.joint_angles([q, q + qd * t]), axis=0)[1])
    lower, upper = (omega[0] for omega in robot.leg_angular_velocity(q, qd))
    R, _, omega, _, _ = bodies.platform(q, qd, np.zeros(6))
    n = q[:3] + robot.platform_joints @ R.T - robot.base_joints
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    for joint, (first, turning) in enumerate(((robot.base_axes, lower), (robot.platform_axes @ R.T, omega - upper))):
        second = np.cross(first, n)
        second /= np.linalg.norm(second, axis=1, keepdims=True)
        np.testing.assert_allclose(rates[:, joint, :1] * first + rates[:, joint, 1:] * second, turning, atol=1e-7)
    np.testing.assert_allclose(robot.joint_angles(robot.home), 0.0, atol=1e-15)


def test_poses_are_found_from_home(upru: SixUPRU) -> None:
    random = np.random.default_rng(0)
    q = upru.home + random.uniform(-1.0, 1.0, (200, 6)) * (0.15, 0.15, 0.15, 0.3, 0.3, 0.3)
    lengths = upru.leg_lengths(q)
    assert np.abs(lengths - upru.leg_lengths(upru.home)).max() > 0.2
    np.testing.assert_allclose(upru.forward_kinematics(lengths), q, atol=1e-12)
    np.testing.assert_allclose(upru.forward_kinematics(lengths, q + 0.01), q, atol=1e-12)


def test_impossible_lengths_are_reported_with_their_sample(upru: SixUPRU) -> None:
    lengths = np.tile(upru.leg_lengths(upru.home), (5, 1))
    lengths[3] = 0.05
    with pytest.raises(KinematicsError, match="sample 4") as caught:
        upru.forward_kinematics(lengths)
    assert caught.value.context["sample"] == 4
    lengths[3] = upru.leg_lengths(upru.home)[0] * (1.0, 3.0, 1.0, 1.0, 3.0, 1.0)
    with pytest.raises(KinematicsError, match="sample 4"):
        upru.from_joints(lengths, np.zeros((5, 6)), np.zeros((5, 6)))
    lengths[3, 2] = np.nan
    with pytest.raises(InputError, match="sample 4 is not finite"):
        upru.forward_kinematics(lengths)
    with pytest.raises(InputError, match=r"start has shape \(5,\)"):
        upru.forward_kinematics(lengths, np.zeros(5))


@pytest.mark.parametrize(("where", "axis"), [("base", "base_axes"), ("platform", "platform_axes")])
def test_a_leg_parallel_to_its_joints_axis_is_named(upru: SixUPRU, where: str, axis: str) -> None:
    pose = upru.home.copy()
    pose[0] += 0.02  # there n is the same in both frames
    n = pose[:3] + upru.platform_joints[4] - upru.base_joints[4]
    axes = getattr(upru, axis).copy()
    axes[4] = n / np.linalg.norm(n)
    robot = replace(upru, **{axis: axes})
    poses = np.array([upru.home, pose])
    with pytest.raises(KinematicsError, match=f"sample 2: leg 'leg5' is parallel .* fixed to the {where}") as caught:
        robot.regressor(poses, 0 * poses, 0 * poses)
    assert caught.value.code == "pose-singular"
    assert caught.value.context["sample"] == 2


def ring(*degrees: float, radius: float) -> Array:
    angle = np.radians(degrees)
    return radius * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(6)])


def test_a_pose_that_the_legs_do_not_hold_is_singular(upru: SixUPRU) -> None:
    """A platform of threefold symmetry is singular when turned by a right angle (Fichter 1986)."""
    robot = replace(
        upru,
        base_joints=ring(-45, 45, 75, 165, 195, 285, radius=0.7),
        platform_joints=ring(-12, 12, 108, 132, 228, 252, radius=0.4),
    )
    singular = np.array([0.0, 0.0, 1.0, np.pi / 2, 0.0, 0.0])
    with pytest.raises(KinematicsError, match="sample 1: the pose is singular, the legs do not hold the platform"):
        robot.inverse_dynamics(singular, np.zeros(6), np.zeros(6))
    assert robot.jacobian_condition(singular)[0] > 1e10
    assert robot.jacobian_condition(robot.home)[0] < 10.0


def test_similar_hexagons_are_no_geometry(upru: SixUPRU) -> None:
    hexagon = ring(-15, 15, 105, 135, 225, 255, radius=1.0)
    with pytest.raises(ModelError, match="legs cannot hold the platform in its home pose") as caught:
        replace(upru, base_joints=hexagon, platform_joints=0.5 * hexagon)
    assert caught.value.code == "geometry-singular"


def test_conditioning_does_not_depend_on_the_unit_of_length(upru: SixUPRU) -> None:
    millimetres = replace(
        upru,
        base_joints=1e3 * upru.base_joints,
        platform_joints=1e3 * upru.platform_joints,
        home=upru.home * (1e3, 1e3, 1e3, 1, 1, 1),
    )
    expected = upru.jacobian_condition(upru.home)
    np.testing.assert_allclose(millimetres.jacobian_condition(millimetres.home), expected, rtol=1e-9)


def test_what_is_no_number_gives_no_pose_and_no_force(upru: SixUPRU) -> None:
    still, nothing = np.zeros((1, 6)), np.full((1, 6), np.nan)
    with pytest.raises(InputError, match="sample 1 is not finite"):
        upru.forward_kinematics(nothing)
    with pytest.raises(InputError, match="start has entries that are not finite"):
        upru.forward_kinematics(upru.leg_lengths(upru.home), nothing)
    for wrench, problem in ((nothing, "not finite"), (["strong"] * 6, "no array of numbers")):
        with pytest.raises(InputError, match=f"wrench .*{problem}"):
            upru.inverse_dynamics(upru.home, still, still, wrench)


def test_a_platform_without_extent_is_refused(upru: SixUPRU) -> None:
    with pytest.raises(ModelError, match="platform_joints") as caught:
        replace(upru, platform_joints=np.zeros((6, 3)))
    assert caught.value.code == "geometry-singular"
