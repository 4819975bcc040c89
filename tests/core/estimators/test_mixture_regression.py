"""Mixture regression against conditional means that are known in closed form."""

from __future__ import annotations

import json

import numpy as np
import pytest

from core.errors import IdentificationError, InputError
from core.estimators.mixture_regression import MixtureRegression


def wave(samples: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    u = random.uniform(-3.0, 3.0, (samples, 1))
    return u, np.sin(u[:, 0]) + noise * random.normal(size=samples)


def test_one_normal_distribution_is_one_component_and_linear_regression():
    random = np.random.default_rng(0)
    u = random.normal(size=(4000, 2))
    y = 5.0 + u @ [2.0, -1.0] + 0.3 * random.normal(size=4000)
    model = MixtureRegression().fit(u, y)
    mean, std = model.predict(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert model.n_components_ == 1
    np.testing.assert_allclose(mean, [5.0, 6.0], atol=0.03)
    np.testing.assert_allclose(std, 0.3, atol=0.03)


def test_a_wave_is_followed_and_its_noise_told():
    u, y = wave(4000, 0.1)
    model = MixtureRegression(random_state=1).fit(u, y)
    grid = np.linspace(-2.5, 2.5, 50)[:, None]
    mean, std = model.predict(grid)
    assert model.n_components_ > 3
    assert model.bic_[model.n_components_] == min(model.bic_.values())
    assert np.sqrt(np.mean((mean - np.sin(grid[:, 0])) ** 2)) < 0.05
    assert np.median(std) == pytest.approx(0.1, rel=0.35)


def test_a_document_predicts_the_same():
    u, y = wave(600, 0.1)
    model = MixtureRegression((1, 3)).fit(u, y)
    again = MixtureRegression.from_document(json.loads(json.dumps(model.to_document())))
    np.testing.assert_array_equal(again.predict(u), model.predict(u))
    assert again.n_components_ == model.n_components_


def test_too_little_and_nonsense_are_refused():
    u, y = wave(20, 0.1)
    with pytest.raises(IdentificationError, match="record longer"):
        MixtureRegression((8,)).fit(u, y)
    with pytest.raises(InputError, match="ascending"):
        MixtureRegression((3, 2)).fit(u, y)
