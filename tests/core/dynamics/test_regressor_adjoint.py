"""Reverse mode through the regressor against central differences, for every kind of joint."""

from __future__ import annotations

import numpy as np
import pytest

from core.dynamics.regressor_adjoint import regressor_adjoint
from core.models import JointLimits, SerialChain, catalogue


def adjoint(chain: SerialChain, states: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    out = [np.full_like(states[0], np.nan) for _ in range(3)]
    regressor_adjoint(chain.arrays, *states, chain.rotor_inertia is not None, weights, *out)
    return out


def mixed_chain() -> SerialChain:
    """Revolute and prismatic joints about and along slanted axes, at slanted placements."""
    rng = np.random.default_rng(3)
    rotation = np.linalg.qr(rng.normal(size=(5, 3, 3)))[0]
    rotation *= np.sign(np.linalg.det(rotation))[:, None, None]
    return SerialChain(
        name="mixed",
        joint_names=tuple("abcde"),
        joint_types=("revolute", "prismatic", "revolute", "prismatic", "revolute"),
        placement_rotation=rotation,
        placement_translation=rng.normal(size=(5, 3)),
        axis=rng.normal(size=(5, 3)),
        inertial_parameters=np.abs(rng.normal(size=(5, 10))),
        limits=JointLimits.unlimited(5),
        rotor_inertia=np.ones(5),
        gravity=np.array([1.0, -2.0, -9.0]),
    )


@pytest.mark.parametrize("chain", [catalogue("ur10e"), mixed_chain()], ids=["ur10e", "mixed"])
def test_matches_central_differences(chain: SerialChain) -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-2.0, 2.0, (3, 19, chain.n_joints))  # more than one block, the last one not full
    weights = rng.normal(size=(19, chain.n_joints, chain.n_parameters))
    found = adjoint(chain, states, weights)
    step = 1e-6
    for signal in range(3):
        for joint in range(chain.n_joints):
            moved = [states.copy(), states.copy()]
            for sign, changed in zip((1.0, -1.0), moved, strict=True):
                changed[signal, :, joint] += sign * step
            up, down = (np.einsum("kij,kij->k", weights, chain.regressor(*changed)) for changed in moved)
            np.testing.assert_allclose(found[signal][:, joint], (up - down) / (2 * step), rtol=1e-6, atol=1e-6)


def test_differentiates_the_torque_when_weighted_by_the_parameters() -> None:
    chain = catalogue("ur10e", rotor_inertia=True)
    rng = np.random.default_rng(1)
    states = rng.uniform(-2.0, 2.0, (3, 7, 6))
    multipliers = rng.normal(size=(7, 6))
    _, _, found = adjoint(chain, states, multipliers[:, :, None] * chain.parameters)
    # torque is linear in the acceleration: M(q) is its derivative
    np.testing.assert_allclose(found, np.einsum("kij,kj->ki", chain.mass_matrix(states[0]), multipliers), atol=1e-9)
