"""Payload and mounting as part of a model, and the robots of the catalogue."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from core.dynamics.base_parameters import reduce_to_base
from core.dynamics.physical_consistency import inconsistent_links
from core.errors import InputError
from core.export.urdf import urdf_text
from core.models import SerialChain, catalogue, catalogue_names
from core.models.frames import rotation_from_rpy

COM = np.array([0.02, -0.05, 0.11])
INERTIA = np.array([[0.02, 0.001, 0.0], [0.001, 0.025, -0.002], [0.0, -0.002, 0.015]])


def states(chain: SerialChain) -> np.ndarray:
    return np.random.default_rng(0).uniform(-2.0, 2.0, (3, 10, chain.n_joints))


def test_payload_moves_with_the_tool_as_in_pinocchio():
    chain = catalogue("ur10e")
    oracle = pinocchio.buildModelFromXML(urdf_text(chain))
    tool = pinocchio.SE3(chain.tool[:3, :3], chain.tool[:3, 3])
    oracle.appendBodyToJoint(6, pinocchio.Inertia(2.805, COM, INERTIA), tool)
    data = oracle.createData()
    loaded = chain.with_payload(2.805, COM, INERTIA)
    for q, qd, qdd in zip(*states(chain), strict=True):
        expected = pinocchio.rnea(oracle, data, q, qd, qdd)
        assert loaded.inverse_dynamics(q, qd, qdd)[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    point = chain.with_payload(1.0, COM)
    assert (point.inertial_parameters - chain.inertial_parameters)[-1, 0] == pytest.approx(1.0)
    assert point.digest() != chain.digest()


@pytest.mark.parametrize(
    ("mass", "inertia"),
    [
        (0.0, None),
        (-1.0, None),
        (np.nan, None),
        (1.0, np.diag([1.0, 0.1, 0.1])),
        (1.0, np.array(INERTIA + np.eye(3, k=1))),
    ],
)
def test_payloads_that_no_body_has_are_refused(mass, inertia):
    with pytest.raises(InputError, match="no body has this mass and inertia") as refusal:
        catalogue("ur10e").with_payload(mass, COM, inertia)
    assert refusal.value.code == "payload-impossible"
    with pytest.raises(InputError, match="com has shape"):
        catalogue("ur10e").with_payload(1.0, [0.0, 0.0])


def test_mounting_turns_gravity_against_the_robot():
    chain = catalogue("ur10e")
    assert chain.with_mounting([np.pi, 0.0, 0.0]).gravity == pytest.approx([0.0, 0.0, 9.81])
    on_the_wall = chain.with_mounting([0.0, np.pi / 2, 0.3])
    assert on_the_wall.gravity == pytest.approx([9.81, 0.0, 0.0], abs=1e-12)
    oracle = pinocchio.buildModelFromXML(urdf_text(chain))
    oracle.gravity.linear = rotation_from_rpy([0.4, -0.7, 1.0]).T @ [0.0, 0.0, -9.81]
    q, qd, qdd = (s[0] for s in states(chain))
    expected = pinocchio.rnea(oracle, oracle.createData(), q, qd, qdd)
    assert chain.with_mounting([0.4, -0.7, 1.0]).inverse_dynamics(q, qd, qdd)[0] == pytest.approx(expected)
    assert reduce_to_base(chain.with_mounting([0.4, -0.7, 0.0])).count > reduce_to_base(chain).count


@pytest.mark.parametrize(
    ("name", "joints", "base", "reach"),
    [("ur10e", 6, 36, None), ("coman_r5", 6, 36, 0.93), ("three_joint", 3, 15, 0.8)],
)
def test_robots_of_the_catalogue_are_plausible(name, joints, base, reach):
    assert name in catalogue_names()
    chain = catalogue(name)
    assert chain.n_joints == joints
    assert reduce_to_base(chain).count == base
    assert inconsistent_links(chain.inertial_parameters) == []
    assert np.all(np.isfinite([getattr(chain.limits, limit) for limit in chain.limits.names()]))
    if reach is not None:
        assert chain.name == f"{name}_representative"
        frames = chain.joint_frames(np.random.default_rng(0).uniform(-3.0, 3.0, (4000, joints)))
        assert np.linalg.norm(frames[:, -1, :3, 3] - frames[:, 1, :3, 3], axis=1).max() == pytest.approx(
            reach, abs=0.06
        )
    held = chain.inverse_dynamics(*(0.0 * states(chain)))
    assert np.all(np.abs(held) < chain.limits.torque)
