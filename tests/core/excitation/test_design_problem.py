"""Merit and its derivatives as the optimisers see them, with every kind of limit active."""

from __future__ import annotations

import numpy as np
import pytest

from core.excitation import Workspace
from core.excitation.columns import ObservationColumns
from core.excitation.criteria import ConditionNumber
from core.excitation.families import family
from core.excitation.limits import DesignLimits
from core.excitation.linear_limits import LinearLimits
from core.excitation.problem import DesignProblem, Smoothing
from core.models import JointLimits, catalogue

START = np.array([0.0, -np.pi / 2, 0.0, -np.pi / 2, 0.0, 0.0])
UR10E = catalogue("ur10e", rotor_inertia=True)
SMOOTHING = Smoothing(sharpness=6.0, sign_width=0.1, barrier=0.01)


def make(joint_weights: np.ndarray | None = None) -> DesignProblem:
    columns = ObservationColumns(UR10E, "coulomb_viscous", joint_weights)
    members = family("fourier_quintic", harmonics=3, duration=8.0, start=START, end=START)
    limits = DesignLimits(UR10E.limits, START, START, Workspace(floor=-0.5, self_collision=0.01))
    return DesignProblem(columns, ConditionNumber(), members, limits, samples=60, prior=np.eye(columns.count))


def inside(problem: DesignProblem, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(0.0, 0.3, problem.shape)
    while not problem.inside(x):
        x *= 0.8
    return x


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 6)])
def test_gradient_of_the_merit_matches_differences(weights: np.ndarray | None) -> None:
    problem = make(weights)
    x = inside(problem)
    point = problem.point(x, SMOOTHING)
    rng = np.random.default_rng(1)
    for _ in range(4):
        direction = rng.normal(size=x.shape)
        up, down = (problem.point(x + h * direction, SMOOTHING).merit for h in (1e-6, -1e-6))
        assert point.gradient @ direction.ravel() == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_barrier_hessian_of_linear_limits_is_exact() -> None:
    problem = make()
    x = inside(problem, 1)
    _, _, blocks = problem.linear.barrier(x)
    direction = np.random.default_rng(2).normal(size=x.shape)
    up, down = (problem.linear.barrier(x + h * direction)[1] for h in (1e-6, -1e-6))
    curvature = np.stack([block @ row for block, row in zip(blocks, direction, strict=True)])
    np.testing.assert_allclose(curvature, (up - down) / 2e-6, rtol=1e-4, atol=1e-4)


def test_barrier_hessian_is_positive() -> None:
    values = np.linalg.eigvalsh(make().point(inside(make(), 2), SMOOTHING).barrier_hessian)
    assert values[0] > -1e-9 * values[-1]


def test_outside_is_infinitely_bad() -> None:
    problem = make()
    assert problem.point(np.full(problem.shape, 5.0), SMOOTHING).merit == np.inf


def test_largest_step_ends_at_the_first_limit() -> None:
    problem = make()
    x = inside(problem, 3)
    direction = np.random.default_rng(4).normal(size=x.shape)
    step = problem.linear.largest_step(x, direction)
    assert problem.linear.feasible(x + 0.999 * step * direction)
    assert not problem.linear.feasible(x + 1.001 * step * direction)


def test_without_limits_there_is_no_last_step() -> None:
    members = family("bspline", harmonics=2, duration=4.0, start=START, end=START)
    t = np.linspace(0.0, 4.0, 41)
    free = LinearLimits.of(members.basis(t), members.offset(t), JointLimits.unlimited(6))
    x = np.ones((6, 4))
    assert free.feasible(x)
    assert free.largest_step(x, x) == np.inf
    value, gradient, hessian = free.barrier(x)
    assert value == 0.0
    assert not gradient.any()
    assert not hessian.any()
