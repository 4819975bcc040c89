"""Every kernel against Pinocchio, on random chains under random gravity and on the UR10e."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest

from core import models
from core.dynamics import kernels
from core.dynamics.chain_arrays import make_workspace
from core.errors import InputError, ModelError

SEEDS = range(24)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.mark.parametrize("seed", SEEDS)
def test_inertial_parameters_are_pinocchios(random_pair: Callable[..., Any], seed: int) -> None:
    pair = random_pair(seed)
    expected = np.concatenate([body.toDynamicParameters() for body in pair.oracle.inertias[1:]])
    np.testing.assert_allclose(pair.chain.parameters, expected, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_inverse_dynamics_is_pinocchios(random_pair: Callable[..., Any], seed: int) -> None:
    pair = random_pair(seed, rotors=seed % 2 == 0)
    expected = [pinocchio.rnea(pair.oracle, pair.data, *state) for state in zip(pair.q, pair.qd, pair.qdd, strict=True)]
    torque = pair.chain.inverse_dynamics(pair.q, pair.qd, pair.qdd)
    np.testing.assert_allclose(torque, expected, **CLOSE)
    regressor = pair.chain.regressor(pair.q, pair.qd, pair.qdd)
    np.testing.assert_allclose(regressor @ pair.chain.parameters, expected, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_regressor_is_pinocchios_column_by_column(random_pair: Callable[..., Any], seed: int) -> None:
    pair = random_pair(seed, samples=70)  # more than two blocks, the last one partly filled
    regressor = pair.chain.regressor(pair.q, pair.qd, pair.qdd)
    np.testing.assert_allclose(regressor, pair.regressor(), **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_mass_matrix_and_forward_dynamics_are_pinocchios(random_pair: Callable[..., Any], seed: int) -> None:
    pair = random_pair(seed, rotors=seed % 2 == 0)
    upper = [np.triu(pinocchio.crba(pair.oracle, pair.data, q)) for q in pair.q]
    expected = [half + np.triu(half, 1).T for half in upper]
    np.testing.assert_allclose(pair.chain.mass_matrix(pair.q), expected, **CLOSE)
    torque = 10.0 * pair.qdd
    expected = [pinocchio.aba(pair.oracle, pair.data, *state) for state in zip(pair.q, pair.qd, torque, strict=True)]
    np.testing.assert_allclose(pair.chain.forward_dynamics(pair.q, pair.qd, torque), expected, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS[:7])
def test_joint_frames_are_pinocchios(random_pair: Callable[..., Any], seed: int) -> None:
    pair = random_pair(seed, samples=5)
    frames = pair.chain.joint_frames(pair.q)
    data = pair.data
    for k, q in enumerate(pair.q):
        pinocchio.forwardKinematics(pair.oracle, data, q)
        expected = [data.oMi[j + 1].homogeneous for j in range(pair.chain.n_joints)]
        np.testing.assert_allclose(frames[k, :-1], expected, **CLOSE)


def test_recorded_ur10e_model_agrees(ur10e_data: Path) -> None:
    file = ur10e_data / "ur10e.urdf"
    chain = models.load(file, rotor_inertia=True)
    assert chain.n_parameters == 66
    oracle = pinocchio.buildModelFromUrdf(str(file))
    data = oracle.createData()
    rng = np.random.default_rng(5)
    q, qd, qdd = rng.uniform(-3.0, 3.0, (3, 20, 6))
    regressor = chain.regressor(q, qd, qdd)
    frames = chain.joint_frames(q)
    tool = oracle.getFrameId("tool0")
    for k in range(20):
        torque = pinocchio.rnea(oracle, data, q[k], qd[k], qdd[k])
        np.testing.assert_allclose(regressor[k] @ chain.parameters, torque, **CLOSE)
        expected = pinocchio.computeJointTorqueRegressor(oracle, data, q[k], qd[k], qdd[k])
        np.testing.assert_allclose(regressor[k, :, :60], expected, **CLOSE)
        np.testing.assert_array_equal(regressor[k, :, 60:], np.diag(qdd[k]))
        pinocchio.framesForwardKinematics(oracle, data, q[k])
        np.testing.assert_allclose(frames[k, -1], data.oMf[tool].homogeneous, **CLOSE)


def test_single_sample_kernel_agrees_with_the_batch_and_reports_a_massless_arm() -> None:
    chain = models.catalogue("ur10e", rotor_inertia=True)
    rng = np.random.default_rng(1)
    q, qd, torque = rng.uniform(-1.0, 1.0, (3, 6))
    qdd = np.empty(6)
    workspace = make_workspace(6)
    assert kernels.forward_dynamics_one(chain.arrays, q, qd, torque, workspace, qdd)
    np.testing.assert_allclose(qdd, chain.forward_dynamics(q, qd, torque)[0], rtol=1e-12)
    np.testing.assert_allclose(chain.inverse_dynamics(q, qd, qdd)[0], torque, rtol=1e-9, atol=1e-9)

    massless = chain.with_parameters(np.zeros(66))
    assert not kernels.forward_dynamics_one(massless.arrays, q, qd, torque, workspace, qdd)
    with pytest.raises(ModelError, match="sample 1 is not positive definite") as caught:
        massless.forward_dynamics(q, qd, torque)
    assert caught.value.code == "mass-matrix-singular"


def test_one_sample_is_a_batch_of_one_and_read_only_input_is_taken() -> None:
    chain = models.catalogue("ur10e")
    q = np.linspace(-1.0, 1.0, 6)
    q.setflags(write=False)
    assert chain.inverse_dynamics(q, q, q).shape == (1, 6)
    assert chain.regressor(q, q, q).shape == (1, 6, 60)
    assert chain.mass_matrix(q).shape == (1, 6, 6)
    assert chain.joint_frames([list(q)] * 3).shape == (3, 7, 4, 4)
    assert chain.regressor(*np.empty((3, 0, 6))).shape == (0, 6, 60)


def test_wrong_shapes_are_named() -> None:
    chain = models.catalogue("ur10e")
    with pytest.raises(InputError, match=r"ur10e: qd has shape \(4, 5\), expected \(N, 6\)"):
        chain.inverse_dynamics(np.zeros((4, 6)), np.zeros((4, 5)), np.zeros((4, 6)))
    with pytest.raises(InputError, match="qdd has 3 samples, but q has 4"):
        chain.regressor(np.zeros((4, 6)), np.zeros((4, 6)), np.zeros((3, 6)))
    with pytest.raises(InputError, match=r"q has shape \(2, 3, 6\)"):
        chain.mass_matrix(np.zeros((2, 3, 6)))
