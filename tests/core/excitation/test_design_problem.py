"""Merit and its derivatives as the optimisers see them, with every kind of limit active."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import Workspace
from core.excitation.barrier_kernels import add_curvature
from core.excitation.columns import ObservationColumns
from core.excitation.criteria import ConditionNumber
from core.excitation.families import family
from core.excitation.limits import DesignLimits
from core.excitation.linear_limits import LinearLimits
from core.excitation.problem import DesignProblem, Smoothing
from core.friction import LAWS, friction_model
from core.models import JointLimits, catalogue
from core.signals.motion import JointMotion

START = np.array([0.0, -np.pi / 2, 0.0, -np.pi / 2, 0.0, 0.0])
UR10E = catalogue("ur10e", rotor_inertia=True)
SMOOTHING = Smoothing(sharpness=6.0, sign_width=0.1, barrier=0.01)


def make(
    joint_weights: np.ndarray | None = None, friction: str | list[str] | None = "coulomb_viscous"
) -> DesignProblem:
    columns = ObservationColumns(UR10E, friction, joint_weights)
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


MIXED = ["coulomb_viscous", "arctan(f4=3)", "stribeck", "power_viscous", "two_regime_cubic(threshold=0.1)", "arctan"]


@pytest.mark.parametrize("friction", [None, *LAWS, MIXED])
def test_gradient_is_right_for_the_columns_of_every_law(friction: str | list[str] | None) -> None:
    problem = make(friction=friction)
    x = inside(problem)
    _, gradient = problem.objective(x, SMOOTHING)
    direction = np.random.default_rng(1).normal(size=x.shape)
    up, down = (problem.objective(x + h * direction, SMOOTHING)[0] for h in (1e-6, -1e-6))
    assert (gradient * direction).sum() == pytest.approx((up - down) / 2e-6, rel=1e-4)


def test_columns_are_those_of_the_friction_model() -> None:
    problem = make(friction=MIXED)
    motion = problem.motion(inside(problem))
    model = friction_model(MIXED, 6)
    assert problem.columns.names[40:] == model.names
    W = problem.columns.matrix(motion).reshape(len(motion[0]), 6, -1)
    first = 40
    for j, own in enumerate(model.columns(JointMotion(problem.period, *motion))):
        np.testing.assert_array_equal(W[:, j, first : first + own.shape[1]], own)
        first += own.shape[1]
    assert np.count_nonzero(W[:, :, 40:].any(axis=0)) == first - 40  # and nothing elsewhere
    assert not problem.columns.gravity_dependent[40:].any()


@pytest.mark.parametrize(
    ("friction", "message"),
    [
        ("coulomb_viscous+load", "columns of load depend on more than velocity; name the law alone, 'coulomb_viscous'"),
        ("arctan+hysteresis+warmup", "columns of hysteresis, warmup depend"),
        ("stick", "unknown law 'stick'; there are coulomb_viscous"),
        (["arctan"], "for 1 joints, the robot has 6"),
    ],
)
def test_friction_of_more_than_velocity_is_refused(friction: str | list[str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        ObservationColumns(UR10E, friction)
    assert message in refused.value.detail


def test_violation_is_a_share_of_the_limit_and_nothing_inside() -> None:
    problem = make()
    x = inside(problem)
    assert problem.violation(x) == 0.0
    far = 50.0 * x
    use = np.abs(problem.linear.offset + problem.linear.rows @ far.T) / (
        0.5 * (problem.linear.upper - problem.linear.lower)
    )
    torque = np.abs(UR10E.inverse_dynamics(*problem.motion(far))) / UR10E.limits.torque
    assert problem.violation(far) == pytest.approx(max(use.max(), torque.max()) - 1.0, rel=0.05)


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


def test_curvature_of_limits_is_that_of_their_gradients() -> None:
    random = np.random.default_rng(5)
    slopes, bases = random.normal(size=(3, 7, 4, 2)), random.normal(size=(3, 7, 5))
    out = np.zeros((2, 5, 2, 5))
    add_curvature(slopes, bases, out)
    rows = np.einsum("oscj,osu->scju", slopes, bases).reshape(28, 10)
    expected = (rows.T @ rows).reshape(2, 5, 2, 5)
    for j, i in ((0, 0), (0, 1), (1, 1)):
        np.testing.assert_allclose(out[j, :, i], expected[j, :, i], rtol=1e-12, atol=1e-12)
    assert not out[1, :, 0].any()
