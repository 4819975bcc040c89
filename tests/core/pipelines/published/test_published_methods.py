"""Published methods by name, on a three-joint arm whose friction is known."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from core.errors import InputError
from core.estimators.bee_colony import BeeColony
from core.models import catalogue
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.published import METHODS, identify_by, mean_moving, published_method, repeated
from core.pipelines.published.compensation import Compensation
from core.recordings import Recording
from core.signals import SignalSettings

MODEL = catalogue("three_joint").with_drive_gains(None)
Law = Callable[[np.ndarray, np.ndarray], np.ndarray]


def recorded(
    friction: Law, seed: int, *, noise: float = 0.2, period: float = 20.0, periods: int = 1, largest: float = 0.35
) -> Recording:
    """A Fourier motion of order five at 100 Hz, with torque as measured."""
    random = np.random.default_rng(seed)
    t = np.arange(int((periods + 0.02) * period * 100)) / 100.0
    harmonics = 2.0 * np.pi / period * np.arange(1, 6)
    size, phase = random.uniform(0.15, largest, (3, 5)), random.uniform(0.0, 6.0, (3, 5))
    angle = t[:, None, None] * harmonics + phase
    q, qd = (size * np.sin(angle)).sum(axis=-1), (size * harmonics * np.cos(angle)).sum(axis=-1)
    qdd = -(size * harmonics**2 * np.sin(angle)).sum(axis=-1)
    torque = MODEL.inverse_dynamics(q, qd, qdd) + friction(q, qd)
    random = np.random.default_rng([seed, 1])
    return Recording(f"motion {seed}", t, q, qd, torque=torque + noise * random.normal(size=q.shape))


def plain(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    return 5.0 * np.sign(qd) + 6.0 * qd


def power(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    return 4.0 * np.sign(qd) + 9.0 * np.sign(qd) * np.abs(qd) ** [0.45, 0.6, 0.8]


def levelling(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    return 3.0 * np.sign(qd) + 2.0 * qd + 5.0 * np.arctan(6.0 * qd)


def uneven(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Falls at low speed, rises at high speed, with a torque that depends on the position."""
    falling = 6.0 - 6.0 * np.minimum(np.abs(qd), 0.3) + 5.0 * np.maximum(np.abs(qd) - 0.3, 0.0)
    return falling * np.sign(qd) + 1.5 * np.sin(4.0 * q)


def test_every_method_gives_a_result_that_stands_alone():
    train, held_out = recorded(plain, 1), recorded(plain, 2)
    quick = {
        "coman_three_layer": {"components": (1, 2)},
        "ur10e_power_friction": {},
        "abc_arctan": {"signals": SignalSettings(), "colony": BeeColony(cycles=5)},
        "recursive_six_axis": {},
    }
    assert set(quick) == set(METHODS)
    for name, settings in quick.items():
        result = identify_by(published_method(name, **settings), MODEL, [train], [held_out])
        document = json.loads(json.dumps(result.to_document()))
        again = Identification.from_document(document)
        np.testing.assert_array_equal(again.parameters_, result.identification.parameters_)
        assert document["method"]["name"] == document["estimator"]["name"] == name
        assert document["provenance"]["method"]["source"]
        assert mean_moving(result.validation) < 1.5


def test_three_layers_leave_less_of_held_out_torque():
    train, held_out = [recorded(uneven, seed) for seed in (1, 2, 3)], [recorded(uneven, 4, largest=0.2)]
    least_squares = identify(MODEL, train, held_out, estimator="ols")
    result = identify_by(published_method("coman_three_layer", regimes="together"), MODEL, train, held_out)
    layers = result.identification
    assert mean_moving(layers.validation) < mean_moving(least_squares.validation)
    assert result.compensated.chosen
    assert mean_moving(result.validation) < 0.64 * mean_moving(least_squares.validation)
    assert layers.friction.composition == ["two_regime_cubic"] * 3
    coulomb = [value for name, value in zip(layers.names, layers.parameters_, strict=True) if name.startswith("kc")]
    assert min(coulomb) >= 0.0
    assert result.remark.startswith("the compensation is used")


def test_a_prediction_has_the_compensation_in_it():
    train, held_out = [recorded(uneven, seed) for seed in (1, 2, 3)], [recorded(uneven, 4)]
    method = published_method("coman_three_layer", friction="coulomb_viscous", rigid="wls", components=(8,))
    result = identify_by(method, MODEL, train, held_out)
    q, qd, qdd = held_out[0].q[:50], held_out[0].qd[:50], np.zeros((50, 3))
    again = Compensation.from_document(
        json.loads(json.dumps(result.to_document()))["method"]["compensated"]["compensation"]
    )
    expected, deviation = again.torque(q, qd)
    plain_torque = result.identification.predict(q, qd, qdd)
    np.testing.assert_allclose(result.predict(q, qd, qdd) - plain_torque, expected, atol=1e-9)
    assert np.all(result.predict_std(q, qd, qdd) >= deviation)


def test_a_compensation_that_does_not_help_is_not_used():
    """Friction that the law explains leaves noise alone, which no mixture can foresee."""
    train, held_out = [recorded(plain, 1)], [recorded(plain, 2)]
    method = published_method("coman_three_layer", friction="coulomb_viscous", rigid="wls", components=(12,))
    result = identify_by(method, MODEL, train, held_out)
    assert mean_moving(result.compensated.train) < mean_moving(result.identification.train)
    assert not result.compensated.chosen
    assert result.validation is result.identification.validation
    assert "over-fits and is not used" in result.remark
    unjudged = identify_by(method, MODEL, train)
    assert not unjudged.compensated.chosen
    assert "without held-out data" in unjudged.remark


@pytest.mark.parametrize("search", ["alternating", "variable_projection"])
def test_exponents_are_found(search):
    train, held_out = [recorded(power, 1)], [recorded(power, 2)]
    result = identify_by(published_method("ur10e_power_friction", search=search), MODEL, train, held_out)
    np.testing.assert_allclose(result.account["alpha"], [0.45, 0.6, 0.8], atol=0.05)
    least_squares = identify(MODEL, train, held_out, estimator="ols")
    assert mean_moving(result.validation) < 0.5 * mean_moving(least_squares.validation)


def test_a_colony_of_one_seed_finds_the_same_again():
    settings = repeated(10.0)
    train = [recorded(levelling, 1, period=10.0, periods=3, noise=1.0)]
    method = published_method("abc_arctan", signals=settings, colony=BeeColony(cycles=30))
    results = [identify_by(method, MODEL, train, random_state=3) for _ in range(2)]
    np.testing.assert_array_equal(*(result.identification.parameters_ for result in results))
    history = results[0].account["history"]
    assert history[-1] < history[0]
    assert results[0].account["evaluations"] >= 30 * 20


def test_variable_projection_leaves_less_than_a_colony_and_finds_the_shape():
    train, signals = recorded(levelling, 1, periods=3), repeated(20.0)
    found = {
        search: identify_by(
            published_method("abc_arctan", signals=signals, search=search, colony=BeeColony(cycles=20)), MODEL, [train]
        ).identification
        for search in ("variable_projection", "bee_colony")
    }
    rms = {search: float(np.mean(result.train.pooled["all"].rms)) for search, result in found.items()}
    assert rms["variable_projection"] < 0.05 < rms["bee_colony"]
    for joint in found["variable_projection"].friction.joints:
        assert joint.shapes["arctan.f4"] == pytest.approx(6.0, rel=0.05)


def test_the_stream_reaches_the_batch_answer():
    result = identify_by("recursive_six_axis", MODEL, [recorded(plain, 1)], [recorded(plain, 2)])
    against = result.account["against_batch"]
    assert against["recursive"]["parameter_error"] < 0.05
    for way in against.values():
        assert way["rms_moving"]["train"] <= 1.02 * way["rms_moving_batch"]["train"]
    measured, modelled = result.train.energy.measured, result.train.energy.predicted
    np.testing.assert_allclose(modelled, measured, rtol=0.05)
    assert set(result.account["sensitivity"]) == set(result.identification.names)


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(InputError, match="unknown method 'coman'; there are coman_three_layer"):
        published_method("coman")
    with pytest.raises(InputError, match="no setting cycles; it has"):
        published_method("abc_arctan", cycles=3)
    for name, settings in (
        ("coman_three_layer", {"regimes": "both"}),
        ("coman_three_layer", {"tolerance": 0.0}),
        ("coman_three_layer", {"inputs": "none", "friction": "coulomb_viscous", "rigid": "wls"}),
        ("ur10e_power_friction", {"search": "guessing"}),
        ("abc_arctan", {"search": "guessing"}),
        ("abc_arctan", {"coordinates": "polar"}),
        ("recursive_six_axis", {"estimator": "ols"}),
    ):
        with pytest.raises(InputError):
            identify_by(published_method(name, **settings), MODEL, [recorded(plain, 1)], [recorded(plain, 2)])
