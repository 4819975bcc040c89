"""Small robots, on which a design takes a moment."""

from __future__ import annotations

import numpy as np
import pytest

from core.models import JointLimits, SerialChain


def _chain(name: str, kinds: tuple[str, ...], offsets: list[list[float]], axes: list[list[float]]) -> SerialChain:
    n = len(kinds)
    inertial = np.zeros((n, 10))
    inertial[:, 0] = 3.0
    inertial[:, 1:4] = 0.3
    inertial[:, [4, 6, 9]] = 0.2
    return SerialChain(
        name=name,
        joint_names=tuple(f"{kind}_{j}" for j, kind in enumerate(kinds, 1)),
        joint_types=kinds,
        placement_rotation=np.tile(np.eye(3), (n, 1, 1)),
        placement_translation=np.array(offsets),
        axis=np.array(axes),
        inertial_parameters=inertial,
        limits=JointLimits.unlimited(n),
        tool=np.block([[np.eye(3), np.array([[0.3], [0.0], [0.0]])], [np.zeros(3), 1.0]]),
    )


@pytest.fixture(scope="session")
def elbow() -> SerialChain:
    """Shoulder, upper arm and forearm: three joints that turn."""
    offsets = [[0.0, 0.0, 0.3], [0.0, 0.1, 0.1], [0.5, 0.0, 0.0]]
    return _chain("elbow", ("revolute",) * 3, offsets, [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])


@pytest.fixture(scope="session")
def gantry() -> SerialChain:
    """A slide that carries an arm with another slide."""
    offsets = [[0.0, 0.0, 0.5], [0.2, 0.0, 0.1], [0.3, 0.0, 0.0]]
    kinds = ("prismatic", "revolute", "prismatic")
    return _chain("gantry", kinds, offsets, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
