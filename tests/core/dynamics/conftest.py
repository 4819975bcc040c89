"""Random serial chains as URDF text, read by this project and by Pinocchio alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pinocchio
import pytest

from core.models import SerialChain
from core.models.urdf import parse_urdf

Array = np.ndarray


def random_inertial(rng: np.random.Generator) -> str:
    mass = rng.uniform(0.5, 5.0)
    factor = rng.normal(size=(3, 3))
    sigma = mass * 0.02 * (factor @ factor.T + 0.1 * np.eye(3))
    inertia = np.trace(sigma) * np.eye(3) - sigma
    names = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
    tensor = " ".join(f'{name}="{float(inertia[at])}"' for name, at in names.items())
    return f'<inertial>{random_origin(rng)}<mass value="{mass}"/><inertia {tensor}/></inertial>'


def random_origin(rng: np.random.Generator) -> str:
    xyz = " ".join(map(str, rng.uniform(-0.6, 0.6, 3)))
    rpy = " ".join(map(str, rng.uniform(-np.pi, np.pi, 3)))
    return f'<origin xyz="{xyz}" rpy="{rpy}"/>'


def random_urdf(seed: int, n_joints: int) -> str:
    """Revolute and prismatic joints about any axis, fixed joints between them and at the side."""
    rng = np.random.default_rng(seed)
    links, joints, previous = ['<link name="base"/>'], [], "base"
    for j in range(n_joints):
        if rng.random() < 0.5:  # a fixed link in between, and one that leads nowhere
            for name, parent in ((f"flange{j}", previous), (f"camera{j}", previous)):
                links.append(f'<link name="{name}">{random_inertial(rng)}</link>')
                joints.append(
                    f'<joint name="to_{name}" type="fixed">{random_origin(rng)}'
                    f'<parent link="{parent}"/><child link="{name}"/></joint>'
                )
            previous = f"flange{j}"
        kind = "prismatic" if rng.random() < 0.3 else "revolute"
        axis = rng.normal(size=3) if rng.random() < 0.6 else np.eye(3)[rng.integers(3)]
        xyz = " ".join(map(str, axis / np.linalg.norm(axis)))
        links.append(f'<link name="link{j}">{random_inertial(rng)}</link>')
        joints.append(
            f'<joint name="joint{j}" type="{kind}">{random_origin(rng)}<axis xyz="{xyz}"/>'
            f'<parent link="{previous}"/><child link="link{j}"/>'
            '<limit lower="-2.5" upper="2.5" velocity="2" effort="100"/></joint>'
        )
        previous = f"link{j}"
    return f'<robot name="random{seed}">{"".join(links)}{"".join(joints)}</robot>'


class Pair(NamedTuple):
    """The same robot twice, under the same gravity, and states to compare it in."""

    chain: SerialChain
    oracle: pinocchio.Model
    q: Array
    qd: Array
    qdd: Array

    @property
    def data(self) -> pinocchio.Data:
        return self.oracle.createData()

    def regressor(self) -> Array:
        states = zip(self.q, self.qd, self.qdd, strict=True)
        rows = [pinocchio.computeJointTorqueRegressor(self.oracle, self.data, *s) for s in states]
        return np.array(rows).reshape(len(rows), self.chain.n_joints, -1)  # one joint comes flattened


def pair(urdf: str, seed: int, samples: int, rotors: Array | None = None) -> Pair:
    rng = np.random.default_rng(1000 + seed)
    gravity = rng.uniform(-9.81, 9.81, 3)
    chain = parse_urdf(urdf.encode(), "robot.urdf").with_gravity(gravity)
    oracle = pinocchio.buildModelFromXML(urdf)
    oracle.gravity.linear = gravity
    if rotors is not None:
        chain = chain.with_rotor_inertia(rotors)
        oracle.armature = rotors
    states = rng.uniform(-2.5, 2.5, (3, samples, chain.n_joints))
    return Pair(chain, oracle, *states)


@pytest.fixture
def random_pair() -> Callable[..., Pair]:
    """Return a random chain of 1 to 7 joints, read twice, with a random gravity; by seed."""

    def build(seed: int, *, samples: int = 40, rotors: bool = False) -> Pair:
        n = 1 + seed % 7
        inertia = np.random.default_rng(seed).uniform(0.1, 2.0, n) if rotors else None
        return pair(random_urdf(seed, n), seed, samples, inertia)

    return build
