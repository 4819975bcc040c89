"""Covariances that respect coloured residuals: coverage, and agreement with the white one where that is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from core.estimators import Block, ColouredCovariance, Estimator, Observations, coloured_covariance, make_estimator

SAMPLES, JOINTS, PARAMETERS = 1500, 2, 4
REPEATS = 60


def regressor(random: np.random.Generator) -> np.ndarray:
    """Columns as slow as a robot's motion."""
    rate = random.uniform(0.01, 0.06, (JOINTS, PARAMETERS))
    phase = random.uniform(0.0, 6.0, (JOINTS, PARAMETERS))
    return np.sin(np.arange(SAMPLES)[:, None, None] * rate + phase)


def coloured_noise(random: np.random.Generator, memory: float) -> np.ndarray:
    white = random.normal(size=(SAMPLES + 200, JOINTS)) * [0.5, 2.0]
    return lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], white, axis=0)[200:]


def covered(estimator: Estimator, X: np.ndarray, y: np.ndarray, truth: np.ndarray) -> np.ndarray:
    covariance = coloured_covariance(estimator.fit(X, y), Observations.of(X, y)).matrix
    return np.abs(estimator.coef_ - truth) < 1.96 * np.sqrt(np.diag(covariance))


@given(memory=st.sampled_from([0.0, 0.6, 0.9]), seed=st.integers(0, 1000))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_nominal_95_percent_cover_90_to_99(memory, seed):
    random = np.random.default_rng(seed)
    hits = []
    for _ in range(REPEATS):
        X, truth = regressor(random), random.normal(size=PARAMETERS)
        y = X @ truth + coloured_noise(random, memory)
        hits.append(covered(make_estimator("wls"), X, y, truth))
    assert 0.90 <= np.mean(hits) <= 0.99


@pytest.mark.parametrize("name", ["ols", "irls", "huber", "sequential", "tls", "recursive"])
def test_influence_of_every_estimator(name):
    """White residuals: the sum over samples of what each did is the covariance that theory gives."""
    random = np.random.default_rng(1)
    X, truth = random.normal(size=(SAMPLES, JOINTS, PARAMETERS)), random.normal(size=PARAMETERS)
    y = X @ truth + random.normal(size=(SAMPLES, JOINTS))
    estimator = make_estimator(name).fit(X, y)
    found = coloured_covariance(estimator, Observations.of(X, y), bandwidth=1)
    expected = np.sqrt(np.diag(estimator.covariance_))
    assert np.sqrt(np.diag(found.matrix)) == pytest.approx(expected, rel=0.1)
    assert found.inflation == pytest.approx(np.ones(JOINTS), abs=0.01)


def test_motions_are_independent_of_each_other():
    random = np.random.default_rng(2)
    X = regressor(random)
    y = X @ np.ones(PARAMETERS) + coloured_noise(random, 0.9)
    estimator = make_estimator("wls").fit(X, y)
    halves = [Block(X[:700], y[:700], 0), Block(X[700:], y[700:], 1)]

    def covariance(blocks: list[Block]) -> ColouredCovariance:
        return coloured_covariance(estimator, Observations(["p"] * PARAMETERS, JOINTS, lambda: blocks), 48)

    one, two, both = (np.diag(covariance(blocks).matrix) for blocks in (halves[:1], halves[1:], halves))
    assert both == pytest.approx(one + two, rel=0.12)  # but for what a band is wider by where samples are few
    assert "Bartlett kernel of 48 samples" in covariance(halves).kind


def test_blocks_of_one_motion_are_one_motion():
    random = np.random.default_rng(3)
    X = regressor(random)
    y = X @ np.ones(PARAMETERS) + coloured_noise(random, 0.6)
    estimator = make_estimator("huber").fit(X, y)
    pieces = [Block(X[k : k + 480], y[k : k + 480]) for k in range(0, SAMPLES, 480)]
    whole = coloured_covariance(estimator, Observations.of(X, y), 48)
    parts = coloured_covariance(estimator, Observations(["p"] * PARAMETERS, JOINTS, lambda: pieces), 48)
    assert parts.matrix == pytest.approx(whole.matrix)
    assert parts.effective_samples == pytest.approx(whole.effective_samples)


def test_leaving_a_window_out_is_what_it_says():
    """White noise and few samples: windows of one sample are the jackknife, each estimate made anew without it."""
    random = np.random.default_rng(4)
    X, y = random.normal(size=(30, 1, 4)), random.normal(size=(30, 1))
    estimator = make_estimator("ols").fit(X, y)
    kept = [np.arange(30) != k for k in range(30)]
    moves = estimator.coef_ - np.array([make_estimator("ols").fit(X[rows], y[rows]).coef_ for rows in kept])
    assert coloured_covariance(estimator, Observations.of(X, y), 1).matrix == pytest.approx(moves.T @ moves, rel=1e-6)


def test_what_only_one_window_tells_is_no_division_by_zero():
    random = np.random.default_rng(5)
    X, y = random.normal(size=(200, 1, 2)), random.normal(size=(200, 1))
    X[:, 0, 1] = 0.0
    X[50, 0, 1] = 1.0
    covariance = coloured_covariance(make_estimator("ols").fit(X, y), Observations.of(X, y)).matrix
    assert np.all(np.isfinite(covariance))
    assert covariance[0, 0] < 0.05
