"""What every estimator must do, and what each is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import IdentificationError, InputError
from core.estimators import (
    ESTIMATORS,
    GeneralisedLeastSquares,
    HuberRegression,
    InstrumentalVariable,
    Observations,
    RecursiveLeastSquares,
    SequentialLeastSquares,
    TotalLeastSquares,
    WeightedLeastSquares,
    make_estimator,
)

SAMPLES, JOINTS, PARAMETERS = 500, 3, 7
NOISE = np.array([1.0, 0.3, 0.05])
LINEAR = sorted(set(ESTIMATORS) - {"consistent", "iv"})


def problem(seed: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A chain in the small: joint 3 feels the last three parameters, joint 2 the last five, joint 1 all."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(SAMPLES, JOINTS, PARAMETERS))
    X[:, 1, :2] = X[:, 2, :4] = 0.0
    truth = random.normal(size=PARAMETERS) + 2.0
    return X, X @ truth + noise * NOISE * random.normal(size=(SAMPLES, JOINTS)), truth


def fitted(name: str, X: np.ndarray, y: np.ndarray):
    if name == "iv":
        return InstrumentalVariable().fit(X, y, instruments=X)
    return make_estimator(name).fit(X, y)


@pytest.mark.parametrize("name", [*LINEAR, "iv"])
@given(seed=st.integers(0, 10**6), exponent=st.integers(-8, -1))
@settings(max_examples=4, deadline=None)
def test_truth_is_recovered_as_noise_vanishes(name, seed, exponent):
    X, y, truth = problem(seed, 10.0**exponent)
    assert np.abs(fitted(name, X, y).coef_ - truth).max() < 10.0**exponent + 1e-9


@pytest.mark.parametrize("name", [*LINEAR, "iv"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=2, deadline=None)
def test_units_of_parameters_do_not_matter(name, seed):
    X, y, _ = problem(seed)
    unit = 10.0 ** np.random.default_rng(seed).uniform(-1.0, 1.0, PARAMETERS)
    plain, scaled = fitted(name, X, y), fitted(name, X * unit, y)
    assert scaled.coef_ * unit == pytest.approx(plain.coef_, rel=1e-4, abs=1e-4)
    deviations = [np.sqrt(np.diag(e.covariance_)) for e in (plain, scaled)]
    assert deviations[1] * unit == pytest.approx(deviations[0], rel=1e-2)


@pytest.mark.parametrize("name", sorted({*LINEAR, "iv"} - {"tls"}))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=2, deadline=None)
def test_regrouping_parameters_does_not_change_the_torque(name, seed):
    X, y, _ = problem(seed)
    mixing = np.eye(PARAMETERS)
    mixing[4:, 4:] += np.triu(np.random.default_rng(seed).uniform(-0.5, 0.5, (3, 3)), 1)
    plain, mixed = fitted(name, X, y), fitted(name, X @ mixing, y)
    scale = np.sqrt(np.mean(plain.predict(X) ** 2))
    tolerance = 0.05 if name == "sequential" else 1e-4  # which decides by columns what a joint knows well
    assert mixed.predict(X @ mixing) == pytest.approx(plain.predict(X), abs=tolerance * scale)


def test_what_disturbs_all_joints_at_once_counts_once():
    """Noise common to two joints: the full covariance cancels it, joint weights cannot."""
    better = 0
    for seed in range(10):
        X, _, truth = problem(seed)
        random = np.random.default_rng(seed)
        common = random.normal(size=(SAMPLES, 1)) * [5.0, 5.0, 0.0]
        y = X @ truth + common + 0.1 * random.normal(size=(SAMPLES, JOINTS))
        full = GeneralisedLeastSquares().fit(X, y)
        joints = WeightedLeastSquares().fit(X, y)
        better += np.linalg.norm(full.coef_ - truth) < 0.3 * np.linalg.norm(joints.coef_ - truth)
    assert better >= 9
    assert full.precision_.shape == (JOINTS, JOINTS)


@pytest.mark.parametrize("estimator", [HuberRegression(), GeneralisedLeastSquares()])
def test_outliers_lose_their_weight(estimator):
    X, y, truth = problem(3, 0.3)
    random = np.random.default_rng(0)
    y[random.choice(SAMPLES, 25, replace=False)] += 30.0
    robust = estimator.fit(X, y)
    plain = WeightedLeastSquares().fit(X, y)
    assert np.linalg.norm(robust.coef_ - truth) < 0.2 * np.linalg.norm(plain.coef_ - truth)
    assert robust.sample_weights_.min() < 0.5
    assert np.median(robust.sample_weights_) == 1.0


def test_a_weighting_that_does_not_settle_is_an_error():
    X, y, _ = problem(1)
    with pytest.raises(IdentificationError, match="did not settle within 1 iterations"):
        HuberRegression(max_iterations=1).fit(X, y)


def test_total_least_squares_removes_the_bias_of_noisy_columns():
    bias = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        X = random.normal(size=(2000, 1, 3))
        y = X @ np.ones(3)
        noisy = X + 0.3 * random.normal(size=X.shape)
        noisy_torque = y + 0.3 * np.sqrt(3.0) * random.normal(size=y.shape)
        total = TotalLeastSquares(column_error=1.0).fit(noisy, noisy_torque).coef_
        bias.append([total.mean() - 1.0, WeightedLeastSquares().fit(noisy, noisy_torque).coef_.mean() - 1.0])
    total, plain = np.abs(np.mean(bias, axis=0))
    assert total < 0.01
    assert plain > 0.07


def test_exact_columns_stay_as_they_are():
    X, y, _ = problem(2, 0.1)
    names = [f"p{i}" for i in range(PARAMETERS)]
    every = TotalLeastSquares(column_error=1.0, exact=names).fit(X, y, names)
    assert every.coef_ == pytest.approx(WeightedLeastSquares().fit(X, y).coef_)
    some = TotalLeastSquares(column_error=1.0, exact=names[:2]).fit(X, y, names)
    assert np.abs(some.coef_ - every.coef_).max() > 1e-6
    with pytest.raises(IdentificationError, match="exact columns offset are not all among"):
        TotalLeastSquares(exact=["offset"]).fit(X, y, names)


def test_instruments_remove_the_bias_of_noisy_columns():
    random = np.random.default_rng(5)
    clean = random.normal(size=(5000, 2, 3))
    y = clean @ np.ones(3) + 0.1 * random.normal(size=(5000, 2))
    noisy = clean + 0.4 * random.normal(size=clean.shape)
    instrumental = InstrumentalVariable().fit(noisy, y, instruments=clean)
    assert np.abs(instrumental.coef_ - 1.0).max() < 0.05
    assert np.abs(WeightedLeastSquares().fit(noisy, y).coef_ - 1.0).min() > 0.1
    with pytest.raises(IdentificationError, match="needs columns along a simulated motion"):
        make_estimator("iv").fit(noisy, y)
    with pytest.raises(InputError, match="instruments have shape"):
        InstrumentalVariable().fit(noisy, y, instruments=clean[:10])


@pytest.mark.parametrize("ratio", [1.0, 500.0, 1e4])
@pytest.mark.parametrize("samples", [30, SAMPLES])
def test_a_stream_is_at_any_time_what_a_batch_would_be(ratio, samples):
    """However much noisier one joint is than another."""
    X, _, truth = problem(7)
    noise = np.random.default_rng(8).normal(size=(SAMPLES, JOINTS)) * [0.01 * ratio, 0.01, 0.03]
    X, y = X[:samples], (X @ truth + noise)[:samples]
    batch = WeightedLeastSquares().fit(X, y)
    stream = RecursiveLeastSquares()
    for k in range(0, samples, 20):
        stream.partial_fit(X[k : k + 20], y[k : k + 20])
    deviation = np.sqrt(np.diag(batch.covariance_))
    assert np.abs((stream.coef_ - batch.coef_) / deviation).max() < 1e-2
    assert np.sqrt(np.diag(stream.covariance_)) == pytest.approx(deviation, rel=1e-3)
    assert stream.residual_std_ == pytest.approx(batch.residual_std_, rel=1e-3)
    assert stream.n_rows_ == samples
    assert RecursiveLeastSquares().partial_fit(X, y).coef_ == pytest.approx(stream.coef_)


def test_older_samples_count_less_and_less():
    X, y, _ = problem(6)
    forgetting = 0.99
    fading = forgetting ** (0.5 * np.arange(SAMPLES)[::-1])
    faded = WeightedLeastSquares().fit(X * fading[:, None, None], y * fading[:, None])
    stream = RecursiveLeastSquares(forgetting=forgetting)
    for part in np.split(np.arange(SAMPLES), [1, 7, 200]):
        stream.partial_fit(X[part], y[part])
    assert stream.coef_ == pytest.approx(faded.coef_, rel=1e-4)
    ages = forgetting ** np.arange(SAMPLES)
    spread = np.sum((y - X @ stream.coef_) ** 2 * ages[::-1, None], axis=0) / (round(ages.sum()) - PARAMETERS / JOINTS)
    assert stream.residual_std_**2 == pytest.approx(spread, rel=1e-3)


def test_a_stream_forgets_and_resets():
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 1, 2))
    truth = np.where(np.arange(4000)[:, None] < 2000, [1.0, 2.0], [2.0, 2.0])
    y = np.einsum("kjp,kp->kj", X, truth) + 0.1 * random.normal(size=(4000, 1))
    stubborn = RecursiveLeastSquares().partial_fit(X, y)
    assert stubborn.coef_[0] < 1.6
    for alert in (RecursiveLeastSquares(forgetting=0.99), RecursiveLeastSquares(reset_interval=1000)):
        assert alert.partial_fit(X, y).coef_ == pytest.approx([2.0, 2.0], abs=0.05)
    before = stubborn.coef_
    stubborn.reset_covariance()
    assert stubborn.coef_ == pytest.approx(before)
    assert stubborn.partial_fit(X[-200:], y[-200:]).coef_ == pytest.approx([2.0, 2.0], abs=0.05)


def test_a_stream_has_an_estimate_from_the_first_sample_on():
    X, y, truth = problem(2)
    stream = RecursiveLeastSquares().partial_fit(X[0], y[0])
    assert stream.predict(X[:1]) == pytest.approx(y[:1], rel=1e-3)
    unseen = RecursiveLeastSquares(forgetting=0.5).partial_fit(X * (truth > 2.0), y)
    assert np.isfinite(unseen.coef_).all()
    assert np.all(unseen.coef_[truth <= 2.0] == 0.0)
    assert np.sqrt(np.diag(unseen.covariance_))[truth <= 2.0] == pytest.approx(1e3)


def test_a_stream_is_checked():
    X, y, _ = problem(0)
    stream = RecursiveLeastSquares().partial_fit(X, y)
    with pytest.raises(InputError, match="the stream has 3 joints and 7 parameters"):
        stream.partial_fit(X[:, :2], y[:, :2])
    with pytest.raises(InputError, match=r"X has shape \(500, 3, 7\), y \(499, 3\)"):
        stream.partial_fit(X, y[:-1])
    with pytest.raises(InputError, match="not finite"):
        stream.partial_fit(X, y * np.nan)


def test_joints_are_identified_from_the_last_to_the_first():
    """A first joint that is all wrong cannot spoil what the last one has frozen."""
    X, y, truth = problem(4, 0.01)
    y[:, 0] += 50.0 * np.sin(np.arange(SAMPLES))
    sequential = SequentialLeastSquares().fit(X, y)
    assert sequential.frozen_by_.tolist() == [2, 2, 3]
    assert np.abs(sequential.coef_[2:] - truth[2:]).max() < 0.01
    assert np.abs(make_estimator("ols").fit(X, y).coef_[2:] - truth[2:]).max() > 0.1


def test_rows_are_read_again_only_where_they_are_not_kept(monkeypatch):
    X, y, _ = problem(0)
    reads = []

    def blocks():
        reads.append(1)
        yield from Observations.of(X, y).blocks()

    names = [f"p{i}" for i in range(PARAMETERS)]
    make_estimator("huber").fit_observations(Observations(names, JOINTS, blocks))
    assert len(reads) == 1
    monkeypatch.setattr("core.estimators.observations._KEPT_BYTES", 1000)
    make_estimator("huber").fit_observations(Observations(names, JOINTS, blocks))
    assert len(reads) > 3
