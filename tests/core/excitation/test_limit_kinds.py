"""Every optimiser with every kind of limit: what comes back keeps it, and where nothing can, the limit is named."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from core.excitation import Workspace, check_motion
from core.excitation.design import OPTIMIZERS, DesignSettings, design
from core.excitation.feasibility import InfeasibleError
from core.excitation.limits import DesignLimits
from core.models import JointLimits, SerialChain

START = np.array([0.0, -0.6, 1.0])
FREE = JointLimits.unlimited(3)
ROOMY = replace(FREE, velocity=np.full(3, 3.0), acceleration=np.full(3, 20.0))
SETTINGS = DesignSettings(harmonics=2, period=4.0, time_budget=600.0)
STEPS = 60


def limits(kind: str) -> DesignLimits:
    """Return limits of which one kind is tight, and the others are not."""
    joints = {
        "position": replace(ROOMY, position_lower=START - 0.4, position_upper=START + 0.6),
        "speed": replace(ROOMY, velocity=np.full(3, 0.4)),
        "acceleration": replace(ROOMY, acceleration=np.array([0.5, 1.0, 2.0])),
        "jerk": replace(ROOMY, jerk=np.full(3, 3.0)),
        "predicted torque": replace(ROOMY, torque=np.array([3.0, 32.0, 8.0])),
    }
    rooms = {
        "box": Workspace(box=np.array([[-np.inf, -np.inf, 0.2], [np.inf, np.inf, 1.0]])),
        "floor": Workspace(floor=0.3),
        "self-collision": Workspace(self_collision=0.3, radii=np.full(4, 0.05)),
    }
    return DesignLimits(joints.get(kind, ROOMY), START, START, rooms.get(kind, Workspace()))


KINDS = ("position", "speed", "acceleration", "jerk", "predicted torque", "box", "floor", "self-collision")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, "coman"])
def test_each_optimiser_keeps_each_kind_of_limit(optimizer: str, kind: str, elbow: SerialChain) -> None:
    bounds = limits(kind)
    if optimizer == "coman":
        settings = replace(SETTINGS, family="fourier_segments", harmonics=3, segments=2, criterion="coman")
    else:
        settings = replace(SETTINGS, optimizer=optimizer)
    steps = itertools.count()
    found = design(elbow, bounds, settings, stop=lambda: next(steps) > STEPS)
    joints = {name: getattr(bounds.joints, name) for name in bounds.joints.names()}
    samples = found.trajectory.sample(0.001)
    report = check_motion(samples, elbow.with_limits(**joints), bounds.workspace)
    np.testing.assert_allclose(samples.q[[0, -1]], [START, START], atol=1e-9)
    assert np.isfinite(found.value)
    use = {margin.kind: max(margin.use) for margin in report.margins}
    if kind in use:
        assert use[kind] > 0.3  # it matters
    else:
        assert min(clearance.least for clearance in report.clearances) < 0.2


APART = Workspace(self_collision=0.05, radii=np.full(4, 0.05))
FOLDED = np.array([0.0, 1.27, 2.48])
FAR = START + np.array([0.0, 1.2, 0.0])


@pytest.mark.parametrize(
    ("kind", "bounds", "named"),
    [
        ("position", DesignLimits(replace(FREE, position_lower=START - [-0.1, 1, 1]), START, START), "joint 1"),
        ("speed", DesignLimits(replace(FREE, velocity=np.full(3, 0.1)), START, FAR), "joint 2"),
        ("acceleration", DesignLimits(replace(FREE, acceleration=np.full(3, 0.1)), START, FAR), "joint 2"),
        ("jerk", DesignLimits(replace(FREE, jerk=np.full(3, 0.1)), START, FAR), "joint 2"),
        ("torque", DesignLimits(replace(FREE, torque=np.array([9.0, 5.0, 9.0])), START, START), "joint 2"),
        ("workspace", DesignLimits(ROOMY, START, START, Workspace(floor=1.0)), "above the floor"),
        ("workspace", DesignLimits(ROOMY, START, START, Workspace(box=np.array([[2, -1, -1], [3, 1, 2.0]]))), "tool x"),
        (
            "workspace",
            DesignLimits(ROOMY, FOLDED, START, Workspace(self_collision=0.05, radii=np.full(4, 0.05))),
            "base to revolute_3",
        ),
    ],
)
def test_what_no_trajectory_can_keep_is_named(kind: str, bounds: DesignLimits, named: str, elbow: SerialChain) -> None:
    with pytest.raises(InfeasibleError) as refused:
        design(elbow, bounds, SETTINGS)
    assert refused.value.context["kind"] == kind
    assert named in refused.value.detail
    assert refused.value.context["excess"] > 0.0


def test_limits_that_leave_hardly_any_room_are_named_with_what_they_lack(elbow: SerialChain) -> None:
    """What is just possible on the grid of a search may not be on that of 1 ms."""
    bounds = DesignLimits(replace(FREE, acceleration=np.full(3, 0.2)), START, FAR)
    with pytest.raises(InfeasibleError) as refused:
        design(elbow, bounds, SETTINGS)
    needed = refused.value.context["value"]
    tight = replace(bounds, joints=replace(FREE, acceleration=np.full(3, abs(needed) * (1.0 + 1e-5))))
    with pytest.raises(InfeasibleError, match=r"hardly any room.*joint 2") as refused:
        design(elbow, tight, replace(SETTINGS, time_budget=0.2))
    assert refused.value.context["kind"] == "acceleration"
    assert 0.0 < refused.value.context["excess"] < 0.01


def test_a_motion_too_small_to_show_anything_says_what_holds_it_back(elbow: SerialChain) -> None:
    bounds = DesignLimits(replace(FREE, acceleration=np.full(3, 1e-7)), START, START)
    with pytest.raises(InfeasibleError, match=r"moves too little.*acceleration of joint"):
        design(elbow, bounds, replace(SETTINGS, period=0.1, time_budget=0.2))
