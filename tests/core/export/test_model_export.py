"""Chains written as URDF and model files: other programs, and we ourselves, find the same robot in them."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ModelError
from core.export.model_toml import model_toml
from core.export.urdf import urdf_text
from core.models import SerialChain, catalogue
from core.models.frames import rotation_from_rpy, rpy_from_rotation
from core.models.model_file import parse_model_file
from core.models.urdf import parse_urdf

_SPEC = importlib.util.spec_from_file_location("random_chains", Path(__file__).parents[1] / "dynamics" / "conftest.py")
assert _SPEC is not None
assert _SPEC.loader is not None
random_chains = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(random_chains)


def chain_of(seed: int) -> SerialChain:
    """A random chain in a random mounting."""
    rng = np.random.default_rng(seed)
    down = rng.normal(size=3)
    chain = parse_urdf(random_chains.random_urdf(seed, 1 + seed % 6).encode(), "random.urdf")
    tool = np.eye(4)
    tool[:3, :3], tool[:3, 3] = rotation_from_rpy(rng.uniform(-3, 3, 3)), rng.normal(size=3)
    return replace(chain, tool=tool).with_gravity(9.81 * down / np.linalg.norm(down))


def states(chain: SerialChain, seed: int = 0, samples: int = 5) -> tuple[np.ndarray, ...]:
    return tuple(np.random.default_rng(seed).uniform(-2.0, 2.0, (3, samples, chain.n_joints)))


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_round_trips_keep_the_dynamics(seed):
    chain = chain_of(seed)
    motion = states(chain, seed)
    torque, tools = chain.inverse_dynamics(*motion), chain.joint_frames(motion[0])[:, -1]
    from_urdf = parse_urdf(urdf_text(chain).encode(), "written.urdf")
    assert from_urdf.joint_names == chain.joint_names
    assert from_urdf.inverse_dynamics(*motion) == pytest.approx(torque, rel=1e-9, abs=1e-9)
    rotors = np.random.default_rng(seed).uniform(0.0, 1.0, chain.n_joints)
    full = chain.with_rotor_inertia(rotors).with_drive_gains(1.0 + rotors).with_limits(jerk=5.0)
    from_toml = parse_model_file(model_toml(full).encode(), "written.toml")
    assert from_toml.inverse_dynamics(*motion) == pytest.approx(full.inverse_dynamics(*motion), rel=1e-9, abs=1e-9)
    assert from_toml.joint_frames(motion[0])[:, -1] == pytest.approx(tools, abs=1e-9)
    assert from_toml.limits.to_document() == full.limits.to_document()
    assert np.array_equal(from_toml.drive_gains, full.drive_gains)


@given(rpy=st.tuples(*[st.sampled_from([0.0, np.pi / 2, -np.pi / 2, np.pi, 1e-9, 0.7])] * 3))
def test_angles_describe_their_rotation_also_at_the_singularity(rpy):
    rotation = rotation_from_rpy(rpy)
    assert rotation_from_rpy(rpy_from_rotation(rotation)) == pytest.approx(rotation, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_pinocchio_and_mujoco_find_the_same_robot(seed, capfd):
    chain = chain_of(seed)
    if seed == 0:
        unlimited = catalogue("ur10e").with_limits(position_lower=-np.inf, position_upper=np.inf)
        chain = unlimited.with_gravity([0.0, 9.81, 0.0])
    text = urdf_text(chain)
    oracle = pinocchio.buildModelFromXML(text)
    assert list(oracle.names)[1:] == list(chain.joint_names)
    data = oracle.createData()
    simulator = mujoco.MjModel.from_xml_string(text)
    simulated = mujoco.MjData(simulator)
    for q, qd, qdd in zip(*states(chain, seed), strict=True):
        (torque,) = chain.inverse_dynamics(q, qd, qdd)
        in_pinocchio = pinocchio.rnea(oracle, data, _configuration(oracle, q), qd, qdd)
        assert in_pinocchio == pytest.approx(torque, rel=1e-9, abs=1e-9)
        simulated.qpos, simulated.qvel, simulated.qacc = q, qd, qdd
        mujoco.mj_inverse(simulator, simulated)
        assert simulated.qfrc_inverse == pytest.approx(torque, rel=1e-6, abs=1e-6)
    assert capfd.readouterr().err == ""


def _configuration(oracle: pinocchio.Model, q: np.ndarray) -> np.ndarray:
    """Pinocchio keeps continuous joints as cosine and sine."""
    parts = [[np.cos(x), np.sin(x)] if joint.nq == 2 else [x] for joint, x in zip(oracle.joints[1:], q, strict=True)]
    return np.concatenate(parts)


def test_what_urdf_cannot_say_is_refused_or_told():
    chain = catalogue("ur10e", rotor_inertia=True)
    assert "rotor inertias at the joints, kg m^2, for armature: 2.0 2.0 1.0" in urdf_text(chain)
    unlimited = chain.with_limits(position_lower=-np.inf, position_upper=np.inf, velocity=np.inf, torque=np.inf)
    text = urdf_text(unlimited)
    assert 'type="continuous"' in text
    assert '<limit velocity="1000000000.0" effort="1000000000.0"/>' in text
    with pytest.raises(ModelError, match=r"gravity is 1\.62") as refusal:
        urdf_text(chain.with_gravity([0.0, 0.0, -1.62]))
    assert refusal.value.code == "gravity-not-expressible"
    impossible = chain.inertial_parameters.copy()
    impossible[2, 4:] = 0.0
    with pytest.raises(ModelError, match="links moved by elbow_joint are those of no body") as refusal:
        urdf_text(replace(chain, inertial_parameters=impossible))
    assert refusal.value.code == "not-consistent"
    assert refusal.value.context["joints"] == ["elbow_joint"]
    massless = chain.inertial_parameters.copy()
    massless[3, 0] = 0.0
    with pytest.raises(ModelError, match="has inertia but no mass"):
        model_toml(replace(chain, inertial_parameters=massless))
    one_sided = chain.with_limits(position_lower=-np.inf)
    with pytest.raises(ModelError, match="on one side only"):
        model_toml(one_sided)


def test_names_with_special_characters_survive():
    chain = replace(catalogue("ur10e"), name='arm "A" <&>', joint_names=('a"', "b&", "c<", "d>", "e'", "f"))
    assert parse_urdf(urdf_text(chain).encode(), "x.urdf").joint_names == chain.joint_names
    assert parse_model_file(model_toml(chain).encode(), "x.toml").name == chain.name
