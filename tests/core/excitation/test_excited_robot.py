"""A robot that no serial chain describes takes part in a design through what ``ExcitedRobot`` asks for."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from core.errors import InputError, MotionLimitError
from core.excitation import TrajectorySamples
from core.excitation.columns import ObservationColumns
from core.excitation.criteria import ConditionNumber
from core.excitation.design import DesignSettings, design
from core.excitation.excited_robot import ExcitedArm, pull_back_by_differences
from core.excitation.families import family
from core.excitation.feasibility import InfeasibleError
from core.excitation.limits import DesignLimits
from core.excitation.motion_check import Clearance, LimitMargin, MotionReport
from core.excitation.nonlinear_limits import Gradients, NonlinearLimits, Shortfall
from core.excitation.problem import DesignProblem, Smoothing
from core.excitation.trajectory import Motion
from core.models import JointLimits, SerialChain, catalogue

Array = NDArray[np.float64]

START = np.array([0.5, 0.3])


def through_tool(motion: Motion, length: float) -> tuple[Motion, Array]:
    """Return joint motion and Jacobian (N, 2, 2) of an arm of two equal links whose tool moves so in its plane."""
    (x, z), v, a = motion[0].T, motion[1], motion[2]
    bend = 2.0 * np.arccos(np.hypot(x, z) / (2.0 * length))
    shoulder = -np.arctan2(z, x) - 0.5 * bend
    q = np.column_stack([shoulder, bend])
    first, second = shoulder, shoulder + bend
    J = np.empty((len(x), 2, 2))
    J[:, 0, 1], J[:, 1, 1] = -length * np.sin(second), -length * np.cos(second)
    J[:, 0, 0], J[:, 1, 0] = J[:, 0, 1] - length * np.sin(first), J[:, 1, 1] - length * np.cos(first)
    qd = np.linalg.solve(J, v[:, :, None])[:, :, 0]
    turning = np.cumsum(qd, axis=1)
    centripetal = np.column_stack(
        [
            -length * (np.cos(first) * turning[:, 0] ** 2 + np.cos(second) * turning[:, 1] ** 2),
            length * (np.sin(first) * turning[:, 0] ** 2 + np.sin(second) * turning[:, 1] ** 2),
        ]
    )
    qdd = np.linalg.solve(J, (a - centripetal)[:, :, None])[:, :, 0]
    return (q, qd, qdd), J


class JointSpeeds(NonlinearLimits):
    """Speeds of joints that the trajectory does not move directly, in rad/s."""

    kind = "joint speed"

    def __init__(self, length: float, most: float, gradients: bool) -> None:
        self.labels = ("shoulder", "elbow", "shoulder", "elbow")
        self.guard = np.full(4, 0.01)
        self._length, self._most, self._with_gradients = length, most, gradients

    def margins(self, motion: Motion) -> Array:
        (_, qd, _), _ = through_tool(motion, self._length)
        return np.hstack([self._most - qd, self._most + qd])

    def pull_back(self, motion: Motion, multipliers: Array) -> Motion:
        return pull_back_by_differences(self.margins, motion, multipliers)

    def gradients(self, motion: Motion) -> Gradients | None:
        if not self._with_gradients:
            return None
        margins = self.margins(motion)
        rows = [self.pull_back(motion, np.eye(4)[column] + 0.0 * margins) for column in range(4)]
        by_q, by_qd, _ = (np.stack([row[order] for row in rows], axis=1) for order in range(3))
        return by_q, by_qd, None

    def shortfall(self, column: int, margin: float) -> Shortfall:
        text = f"speed of the {self.labels[column]}, {-margin:.3g} rad/s too much"
        return Shortfall(text, max(-margin, 0.0), {"joint": column + 1})


class ByTheTool:
    """Two equal links in a vertical plane, moved in x and z of their end: a stand-in for a parallel robot."""

    name = "tool"
    coordinate_names = ("x", "z")
    coordinate_units = ("m", "m")
    n_rows = 2
    joints_move_alone = False

    def __init__(self, arm: SerialChain, most: float, gradients: bool) -> None:
        self._arm = ExcitedArm(arm)
        self.length = float(arm.placement_translation[1, 0])
        self._speeds = JointSpeeds(self.length, most, gradients)

    @property
    def base_names(self) -> tuple[str, ...]:
        return self._arm.base_names

    def probes(self, count: int) -> Motion:
        q, qd, qdd = np.random.default_rng(0).uniform(-0.2, 0.2, (3, count, 2))
        return START + q, qd, qdd

    def base_regressor(self, motion: Motion) -> Array:
        joints, _ = through_tool(motion, self.length)
        return self._arm.base_regressor(joints)

    def pull_back(self, motion: Motion, weights: Array) -> Motion:
        return pull_back_by_differences(self.base_regressor, motion, weights)

    def coordinate_limits(self, limits: DesignLimits) -> JointLimits:
        return limits.joints

    def nonlinear_limits(self, limits: DesignLimits) -> tuple[NonlinearLimits, ...]:
        return (self._speeds,)

    def check(self, samples: TrajectorySamples, limits: DesignLimits) -> MotionReport:
        margins = self._speeds.margins((samples.q, samples.qd, samples.qdd))
        row, column = np.unravel_index(int(np.argmin(margins)), margins.shape)
        least = float(margins[row, column])
        if least < 0.0:
            raise MotionLimitError("too fast", kind="joint speed", value=least)
        position = LimitMargin("position", (0.5, 0.5), (0.1, 0.1), ("m", "m"))
        return MotionReport(samples.duration, (position,), (Clearance("elbow", least, float(samples.t[row])),))

    def digest(self) -> str:
        return "tool"


@pytest.fixture(scope="module")
def planar() -> SerialChain:
    inertial = np.zeros((2, 10))
    inertial[:, 0], inertial[:, 1] = 2.0, 0.4
    inertial[:, [4, 6, 9]] = 0.15
    return SerialChain(
        name="planar",
        joint_names=("shoulder", "elbow"),
        joint_types=("revolute", "revolute"),
        placement_rotation=np.tile(np.eye(3), (2, 1, 1)),
        placement_translation=np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]),
        axis=np.tile([0.0, 1.0, 0.0], (2, 1)),
        inertial_parameters=inertial,
        limits=JointLimits.unlimited(2),
        tool=np.block([[np.eye(3), np.array([[0.5], [0.0], [0.0]])], [np.zeros(3), 1.0]]),
    )


BOUNDS = DesignLimits(
    JointLimits(START - 0.2, START + 0.2, *(np.full(2, bound) for bound in (0.8, 4.0, np.inf, np.inf))), START, START
)
SETTINGS = DesignSettings(harmonics=2, period=4.0, time_budget=600.0)
STEPS = 100


@pytest.mark.parametrize("gradients", [False, True])
def test_a_robot_is_designed_for_in_other_coordinates_than_its_joints(planar: SerialChain, gradients: bool) -> None:
    robot = ByTheTool(planar, 1.2, gradients)
    steps = itertools.count()
    found = design(robot, BOUNDS, SETTINGS, stop=lambda: next(steps) > STEPS)
    samples = found.trajectory.sample(0.001)
    joints, _ = through_tool((samples.q, samples.qd, samples.qdd), robot.length)
    frames = planar.joint_frames(joints[0])  # the tool is where it should be
    np.testing.assert_allclose(frames[:, -1, [0, 2], 3], samples.q, atol=1e-9)
    assert 1.0 < np.abs(joints[1]).max() <= 1.2
    W = np.linalg.cond(robot.base_regressor((samples.q, samples.qd, samples.qdd)).reshape(-1, len(robot.base_names)))
    assert found.condition_number == pytest.approx(W, rel=1e-6)
    chance = design(robot, BOUNDS, replace(SETTINGS, time_budget=1e-9))
    assert found.value < chance.value
    assert found.model_digest == "tool"


@pytest.mark.parametrize("gradients", [False, True])
def test_its_merit_has_the_gradient_that_differences_show(planar: SerialChain, gradients: bool) -> None:
    robot = ByTheTool(planar, 1.2, gradients)
    members = family("fourier_quintic", harmonics=2, duration=4.0, start=START, end=START)
    problem = DesignProblem(ObservationColumns(robot), ConditionNumber(), members, BOUNDS, samples=60)
    x = np.random.default_rng(0).normal(0.0, 0.2, problem.shape)
    while not problem.inside(x):
        x *= 0.8
    smoothing = Smoothing(6.0, 0.1, 0.01)
    point = problem.point(x, smoothing)
    direction = np.random.default_rng(1).normal(size=x.shape)
    up, down = (problem.point(x + h * direction, smoothing).merit for h in (1e-6, -1e-6))
    assert point.gradient @ direction.ravel() == pytest.approx((up - down) / 2e-6, rel=1e-5)
    assert np.linalg.eigvalsh(point.barrier_hessian)[0] > -1e-9 * np.linalg.norm(point.barrier_hessian)


def test_what_it_cannot_keep_is_named_in_its_own_words(planar: SerialChain) -> None:
    robot = ByTheTool(planar, 0.1, gradients=False)
    bounds = DesignLimits(BOUNDS.joints, START, START + np.array([0.15, 0.0]))
    with pytest.raises(InfeasibleError, match=r"what binds is speed of the (shoulder|elbow), 0\.") as refused:
        design(robot, bounds, DesignSettings(harmonics=2, period=2.0))
    assert refused.value.context["kind"] == "joint speed"


def test_joint_friction_is_refused_where_coordinates_are_no_joints(planar: SerialChain) -> None:
    with pytest.raises(InputError, match="not moved joint by joint"):
        ObservationColumns(ByTheTool(planar, 1.0, gradients=False), "coulomb_viscous")


def test_reverse_mode_agrees_with_differences_for_an_arm() -> None:
    """Those of the test go to both sides, far more exact; the one-sided ones of a search tell as much as it needs."""
    arm = ExcitedArm(catalogue("ur10e", rotor_inertia=True))
    random = np.random.default_rng(3)
    q, qd, qdd = (random.normal(size=(7, 6)) for _ in range(3))
    weights = random.normal(size=(7, 6, len(arm.base_names)))
    reverse = arm.pull_back((q, qd, qdd), weights)
    rough = pull_back_by_differences(arm.base_regressor, (q, qd, qdd), weights)
    for order, (own, one_sided) in enumerate(zip(reverse, rough, strict=True)):
        exact = np.empty_like(own)
        for j in range(6):
            ahead, behind = ([signal.copy() for signal in (q, qd, qdd)] for _ in range(2))
            ahead[order][:, j] += 1e-5
            behind[order][:, j] -= 1e-5
            change = arm.base_regressor(tuple(ahead)) - arm.base_regressor(tuple(behind))  # type: ignore[arg-type]
            exact[:, j] = np.einsum("krb,krb->k", weights, change) / 2e-5
        np.testing.assert_allclose(own, exact, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(one_sided, exact, rtol=1e-3, atol=1e-3)
