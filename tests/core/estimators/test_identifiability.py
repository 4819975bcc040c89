"""Which condition number is judged, and whom it names."""

from __future__ import annotations

import numpy as np
import pytest

from core.estimators.identifiability import Conditioning
from core.estimators.linear import condition_numbers

NAMES = ("a", "b", "c", "d")


def conditioning(matrix: np.ndarray, *, comparable_units: bool) -> Conditioning:
    return Conditioning.of(matrix, *condition_numbers(matrix), NAMES, comparable_units=comparable_units)


def random_matrix() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(200, 4))


@pytest.mark.parametrize("comparable_units", [True, False])
def test_parameters_that_cannot_be_told_apart_are_named_whatever_their_units(comparable_units):
    matrix = random_matrix()
    matrix[:, 2] = matrix[:, 1] + 1e-6 * matrix[:, 2]
    matrix *= [1.0, 1.0, 1.0, 1e-8]
    found = conditioning(matrix, comparable_units=comparable_units)
    assert found.undetermined == ("b", "c")
    assert found.problem is not None
    assert f"with columns of length one, {found.normalised:.3g}, exceeds 10000" in found.problem
    assert f"(raw it is {found.raw:.3g})" in found.problem


def test_a_parameter_that_hardly_acts_is_named_where_units_are_comparable():
    matrix = random_matrix() * [1.0, 1.0, 1.0, 1e-5]
    found = conditioning(matrix, comparable_units=True)
    assert found.normalised < 2.0
    assert found.undetermined == ("d",)
    assert found.problem is not None
    assert found.problem.startswith("the condition number raw, ")
    mixed = conditioning(matrix, comparable_units=False)
    assert mixed.undetermined == ()
    assert mixed.problem is None


def test_both_figures_are_shown():
    assert str(Conditioning(4.23e6, 425.07, ())) == "condition number 425.1 with columns of length one, 4.23e+06 raw"
