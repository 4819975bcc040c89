"""Limits of a platform's legs while a trajectory is searched: which of them count, and how they change."""

from __future__ import annotations

import numpy as np
import pytest

from core.excitation.excited_platform import LegLimits
from core.models import SixUPRU, resolve

RANDOM = np.random.default_rng(4)


@pytest.fixture(scope="module")
def robot() -> SixUPRU:
    robot = resolve("upru6")
    assert isinstance(robot, SixUPRU)
    return robot


def motion(robot: SixUPRU, samples: int) -> tuple[np.ndarray, ...]:
    size = np.array([0.05, 0.05, 0.05, 0.1, 0.1, 0.1])
    q, qd, qdd = RANDOM.uniform(-1.0, 1.0, (3, samples, 6)) * size
    return q + robot.home, qd, qdd


@pytest.mark.parametrize("side", ["position_upper", "position_lower"])
def test_a_length_that_is_limited_on_one_side_is_limited(robot, side):
    states = motion(robot, 20)
    lengths = robot.joint_motion(*states)[0]
    ends = {"position_upper": np.full(6, np.inf), "position_lower": np.full(6, -np.inf)}
    ends[side][2] = np.median(lengths[:, 2])
    limits = robot.with_limits(**ends, velocity=[np.inf] * 6, acceleration=[np.inf] * 6).limits
    group = LegLimits(robot, limits, states[0][:1])
    assert group.labels == ("length of leg 3 (" + robot.joint_names[2] + ")",)
    within = lengths[:, 2] < ends[side][2] if side == "position_upper" else lengths[:, 2] > ends[side][2]
    margins = group.margins(states)[:, 0]
    assert np.array_equal(margins > 0.0, within)
    worst = int(np.argmin(margins))
    assert group.shortfall(0, margins[worst]).excess == pytest.approx(abs(lengths[worst, 2] - ends[side][2]))


def test_gradients_of_the_margins_are_their_derivatives(robot):
    states = motion(robot, 5)
    lengths = robot.joint_motion(*states)[0]
    limits = robot.with_limits(
        position_lower=[-np.inf, *[lengths.min() - 0.1] * 5],
        position_upper=lengths.max(axis=0) + 0.1,
        velocity=[0.5] * 6,
        acceleration=[2.0] * 6,
    ).limits
    group = LegLimits(robot, limits, states[0][:1])
    assert len(group.labels) == 11 + 24
    for which, gradient in enumerate(group.gradients(states)):
        for coordinate in range(6):
            step = 1e-6 * np.eye(6)[coordinate]
            ends = [[s + sign * step * (k == which) for k, s in enumerate(states)] for sign in (1.0, -1.0)]
            slope = (group.margins(ends[0]) - group.margins(ends[1])) / 2e-6
            assert gradient[:, :, coordinate] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_nothing_limited_is_no_limit(robot):
    free = robot.with_limits(
        position_lower=[-np.inf] * 6,
        position_upper=[np.inf] * 6,
        velocity=[np.inf] * 6,
        acceleration=[np.inf] * 6,
    ).limits
    assert LegLimits(robot, free, motion(robot, 1)[0]).labels == ()


def test_slopes_of_joint_angles_and_conditioning_are_their_derivatives(robot):
    q = motion(robot, 6)[0]
    angles, jacobians = robot.posture_slopes(q)
    conditions = robot.conditioning(q).slopes(jacobians)
    for coordinate in range(6):
        step = 1e-6 * np.eye(6)[coordinate]
        ends = [
            (robot.joint_angles(q + sign * step), robot.jacobian_condition(q + sign * step)) for sign in (1.0, -1.0)
        ]
        assert angles[..., coordinate] == pytest.approx((ends[0][0] - ends[1][0]) / 2e-6, rel=1e-5, abs=1e-6)
        assert conditions[:, coordinate] == pytest.approx((ends[0][1] - ends[1][1]) / 2e-6, rel=1e-4, abs=1e-4)


def test_the_regressor_goes_backwards_as_differences_say(robot):
    states = motion(robot, 7)
    weights = np.random.default_rng(8).normal(size=(len(states[0]), 6, 17))
    for order, own in enumerate(robot.regressor_adjoint(*states, weights)):
        for coordinate in range(6):
            step = 1e-5 * np.eye(6)[coordinate]
            ends = [[s + sign * step * (k == order) for k, s in enumerate(states)] for sign in (1.0, -1.0)]
            change = robot.base_regressor(*ends[0]) - robot.base_regressor(*ends[1])
            expected = np.einsum("krb,krb->k", weights, change) / 2e-5
            assert own[:, coordinate] == pytest.approx(expected, rel=1e-6, abs=1e-5)
