"""Least squares: the known solution, invariances, and names for what cannot be determined."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import IdentificationError, InputError
from core.estimators import JointFactors, OrdinaryLeastSquares, WeightedLeastSquares, make_estimator

SAMPLES, JOINTS, PARAMETERS = 400, 3, 5
NOISE = np.array([0.01, 0.3, 5.0])
NAMES = ["m1", "mx1", "fc1", "fv1", "b1"]


def problem(seed: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(SAMPLES, JOINTS, PARAMETERS))
    X[:, 2, :3] = 0.0  # the last joint does not feel the first parameters
    truth = random.normal(size=PARAMETERS)
    return X, X @ truth + noise * NOISE * random.normal(size=(SAMPLES, JOINTS)), truth


def test_ordinary_least_squares_is_the_known_solution():
    X, y, _ = problem(0)
    flat = X.reshape(-1, PARAMETERS)
    estimator = OrdinaryLeastSquares().fit(X, y)
    solution, squared, *_ = np.linalg.lstsq(flat, y.ravel(), rcond=None)
    assert estimator.coef_ == pytest.approx(solution)
    variance = squared[0] / (flat.shape[0] - PARAMETERS)
    assert estimator.covariance_ == pytest.approx(variance * np.linalg.inv(flat.T @ flat))
    assert estimator.condition_number_ == pytest.approx(np.linalg.cond(flat))
    normalised = flat / np.linalg.norm(flat, axis=0)
    assert estimator.normalised_condition_number_ == pytest.approx(np.linalg.cond(normalised))
    assert estimator.predict(X) == pytest.approx(X @ solution)


def test_weighted_least_squares_finds_the_noise_of_each_joint():
    X, y, truth = problem(1)
    estimator = WeightedLeastSquares().fit(X, y)
    assert estimator.residual_std_ == pytest.approx(NOISE, rel=0.15)
    assert estimator.weights_ == pytest.approx(1.0 / estimator.residual_std_, rel=1e-5)
    ordinary = OrdinaryLeastSquares().fit(X, y)
    assert np.linalg.norm(estimator.coef_ - truth) < 0.2 * np.linalg.norm(ordinary.coef_ - truth)
    deviation = np.sqrt(np.diag(estimator.covariance_))
    assert np.abs(estimator.coef_ - truth).max() < 4.5 * deviation.max()


@given(seed=st.integers(0, 10**6), exponent=st.integers(-14, 0))
@settings(max_examples=15, deadline=None)
def test_truth_is_recovered_as_noise_vanishes(seed, exponent):
    X, y, truth = problem(seed, noise=10.0**exponent)
    for name in ("ols", "wls"):
        error = np.abs(make_estimator(name).fit(X, y).coef_ - truth).max()
        assert error < 2.0 * 10.0**exponent + 1e-12


@given(seed=st.integers(0, 10**6), unit=st.floats(1e-3, 1e3), joint=st.integers(0, JOINTS - 1))
@settings(max_examples=15, deadline=None)
def test_the_unit_of_a_joint_does_not_matter_to_the_weighted_estimate(seed, unit, joint):
    X, y, _ = problem(seed)
    scale = np.ones(JOINTS)
    scale[joint] = unit
    plain = WeightedLeastSquares().fit(X, y)
    scaled = WeightedLeastSquares().fit(X * scale[:, None], y * scale)
    assert scaled.coef_ == pytest.approx(plain.coef_, rel=1e-4, abs=1e-6)


@given(seed=st.integers(0, 10**6), borders=st.sets(st.integers(1, SAMPLES - 1), max_size=6))
@settings(max_examples=15, deadline=None)
def test_blocks_give_what_all_samples_give_at_once(seed, borders):
    X, y, _ = problem(seed)
    factors = JointFactors(JOINTS, PARAMETERS)
    edges = [0, *sorted(borders), SAMPLES]
    for first, stop in pairwise(edges):
        factors.add(X[first:stop], y[first:stop])
    assert factors.n_rows == SAMPLES
    whole = WeightedLeastSquares().fit(X, y)
    pieces = WeightedLeastSquares().fit_factors(factors)
    assert pieces.coef_ == pytest.approx(whole.coef_, rel=1e-9, abs=1e-12)
    assert pieces.covariance_ == pytest.approx(whole.covariance_, rel=1e-6, abs=1e-14)


def test_absent_and_dependent_parameters_are_named():
    X, y, _ = problem(2)
    absent = X.copy()
    absent[..., 3] = 0.0
    with pytest.raises(IdentificationError, match="fv1 never act in these data") as refusal:
        OrdinaryLeastSquares().fit(absent, y, NAMES)
    assert refusal.value.context["parameters"] == ["fv1"]
    dependent = X.copy()
    dependent[..., 4] = 2.0 * dependent[..., 1]
    with pytest.raises(IdentificationError, match="mx1, b1 cannot be told apart"):
        WeightedLeastSquares().fit(dependent, y, NAMES)
    with pytest.raises(IdentificationError, match="parameter 4 never act"):
        OrdinaryLeastSquares().fit(absent, y)


def test_too_few_samples_are_refused():
    with pytest.raises(IdentificationError, match="3 torque samples cannot determine 5 parameters"):
        OrdinaryLeastSquares().fit(np.ones((1, 3, 5)), np.ones((1, 3)))


def test_weights_that_do_not_settle_are_an_error():
    X, y, _ = problem(3)
    with pytest.raises(IdentificationError, match="did not settle within 1 iterations"):
        WeightedLeastSquares(max_iterations=1).fit(X, y)


def test_an_unknown_estimator_is_refused():
    with pytest.raises(InputError, match="unknown estimator 'ridge'; there are ols, wls, irls"):
        make_estimator("ridge")
