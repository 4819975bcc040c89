"""Clearances to floor, box and between links: against an independent library, and their gradients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import coal
import numpy as np
import pytest

from core.errors import InputError, MotionLimitError
from core.excitation import FourierQuintic, Workspace, check_motion
from core.excitation.workspace import WorkspaceCheck
from core.models import JointLimits, SerialChain, catalogue, load

EVERYTHING = Workspace(box=np.array([[-1.0, -1.0, 0.1], [1.0, np.inf, 1.5]]), floor=0.05, self_collision=0.03)
UPRIGHT = np.array([0.0, -np.pi / 2, 0.0, -np.pi / 2, 0.0, 0.0])


@pytest.fixture(scope="module")
def ur10e() -> SerialChain:
    return catalogue("ur10e")


def sliding_chain() -> SerialChain:
    return SerialChain(
        name="slider",
        joint_names=("a", "b", "c"),
        joint_types=("prismatic", "revolute", "prismatic"),
        placement_rotation=np.tile(np.eye(3), (3, 1, 1)),
        placement_translation=np.array([[0.0, 0.0, 0.5], [0.4, 0.0, 0.1], [0.5, 0.1, 0.0]]),
        axis=np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        inertial_parameters=np.ones((3, 10)),
        limits=JointLimits.unlimited(3),
        tool=np.block([[np.eye(3), np.array([[0.3], [0.0], [0.1]])], [np.zeros(3), 1.0]]),
    )


@pytest.mark.parametrize("chain", [catalogue("ur10e"), sliding_chain()], ids=["ur10e", "slider"])
def test_gradients_match_differences(chain: SerialChain) -> None:
    check = WorkspaceCheck(EVERYTHING, chain)
    q = np.random.default_rng(0).uniform(-1.5, 1.5, (40, chain.n_joints))
    values, gradient = check.clearances_and_gradients(q)
    np.testing.assert_array_equal(values, check.clearances(q))
    h = 1e-6
    for j in range(chain.n_joints):
        step = h * np.eye(chain.n_joints)[j]
        difference = (check.clearances(q + step) - check.clearances(q - step)) / (2 * h)
        np.testing.assert_allclose(gradient[:, :, j], difference, atol=1e-6)


def test_distances_between_links_are_those_of_a_collision_library(ur10e: SerialChain) -> None:
    check = WorkspaceCheck(Workspace(self_collision=0.0), ur10e)
    q = np.random.default_rng(1).uniform(-3.0, 3.0, (30, 6))
    found, frames = check.clearances(q), ur10e.joint_frames(q)
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    for k in range(len(q)):
        points = np.vstack([np.zeros(3), frames[k, :, :3, 3]])
        for column, (a, b) in enumerate(check.pairs):
            shapes, places = [], []
            for link in (a, b):
                along = points[link + 1] - points[link]
                length = float(np.linalg.norm(along))
                rotation = np.eye(3)
                if length > 0.0:
                    rotation[:, 2] = along / length
                    rotation[:, 0] = np.linalg.svd(rotation[:, 2:].T)[2][1]
                    rotation[:, 1] = np.cross(rotation[:, 2], rotation[:, 0])
                shapes.append(coal.Capsule(float(check.radii[link]), length))
                places.append(coal.Transform3s(rotation, 0.5 * (points[link] + points[link + 1])))
            result.clear()
            expected = coal.distance(shapes[0], places[0], shapes[1], places[1], request, result)
            assert found[k, column] == pytest.approx(expected, abs=1e-4)


def test_neighbours_and_links_that_stubby_ones_join_are_left_out(ur10e: SerialChain) -> None:
    pairs = {(int(a), int(b)) for a, b in WorkspaceCheck(EVERYTHING, ur10e).pairs}
    assert all(b - a > 1 for a, b in pairs)
    assert {(0, 2), (3, 5), (4, 6)}.isdisjoint(pairs)  # the shoulder's and the wrist's elbows
    assert {(0, 4), (0, 6), (1, 5), (2, 6), (3, 6)} <= pairs


def test_asking_for_more_distance_checks_the_same_pairs(ur10e: SerialChain) -> None:
    few, many = (WorkspaceCheck(Workspace(self_collision=distance), ur10e) for distance in (0.0, 0.05))
    np.testing.assert_array_equal(few.pairs, many.pairs)
    slim = WorkspaceCheck(Workspace(self_collision=0.0, radii=np.full(7, 0.02)), ur10e)
    assert {tuple(pair) for pair in few.pairs} < {tuple(pair) for pair in slim.pairs}


def test_a_distance_that_two_links_never_have_is_refused_by_name(ur10e: SerialChain) -> None:
    with pytest.raises(InputError, match=r"elbow_joint to wrist_3_joint can be apart.*more than 0\.05") as refused:
        WorkspaceCheck(Workspace(self_collision=0.1), ur10e)
    assert refused.value.code == "self-collision-impossible"


def test_default_radii_are_those_of_the_robot_not_of_its_file(ur10e: SerialChain, ur10e_data: Path) -> None:
    dh, urdf = (WorkspaceCheck(EVERYTHING, arm).radii[0] for arm in (ur10e, load(ur10e_data / "ur10e.urdf")))
    assert urdf == pytest.approx(dh, rel=0.002)
    assert dh == pytest.approx(0.057, abs=0.0005)


def test_links_that_a_slide_keeps_apart_are_checked() -> None:
    chain = sliding_chain()
    far = WorkspaceCheck(Workspace(self_collision=0.0), chain)
    assert far.pairs.tolist() == [[0, 2], [0, 3], [1, 3]]
    near = replace(chain, placement_translation=0.1 * chain.placement_translation, tool=np.eye(4))
    thick = Workspace(self_collision=0.0, radii=np.full(4, 0.1))
    still = near.with_limits(position_lower=-0.01, position_upper=0.01)
    assert WorkspaceCheck(thick, still).pairs.size == 0
    assert WorkspaceCheck(thick, near.with_limits(position_lower=-0.5, position_upper=0.5)).pairs.size > 0


def test_motion_check_names_what_is_too_close_and_when(ur10e: SerialChain) -> None:
    a = np.zeros((6, 2))
    a[1] = [0.7, -0.7]
    dip = FourierQuintic(6.0, a, np.zeros((6, 2)), UPRIGHT, UPRIGHT).sample(0.002)
    report = check_motion(dip, ur10e, Workspace(floor=-2.0))
    assert len(report.clearances) == 6
    lowest = min(report.clearances, key=lambda clearance: clearance.least)
    frames = ur10e.joint_frames(dip.q)
    radius = WorkspaceCheck(Workspace(), ur10e).radii[0]
    assert lowest.least == pytest.approx(frames[:, 1:, 2, 3].min() - radius + 2.0)
    with pytest.raises(MotionLimitError) as refused:
        check_motion(dip, ur10e, Workspace(floor=-2.0 + lowest.least + 0.01))
    assert refused.value.context["kind"] == "workspace"
    assert refused.value.context["value"] < 0.0
    assert "above the floor" in refused.value.context["between"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"box": [[0.0, 0.0, 0.0], [1.0, -1.0, 1.0]]}, "least and the largest"),
        ({"floor": float("nan")}, "floor must be a finite"),
        ({"self_collision": -0.1}, "must not be negative"),
        ({"radii": [-0.1, 0.1]}, "at least 0 m"),
    ],
)
def test_impossible_workspaces_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Workspace(**arguments)  # type: ignore[arg-type]


def test_radii_are_one_per_body(ur10e: SerialChain) -> None:
    with pytest.raises(InputError, match="needs 7"):
        WorkspaceCheck(Workspace(self_collision=0.0, radii=np.ones(3)), ur10e)
