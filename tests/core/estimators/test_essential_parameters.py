"""Parameters that the data do not call for go; those that matter stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.estimators import OrdinaryLeastSquares
from core.estimators.essential import essential_parameters

NAMES = [f"p{i}" for i in range(8)]


def estimate(seed: int, truth: np.ndarray):
    random = np.random.default_rng(seed)
    X = random.normal(size=(400, 1, truth.size)) @ (np.eye(truth.size) + 0.1 * random.normal(size=(truth.size,) * 2))
    y = X @ truth + random.normal(size=(400, 1))
    return OrdinaryLeastSquares().fit(X, y), X, y


@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_what_matters_stays_and_what_is_zero_mostly_goes(seed):
    truth = np.array([3.0, 0.0, -2.0, 0.0, 1.5, 0.0, 0.0, 4.0])
    fitted, X, y = estimate(seed, truth)
    found = essential_parameters(NAMES, fitted.coef_, fitted.covariance_, 400)
    assert {"p0", "p2", "p4", "p7"} <= set(found.kept)
    assert len(found.dropped) >= 2
    assert set(found.kept) | set(found.dropped) == set(NAMES)
    kept = [NAMES.index(name) for name in found.kept]
    refitted = OrdinaryLeastSquares().fit(X[..., kept], y)
    assert found.coef[kept] == pytest.approx(refitted.coef_, abs=1e-9)
    assert np.all(found.coef[[NAMES.index(name) for name in found.dropped]] == 0.0)
    assert np.diag(found.covariance)[kept] == pytest.approx(np.diag(refitted.covariance_), rel=0.05)


def test_an_alien_covariance_is_refused():
    with pytest.raises(InputError, match="do not fit 2 parameters"):
        essential_parameters(["a", "b"], np.ones(2), np.eye(3), 10)
    with pytest.raises(InputError, match="not positive definite"):
        essential_parameters(["a", "b"], np.ones(2), np.zeros((2, 2)), 10)
