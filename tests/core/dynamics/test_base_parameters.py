"""Base parameters: counts known from the literature and from Pinocchio, and what a reduction promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import models
from core.dynamics.base_parameters import BaseParameters, random_states, reduce_columns, reduce_to_base
from core.errors import InputError, ModelError
from core.models.frames import rotation_from_rpy
from core.models.model_file import parse_model_file
from core.models.urdf import parse_urdf

PLANAR_ARM = b"""
<robot name="planar">
  <link name="base"/><link name="upper"/><link name="lower"/>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>
    <axis xyz="0 0 1"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><axis xyz="0 0 1"/>
    <origin xyz="0.5 0 0"/></joint>
</robot>"""


def test_ur10e_has_36_and_with_rotor_inertias_40() -> None:
    assert reduce_to_base(models.catalogue("ur10e")).count == 36
    with_rotors = reduce_to_base(models.catalogue("ur10e", rotor_inertia=True))
    assert with_rotors.count == 40
    assert with_rotors.projection.shape == (40, 66)


def test_recorded_ur10e_model_has_36_and_40(ur10e_data: Path) -> None:
    file = ur10e_data / "ur10e.urdf"
    assert reduce_to_base(models.load(file)).count == 36
    assert reduce_to_base(models.load(file, rotor_inertia=True)).count == 40


def test_geometry_written_with_few_digits_counts_as_what_is_meant() -> None:
    text = (resources.files("core.models") / "catalogue" / "ur10e.toml").read_text()
    rough = parse_model_file(text.replace("1.5707963267948966", "1.5708").encode(), "rough.toml")
    exact = models.catalogue("ur10e", rotor_inertia=True)
    assert reduce_to_base(rough).relations == reduce_to_base(exact).relations
    assert reduce_to_base(rough, tolerance=1e-8).count == 41


def test_a_calibrated_robot_has_more_unless_the_tolerance_ignores_them() -> None:
    chain = models.catalogue("ur10e", rotor_inertia=True)
    rng = np.random.default_rng(0)
    turns = [rotation_from_rpy(rng.normal(0.0, 1e-3, 3)) for _ in range(6)]
    calibrated = replace(chain, placement_rotation=chain.placement_rotation @ np.array(turns))
    assert reduce_to_base(calibrated).count == 43
    assert reduce_to_base(calibrated, tolerance=0.01).count == 40


def test_a_tilted_base_raises_the_count() -> None:
    tilted = models.catalogue("ur10e").with_gravity((3.0, 2.0, -9.0))
    assert reduce_to_base(tilted).count == 38


@pytest.mark.parametrize("seed", range(21))
def test_count_is_the_rank_of_pinocchios_regressor(random_pair: Callable[..., Any], seed: int) -> None:
    pair = random_pair(seed, samples=60)
    stacked = pair.regressor().reshape(-1, 10 * pair.chain.n_joints)
    stacked = stacked / np.maximum(np.linalg.norm(stacked, axis=0), 1e-9)
    assert reduce_to_base(pair.chain).count == np.linalg.matrix_rank(stacked, tol=1e-8)


def test_planar_arm_regroups_as_by_hand() -> None:
    level = parse_urdf(PLANAR_ARM, "planar.urdf")  # gravity along the axes does not act
    base = reduce_to_base(level)
    assert base.relations == ("Izz1 + 0.25 m2", "mx2", "my2", "Izz2")
    upright = reduce_to_base(level.with_gravity((0.0, -9.81, 0.0)))
    assert upright.relations == ("mx1 + 0.5 m2", "my1", "Izz1 + 0.25 m2", "mx2", "my2", "Izz2")
    assert {upright.names[i] for i in upright.vanishing} >= {"m1", "mz1", "Ixx2"}


def test_rotor_inertia_of_the_first_joint_joins_its_link() -> None:
    arm = parse_urdf(PLANAR_ARM, "planar.urdf").with_rotor_inertia(np.ones(2))
    assert reduce_to_base(arm).relations == ("Izz1 + 0.25 m2 + Ia1", "mx2", "my2", "Izz2", "Ia2")


def test_preferred_parameters_come_first_in_the_order_asked_for() -> None:
    arm = parse_urdf(PLANAR_ARM, "planar.urdf")
    assert reduce_to_base(arm, preferred=["m2"]).relations == ("m2 + 4 Izz1", "mx2", "my2", "Izz2")
    base = reduce_to_base(arm, preferred=["Izz2", "m2"])
    assert base.relations == ("Izz2", "m2 + 4 Izz1", "mx2", "my2")
    assert BaseParameters.from_document(base.to_document()).base_names == ("Izz2", "m2", "mx2", "my2")


def test_preferred_parameters_regroup_readably_and_change_no_torque() -> None:
    chain = models.catalogue("ur10e", rotor_inertia=True)
    usual, base = (reduce_to_base(chain, preferred=names) for names in ((), ("mz6", "Iyy3", "Ia1")))
    assert base.base_names[:3] == ("mz6", "Iyy3", "Ia1")
    assert base.base_names[3:] == tuple(sorted(base.base_names[3:], key=chain.parameter_names.index))
    assert base.count == usual.count == 40
    assert base.relations[:2] == ("mz6 + my5 + 0.11655 m6", "Iyy3 - Ixx3 + 0.32667 m4 + 0.32667 m5 + 0.32667 m6")
    regressor = chain.regressor(*random_states(chain, 20, 5))
    torques = [b.columns(regressor) @ b.project(chain.parameters) for b in (usual, base)]
    np.testing.assert_allclose(torques[0], torques[1], atol=1e-8)


@pytest.mark.parametrize(
    ("preferred", "code", "message"),
    [
        (["m3"], "input-invalid", "there is no parameter 'm3'"),
        (["m2", "m2"], "preferred-repeated", "named twice: m2"),
        (["mx2", "Ixx2", "m1"], "preferred-vanishing", "no motion of this robot shows Ixx2, m1 in any torque"),
        (["m2", "mx2", "Izz1"], "preferred-dependent", "preferred Izz1 depends on preferred m2: they act"),
    ],
)
def test_what_cannot_be_preferred_is_named(preferred: list[str], code: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        reduce_to_base(parse_urdf(PLANAR_ARM, "planar.urdf"), preferred=preferred)
    assert caught.value.code == code


def test_same_seed_same_reduction_and_any_seed_same_relations() -> None:
    chain = models.catalogue("ur10e", rotor_inertia=True)
    first, again, other = (reduce_to_base(chain, seed=seed) for seed in (0, 0, 7))
    np.testing.assert_array_equal(first.projection, again.projection)
    assert first.relations == other.relations


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rotors=st.booleans())
def test_regrouping_never_changes_the_torque(seed: int, rotors: bool) -> None:
    chain = models.catalogue("ur10e", rotor_inertia=rotors).with_gravity((0.0, 1.0, -9.0))
    base = reduce_to_base(chain)
    rng = np.random.default_rng(seed)
    regressor = chain.regressor(*rng.uniform(-3.0, 3.0, (3, 4, 6)))
    parameters = rng.normal(size=chain.n_parameters)
    torque = regressor @ parameters
    np.testing.assert_allclose(base.columns(regressor) @ base.project(parameters), torque, atol=1e-9)
    # a standard set near another one that reproduces the same base parameters, hence the same torque
    near = rng.normal(size=chain.n_parameters)
    standard = base.standard(base.project(parameters), near)
    np.testing.assert_allclose(regressor @ standard, torque, atol=1e-9)


def test_json_round_trip_is_exact() -> None:
    base = reduce_to_base(models.catalogue("ur10e"))
    copy = BaseParameters.from_document(json.loads(json.dumps(base.to_document())))
    np.testing.assert_array_equal(copy.projection, base.projection)
    np.testing.assert_array_equal(copy.independent, base.independent)
    assert copy.relations == base.relations
    assert copy.base_names[0] == "Izz1"


def test_base_parameters_that_are_left_out_count_as_zero() -> None:
    robot = models.catalogue("three_joint")
    base = reduce_to_base(robot)
    gone = base.base_names[1:3]
    rest = base.without(gone).without(base.base_names[:1])
    assert rest.base_names == base.base_names[3:]
    states = random_states(robot, 20, 5)
    wanted = rest.project(robot.parameters)
    torque = robot.inverse_dynamics(*states, parameters=rest.standard(wanted, robot.parameters))
    np.testing.assert_allclose(rest.columns(robot.regressor(*states)) @ wanted, torque, atol=1e-9)
    again = BaseParameters.from_document(rest.to_document())
    np.testing.assert_array_equal(again.left_out, rest.left_out)
    for names in (["m99"], base.base_names):
        with pytest.raises(InputError, match="cannot be left out; base parameters are"):
            base.without(names)


def test_an_unclear_rank_is_refused() -> None:
    rng = np.random.default_rng(0)
    stacked = rng.normal(size=(40, 3))
    stacked[:, 2] = stacked[:, 0] + 5e-5 * rng.normal(size=40)
    stacked = np.hstack([stacked, stacked[:, :1] + 1e-5 * rng.normal(size=(40, 1))])
    with pytest.raises(ModelError, match="not clear-cut") as caught:
        reduce_columns(stacked, ("a", "b", "c", "d"))
    assert caught.value.code == "rank-not-clear"
    assert reduce_columns(stacked, ("a", "b", "c", "d"), tolerance=1e-3).count == 2


def test_too_few_rows_and_wrong_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="give more random states"):
        reduce_columns(np.ones((2, 3)), ("a", "b", "c"))
    base = reduce_columns(np.eye(3)[[0, 1, 2, 0]], ("a", "b", "c"))
    with pytest.raises(InputError, match=r"shape \(2,\), expected \(3,\)"):
        base.project([1.0, 2.0])
    with pytest.raises(InputError, match="2 columns, expected 3"):
        base.columns(np.ones((4, 2)))


def test_random_states_stay_within_the_travel_unless_there_is_none() -> None:
    chain = models.catalogue("ur10e").with_limits(
        position_lower=[-0.2, -9.0, 0.0, -1.0, -1.0, -1.0], position_upper=[0.3, 9.0, 0.0, 1.0, 1.0, 1.0]
    )
    q, _, _ = random_states(chain, 500, 0)
    assert -0.2 <= q[:, 0].min() < q[:, 0].max() <= 0.3
    assert 3.0 < np.abs(q[:, 1]).max() <= np.pi
    assert 3.0 < np.abs(q[:, 2]).max() <= np.pi  # a travel left at zero says nothing
