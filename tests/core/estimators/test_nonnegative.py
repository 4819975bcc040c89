"""Least squares with parameters that may not be negative, against the unconstrained and the exact answer."""

from __future__ import annotations

import numpy as np

from core.estimators.nonnegative import nonnegative_least_squares


def test_without_a_conflict_it_is_least_squares():
    random = np.random.default_rng(0)
    columns = random.normal(size=(300, 4)) * [1.0, 1e-3, 10.0, 1.0]
    target = columns @ [2.0, -500.0, 0.1, -1.0] + 0.1 * random.normal(size=300)
    expected, squared, _, _ = np.linalg.lstsq(columns, target, rcond=None)
    values, left = nonnegative_least_squares(columns, target, (0, 2))
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    np.testing.assert_allclose(left, squared[0], rtol=1e-9)


def test_what_would_be_negative_becomes_zero_and_the_others_make_up_for_it():
    random = np.random.default_rng(1)
    columns = random.normal(size=(300, 3))
    target = columns @ [-1.0, 0.5, -2.0]
    values, left = nonnegative_least_squares(columns, target, (0,))
    assert values[0] == 0.0
    expected, squared, _, _ = np.linalg.lstsq(columns[:, 1:], target, rcond=None)
    np.testing.assert_allclose(values[1:], expected, rtol=1e-6)
    np.testing.assert_allclose(left, squared[0], rtol=1e-6)


def test_a_column_that_never_acts_is_zero():
    values, _ = nonnegative_least_squares(np.column_stack([np.ones(9), np.zeros(9)]), np.full(9, 3.0), (1,))
    np.testing.assert_allclose(values, [3.0, 0.0], rtol=1e-9)
