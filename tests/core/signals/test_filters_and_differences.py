"""The building blocks of signal preparation against what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.signals import SignalSettings
from core.signals.differentiation import central_difference
from core.signals.filters import ZeroPhaseButterworth


def test_the_filter_halves_amplitude_at_its_cutoff_and_shifts_nothing():
    low_pass = ZeroPhaseButterworth(order=5, cutoff=10.0, rate=100.0)
    t = np.arange(3000) / 100.0
    inner = slice(200, -200)
    at_cutoff = np.cos(2 * np.pi * 10.0 * t)
    assert low_pass.apply(at_cutoff)[inner] == pytest.approx(0.5 * at_cutoff[inner], abs=1e-9)
    slow = np.cos(2 * np.pi * 1.0 * t)
    assert low_pass.apply(slow)[inner] == pytest.approx(slow[inner], abs=1e-4)


def test_the_filter_keeps_straight_lines_and_the_shape_of_arrays():
    low_pass = ZeroPhaseButterworth(order=5, cutoff=15.0, rate=100.0)
    line = np.linspace(-3.0, 4.0, 400)
    stack = np.stack([np.stack([line, 2 * line]), np.stack([line + 1, -line])]).transpose(2, 0, 1)
    filtered = low_pass.apply(stack)
    assert filtered == pytest.approx(stack, abs=1e-3)
    assert filtered[100:-100] == pytest.approx(stack[100:-100], abs=1e-9)


def test_transients_have_settled_when_the_filter_says_so():
    low_pass = ZeroPhaseButterworth(order=5, cutoff=10.0, rate=500.0)
    impulse = np.zeros(4001)
    impulse[2000] = 1.0
    response = np.abs(low_pass.apply(impulse))
    assert response[2000 + low_pass.settling(1e-3) :].max() < 1e-2 * response.max()


@given(st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=7))
@settings(max_examples=20, deadline=None)
def test_central_differences_are_exact_for_polynomials(coefficients):
    polynomial = np.polynomial.Polynomial(coefficients)
    t = np.arange(-20, 21) * 0.05
    derivative = central_difference(polynomial(t), 0.05)
    assert derivative[3:-3] == pytest.approx(polynomial.deriv()(t)[3:-3], abs=1e-9)


@pytest.mark.parametrize("samples", [2, 3, 6, 7])
def test_short_signals_have_differences_too(samples):
    line = np.arange(samples) * 0.3
    assert central_difference(line[:, None], 0.1) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0.0}, "rate must be positive"),
        ({"order": 0}, "order must be 1..10"),
        ({"torque_cutoff": 50.0}, "needs a rate above 100 Hz"),
        ({"kinematic_cutoff": float("nan")}, "kinematic_cutoff must be positive"),
        ({"velocity": "guessed"}, "measured, differentiated"),
        ({"on_gap": "ignore"}, "split, refuse"),
    ],
)
def test_settings_are_checked(wrong, message):
    with pytest.raises(InputError, match=message):
        SignalSettings(**wrong)


def test_settings_round_trip():
    chosen = SignalSettings(rate=125.0, velocity="differentiated")
    assert SignalSettings.from_document(chosen.to_document()) == chosen
    with pytest.raises(InputError, match="unknown signal settings: smoothing"):
        SignalSettings.from_document({"smoothing": 3})
