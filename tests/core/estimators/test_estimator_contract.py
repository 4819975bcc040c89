"""The contract of scikit-learn: constructors, parameters, copies, what is checked, what comes out."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

from core.dynamics.base_parameters import random_states, reduce_to_base
from core.errors import InputError
from core.estimators import (
    ESTIMATORS,
    ConsistentLeastSquares,
    Estimator,
    InstrumentalVariable,
    ParameterStructure,
    PriorLeastSquares,
    make_estimator,
)
from core.models import catalogue

NAMES = (*ESTIMATORS, "prior")
RANGES = {
    "wls": [{"tolerance": 0.0}, {"max_iterations": 0}],
    "irls": [{"quantile": 1.0}, {"tolerance": -1.0}, {"max_iterations": 0}],
    "huber": [{"threshold": 0.0}, {"max_iterations": 0}],
    "tls": [{"column_error": -0.1}],
    "iv": [{"simulations": 0}, {"tolerance": 0.0}, {"max_iterations": 0}],
    "recursive": [{"forgetting": 1.5}, {"forgetting": 0.0}, {"initial_std": 0.0}, {"reset_interval": 0}],
    "sequential": [{"least_share": 1.0}],
    "consistent": [{"prior_deviation": 0.0}],
    "prior": [{"covariance": np.diag([1.0, -1.0])}, {"mean": np.zeros(3)}, {"tolerance": 0.0}],
}


def of_name(name: str) -> Estimator:
    return PriorLeastSquares(np.zeros(2), np.eye(2)) if name == "prior" else make_estimator(name)


@pytest.fixture(scope="module")
def problem() -> tuple[np.ndarray, np.ndarray, ParameterStructure]:
    """The rigid body of a three-joint arm."""
    chain = catalogue("three_joint")
    base = reduce_to_base(chain)
    X = base.columns(chain.regressor(*random_states(chain, 80, 1)))
    noise = np.random.default_rng(1).normal(size=(80, 3))
    return X, X @ base.project(chain.parameters) + 0.01 * noise, ParameterStructure(chain, base, base.base_names)


def fitted(estimator: Estimator, X: Any, y: Any, structure: ParameterStructure) -> Estimator:
    if isinstance(estimator, InstrumentalVariable):
        return estimator.fit(X, y, instruments=X)
    if isinstance(estimator, ConsistentLeastSquares):
        return estimator.fit(X, y, structure=structure)
    return estimator.fit(X, y)


def clone(estimator: Estimator) -> Estimator:
    """What ``sklearn.base.clone`` does, and the identity it insists on."""
    params = estimator.get_params(deep=False)
    copy = type(estimator)(**params)
    after = copy.get_params(deep=False)
    assert all(params[name] is after[name] for name in params)
    return copy


@pytest.mark.parametrize("name", NAMES)
def test_constructors_store_what_they_are_given(name):
    estimator = of_name(name)
    names = list(inspect.signature(type(estimator)).parameters)
    assert list(estimator.get_params()) == list(estimator.get_params(deep=True)) == names
    marks = {key: object() for key in names}
    assert estimator.set_params(**marks).get_params() == marks
    assert all(f"{key}=<object" in repr(estimator) for key in names)
    assert type(estimator)(**marks).get_params() == marks  # and judge nothing yet
    with pytest.raises(InputError, match="has no parameter 'depth'") as caught:
        estimator.set_params(**dict.fromkeys(names, 1), depth=3)
    assert caught.value.code == "estimator-parameter-unknown"
    assert estimator.get_params() == marks


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_unfitted_and_fit_alike(name, problem):
    X, y, structure = problem
    first = fitted(of_name(name), X, y, structure)
    copy = clone(first)
    assert not [key for key in vars(copy) if key.endswith("_")]
    with pytest.raises(InputError, match="before it is fitted") as caught:
        copy.predict(X)
    assert caught.value.code == "estimator-not-fitted"
    again = fitted(copy, X, y, structure)
    assert np.array_equal(again.coef_, first.coef_)  # nothing is random
    assert np.array_equal(fitted(first, X, y, structure).coef_, again.coef_)
    assert pickle.loads(pickle.dumps(again)).predict(X) == pytest.approx(again.predict(X))  # noqa: S301


@pytest.mark.parametrize("name", NAMES)
def test_results_have_the_shapes_that_are_promised(name, problem):
    X, y, structure = problem
    estimator = fitted(of_name(name), X, y, structure)
    n, p = X.shape[1:]
    shapes = {
        "coef_": (p,),
        "covariance_": (p, p),
        "residual_std_": (n,),
        "weights_": (n,),
        "condition_number_": (),
        "normalised_condition_number_": (),
    }
    if name not in ("irls", "huber"):
        shapes["maps_"] = (n, p, p)
    assert {key: np.shape(getattr(estimator, key)) for key in shapes} == shapes
    assert (estimator.n_rows_, estimator.n_iter_ >= 1) == (len(X), True)
    assert estimator.predict(X).shape == y.shape
    assert 0.999 < estimator.score(X, y) <= 1.0


@pytest.mark.parametrize(("name", "params"), [(name, params) for name, all_ in RANGES.items() for params in all_])
def test_parameters_out_of_their_range_are_refused_by_fit(name, params, problem):
    with pytest.raises(InputError) as caught:
        fitted(of_name(name).set_params(**params), *problem)
    assert caught.value.code == "estimator-parameter-invalid"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_fitted_is_checked(name, problem):
    X, y, structure = problem
    with pytest.raises(InputError, match=r"X has shape \(80, 3, \d+\), y \(80, 2\); they must be"):
        fitted(of_name(name), X, y[:, :2], structure)
    with pytest.raises(InputError, match=r"X has shape \(0, 3, \d+\)"):
        fitted(of_name(name), X[:0], y[:0], structure)
    with pytest.raises(InputError, match="y is complex"):
        fitted(of_name(name), X, y * 1j, structure)
    with pytest.raises(InputError, match="rectangular arrays of numbers"):
        fitted(of_name(name), X, [["a"] * 3] * 80, structure)
    holed = y.copy()
    holed[[7, 9], 1] = np.nan
    with pytest.raises(InputError, match="y holds 2 values that are not finite, the first at sample 8, joint 2;"):
        fitted(of_name(name), X, holed, structure)
    endless = X.copy()
    endless[3, 2, 1] = np.inf
    with pytest.raises(InputError, match=r"X holds 1 values .* first at sample 4, joint 3, parameter 2;"):
        fitted(of_name(name), endless, y, structure)


def test_names_and_instruments_have_to_fit(problem):
    X, y, _ = problem
    with pytest.raises(InputError, match="there are 1 names for the"):
        make_estimator("ols").fit(X, y, ["m1"])
    with pytest.raises(InputError, match="instruments have shape"):
        InstrumentalVariable().fit(X, y, instruments=X[:10])


def test_one_joint_needs_no_axis_of_its_own(problem):
    X, y, _ = problem
    single = make_estimator("wls").fit(X[:, 2, -4:].tolist(), y[:, 2].tolist())
    as_usual = make_estimator("wls").fit(X[:, 2:, -4:], y[:, 2:])
    assert single.coef_ == pytest.approx(as_usual.coef_)
    assert single.predict(X[:, 2, -4:]) == pytest.approx(as_usual.predict(X[:, 2:, -4:])[:, 0])
    assert single.score(X[:, 2, -4:], y[:, 2]) == pytest.approx(as_usual.score(X[:, 2:, -4:], y[:, 2:]))


def test_scores_and_predictions_are_checked(problem):
    X, y, _ = problem
    estimator = make_estimator("ols").fit(X, y)
    with pytest.raises(InputError, match=r"X has shape \(80, 3, 2\); it must be"):
        estimator.predict(X[..., :2])
    with pytest.raises(InputError, match="the torque of joint 2 never changes"):
        estimator.score(X, y * [1.0, 0.0, 1.0])


def test_arrays_are_shown_by_their_shape():
    assert repr(of_name("prior")).startswith("PriorLeastSquares(mean=<array (2,)>, covariance=<array (2, 2)>, inflat")
    assert repr(make_estimator("wls", tolerance=1e-4)) == "WeightedLeastSquares(tolerance=0.0001, max_iterations=50)"
