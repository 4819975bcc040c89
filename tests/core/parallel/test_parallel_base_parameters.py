"""Base parameters of a 6-UPRU robot: the closed form of the source, confirmed by rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.dynamics.base_parameters import BaseParameters, random_states, reduce_columns, reduce_to_base
from core.models import SixUPRU
from core.models.upru_parameters import BASE_COLUMNS


@given(seed=st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_any_robot_has_the_seventeen_of_the_source(random_upru: Callable[[int], Any], seed: int) -> None:
    robot = random_upru(seed).model()
    base = reduce_to_base(robot)
    assert tuple(base.independent) == BASE_COLUMNS
    np.testing.assert_array_equal(base.projection, robot.base_projection)
    # other states than those that the numbers were confirmed with
    states = random_states(robot, 50, seed + 1)
    regressor = robot.regressor(*states)
    force = robot.inverse_dynamics(*states)
    np.testing.assert_allclose(
        base.columns(regressor) @ base.project(robot.parameters), force, atol=1e-11 * np.abs(force).max()
    )
    np.testing.assert_array_equal(base.columns(regressor), robot.base_regressor(*states))


def test_the_closed_form_is_what_pivoting_finds(upru: SixUPRU) -> None:
    stacked = upru.regressor(*random_states(upru, 200, 3)).reshape(-1, 29)
    found = reduce_columns(stacked, upru.parameter_names, preferred=(upru.base_parameter_names,))
    np.testing.assert_allclose(found.projection, upru.base_projection, atol=1e-9)
    free = reduce_columns(stacked, upru.parameter_names)
    assert free.count == 17


def test_relations_can_be_read(upru: SixUPRU) -> None:
    base = reduce_to_base(upru)
    assert base.relations[:5] == (
        "Ia1",
        "Ia2+Ia3+Ia4",
        "In2+In3+In4 + In1 + m1*lc1^2 + m2*lc2^2+m3*lc3^2+m4*lc4^2",
        "m1 + m2 + 0.16667 mp",
        "m1*lc1 + m2*lc2",
    )
    assert base.relations[16].endswith("mp + mp*rc*rcxx + mp*rc*rcyy")
    again = BaseParameters.from_document(base.to_document())
    np.testing.assert_array_equal(again.projection, base.projection)


def test_without_gravity_one_is_gone(upru: SixUPRU) -> None:
    base = reduce_to_base(upru.with_gravity([0.0, 0.0, 0.0]))
    assert base.count == 16
    assert [base.names[i] for i in base.vanishing] == ["m4*lc4"]
    assert set(base.base_names) == set(upru.base_parameter_names) - {"m4*lc4"}
    assert reduce_to_base(upru.with_gravity([5.0, -3.0, 2.0])).count == 17


def test_base_parameters_can_be_built_around_others(upru: SixUPRU) -> None:
    base = reduce_to_base(upru, preferred=("mp", "m2"))
    assert base.base_names[:2] == ("mp", "m2")
    assert base.count == 17
    states = random_states(upru, 40, 9)
    force = base.columns(upru.regressor(*states)) @ base.project(upru.parameters)
    np.testing.assert_allclose(force, upru.inverse_dynamics(*states), atol=1e-6)


def test_standard_parameters_near_a_prior_have_the_base_parameters_asked_for(upru: SixUPRU) -> None:
    base = reduce_to_base(upru)
    wanted = base.project(upru.parameters) * np.linspace(0.9, 1.1, 17)
    standard = base.standard(wanted, upru.parameters)
    states = random_states(upru, 20, 2)
    force = upru.with_parameters(standard).inverse_dynamics(*states)
    np.testing.assert_allclose(force, upru.base_regressor(*states) @ wanted, atol=1e-8)


@pytest.mark.parametrize("seed", [0, 1])
def test_random_states_surround_the_home_pose(upru: SixUPRU, seed: int) -> None:
    q, qd, qdd = random_states(upru, 300, seed)
    assert np.abs(q - upru.home)[:, :3].max() < 0.15
    assert 0.05 < np.abs(q - upru.home)[:, 3:].max() <= 0.1
    assert np.abs(qd).max() <= 1.2
    assert upru.jacobian_condition(q).max() < 10.0
    assert not np.array_equal(qd, qdd)
