"""The search around the interior-point method: it stays inside, goes on from what is good, and suits other arms."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from core.excitation import check_motion
from core.excitation.basin_hopping import HOPS, STARTS, search
from core.excitation.columns import ObservationColumns
from core.excitation.criteria import ConditionNumber
from core.excitation.design import DesignSettings, design
from core.excitation.families import family
from core.excitation.limits import DesignLimits
from core.excitation.problem import DesignProblem
from core.excitation.search import Search, inwards
from core.models import JointLimits, SerialChain

STEPS = 12


def bounds(n: int) -> DesignLimits:
    joints = replace(
        JointLimits.unlimited(n),
        position_lower=np.full(n, -2.0),
        position_upper=np.full(n, 2.0),
        velocity=np.full(n, 1.5),
        acceleration=np.full(n, 3.0),
    )
    return DesignLimits(joints, np.zeros(n), np.full(n, 0.1))


def referee(robot: SerialChain, candidates: int, seed: int = 0) -> Search:
    limits = bounds(robot.n_joints)
    members = family("fourier_quintic", harmonics=2, duration=6.0, start=limits.start, end=limits.end)
    problem = DesignProblem(ObservationColumns(robot), ConditionNumber(), members, limits, samples=60)
    random = np.random.default_rng(seed)
    return Search(problem, 600.0, random, time.monotonic, max_candidates=candidates)


def test_a_walk_goes_below_the_starts_it_began_from(elbow: SerialChain) -> None:
    begun, walked = referee(elbow, STARTS), referee(elbow, STARTS + STEPS)
    search(begun)
    search(walked)
    assert begun.best is not None
    assert walked.best_value < 0.99 * begun.best_value
    values = [value for _, value in walked.history]
    assert values == sorted(values, reverse=True)


def test_every_hop_moves_and_none_leaves_the_limits(elbow: SerialChain, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.excitation import basin_hopping

    made: dict[str, float] = {}
    plain = basin_hopping._BasinHopping._hop

    def hop(self: basin_hopping._BasinHopping, kind: str, x: np.ndarray) -> np.ndarray:
        reached = plain(self, kind, x)
        assert own.problem.inside(reached)
        made[kind] = max(made.get(kind, 0.0), float(np.abs(reached - x).max()))
        return reached

    monkeypatch.setattr(basin_hopping._BasinHopping, "_hop", hop)
    own = referee(elbow, 60)
    search(own)
    assert made.pop("nowhere") == 0.0
    assert set(made) == set(HOPS) - {"nowhere"}
    assert min(made.values()) > 0.0


def test_inwards_ends_at_the_limits_or_at_the_target(elbow: SerialChain) -> None:
    own = referee(elbow, 1)
    x = own.random_start()
    assert inwards(own.problem, x, own.centre) is x
    far = own.centre + 50.0 * (x - own.centre)
    reached = inwards(own.problem, far, own.centre)
    assert own.problem.inside(reached)
    assert not own.problem.inside(own.centre + 1.05 * (reached - own.centre))


@pytest.fixture(scope="module")
def seven_joints() -> SerialChain:
    """Shoulder, elbow and wrist of an arm with one joint more than a pose needs."""
    n = 7
    mass, half = np.linspace(6.0, 1.0, n), np.full(n, 0.1)
    inertial = np.zeros((n, 10))
    inertial[:, 0] = mass
    inertial[:, 3] = mass * half
    inertial[:, [4, 6]] = (mass * half**2 + 0.03)[:, None]
    inertial[:, 9] = 0.02
    return SerialChain(
        name="seven joints",
        joint_names=tuple(f"joint_{j}" for j in range(1, n + 1)),
        joint_types=("revolute",) * n,
        placement_rotation=np.tile(np.eye(3), (n, 1, 1)),
        placement_translation=np.tile([0.0, 0.0, 0.2], (n, 1)),
        axis=np.array([[0.0, 0.0, 1.0] if j % 2 == 0 else [0.0, 1.0, 0.0] for j in range(n)]),
        inertial_parameters=inertial,
        rotor_inertia=np.full(n, 0.1),
        limits=JointLimits.unlimited(n),
    )


def test_an_arm_of_seven_joints(seven_joints: SerialChain) -> None:
    limits = bounds(7)
    settings = DesignSettings(
        harmonics=3, period=10.0, friction="coulomb_viscous", time_budget=600.0, max_candidates=STARTS
    )
    found = design(seven_joints, limits, settings)
    joints = {name: getattr(limits.joints, name) for name in limits.joints.names()}
    check_motion(found.trajectory.sample(0.001), seven_joints.with_limits(**joints), limits.workspace)
    by_chance = design(seven_joints, limits, replace(settings, time_budget=1e-9))
    assert found.condition_number < 0.2 * by_chance.condition_number
