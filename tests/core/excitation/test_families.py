"""Every family: exact derivatives, rest at both ends whatever the coefficients, linear, rebuilt exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import CubicBSpline, Fourier, Segments, trajectory_from_definition
from core.excitation.families import FAMILIES, FREE, LinearFamily, family

START = np.array([0.3, -1.2, 0.7])
T = 8.0


def members(name: str, harmonics: int = 4) -> LinearFamily:
    end = START if name in ("fourier", FREE) else START + np.array([0.4, 0.0, -0.5])
    return family(name, harmonics=harmonics, duration=T, start=START, end=end)


def test_a_free_series_ends_as_it_begins_wherever_that_is() -> None:
    group = members(FREE)
    x = np.random.default_rng(0).normal(size=(3, group.size))
    q, qd, qdd = group.trajectory(x).evaluate(np.array([0.0, T]))
    for signal in (q, qd, qdd):
        np.testing.assert_allclose(signal[0], signal[1], atol=1e-10)
    assert np.abs(q[0] - START).min() > 1e-3
    assert np.abs(qd[0]).min() > 1e-3


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {FREE}))
def test_starts_and_ends_at_rest_whatever_the_coefficients(name: str) -> None:
    group = members(name)
    x = np.random.default_rng(0).normal(size=(3, group.size))
    q, qd, qdd = group.trajectory(x).evaluate(np.array([0.0, T]))
    np.testing.assert_allclose(q, [group.start, group.end], atol=1e-11)
    np.testing.assert_allclose(qd, 0.0, atol=1e-11)
    np.testing.assert_allclose(qdd, 0.0, atol=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_derivative_is_that_of_the_one_before(name: str) -> None:
    group = members(name)
    trajectory = group.trajectory(np.random.default_rng(1).normal(size=(3, group.size)))
    h, t = 1e-4, np.linspace(0.1, 7.9, 41) + 0.0123  # no spline knot within h
    d = [trajectory.derivatives(t + k * h) for k in (-1, 0, 1)]
    for order in range(3):
        np.testing.assert_allclose(d[1][order + 1], (d[2][order] - d[0][order]) / (2 * h), atol=2e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_basis_and_offset_make_the_trajectory(name: str) -> None:
    group = members(name)
    t, x = np.linspace(0.0, T, 33), np.random.default_rng(2).normal(size=(3, group.size))
    made = group.offset(t) + np.einsum("rkm,jm->rkj", group.basis(t), x)
    np.testing.assert_allclose(made, group.trajectory(x).derivatives(t), atol=1e-11)


@pytest.mark.parametrize("name", FAMILIES)
def test_fit_finds_the_coefficients_again(name: str) -> None:
    group = members(name)
    x = np.random.default_rng(3).normal(size=(3, group.size))
    np.testing.assert_allclose(group.fit(group.trajectory(x)), x, atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_definition_survives_json_and_samples_at_any_rate(name: str) -> None:
    group = members(name)
    trajectory = group.trajectory(np.random.default_rng(4).normal(size=(3, group.size)))
    again = trajectory_from_definition(json.loads(json.dumps(trajectory.definition())))
    for period in (0.001, 0.002, 0.008):
        np.testing.assert_array_equal(again.sample(period).q, trajectory.sample(period).q)


def test_segments_follow_each_other() -> None:
    one = family("fourier_quintic", harmonics=2, duration=2.0, start=START, end=START + 0.5)
    two = family("bspline", harmonics=3, duration=3.0, start=START + 0.5, end=START)
    x = np.random.default_rng(5)
    parts = [group.trajectory(x.normal(size=(3, group.size))) for group in (one, two)]
    whole = trajectory_from_definition(json.loads(json.dumps(Segments(tuple(parts)).definition())))
    assert whole.duration == 5.0
    samples = whole.sample(0.01)
    np.testing.assert_allclose(samples.q[:200], parts[0].sample(0.01).q[:200], atol=1e-12)
    np.testing.assert_allclose(samples.qdd[200:], parts[1].sample(0.01).qdd, atol=1e-9)
    with pytest.raises(InputError, match=r"segment 2 begins 0\.5 rad away"):
        Segments((parts[0], parts[0]))


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"family": "fourier", "period": 4.0, "offset": [0.0], "a": [[1.0]], "b": [[1.0, 2.0]]}, "a and b both"),
        ({"family": "fourier", "period": 0.0, "offset": [0.0], "a": [[1.0]], "b": [[1.0]]}, "period must be positive"),
        ({"family": "bspline", "duration": 4.0, "control": [[0.0, 1.0, 2.0]]}, "M >= 4"),
        ({"family": "bspline", "duration": 4.0}, "missing ['control']"),
        ({"family": "segments", "segments": "none"}, "list of definitions"),
        ({"family": "segments", "segments": []}, "at least one segment"),
        ({"family": "segments", "segments": [{"family": "segments", "segments": []}]}, "definition of one trajectory"),
    ],
)
def test_bad_definitions_are_refused_with_the_reason(definition: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        trajectory_from_definition(definition)
    assert message in refused.value.detail


@pytest.mark.parametrize(
    ("name", "harmonics", "end", "message"),
    [
        ("sine", 5, START, "known: fourier_quintic"),
        ("fourier", 1, START, "at least 2 harmonics"),
        ("fourier", 3, START + 1.0, "ends where it starts"),
    ],
)
def test_impossible_families_are_refused(name: str, harmonics: int, end: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        family(name, harmonics=harmonics, duration=T, start=START, end=end)


def test_published_series_have_the_published_derivative() -> None:
    """COMAN source: speed is ``sum a cos(w l t) + b sin(w l t)``."""
    trajectory = Fourier(10.0, np.zeros(1), np.array([[0.2, 0.1]]), np.array([[0.3, -0.4]]))
    t, w = np.linspace(0.0, 10.0, 7), 2.0 * np.pi / 10.0
    speed = 0.2 * np.cos(w * t) + 0.1 * np.cos(2 * w * t) + 0.3 * np.sin(w * t) - 0.4 * np.sin(2 * w * t)
    np.testing.assert_allclose(trajectory.evaluate(t)[1][:, 0], speed, atol=1e-12)


def test_spline_jerk_is_constant_between_knots() -> None:
    spline = CubicBSpline(4.0, np.random.default_rng(6).normal(size=(2, 8)))
    jerk = spline.derivatives(np.array([0.1, 0.7, 0.9, 1.5]))[3]  # knots every 0.8 s
    np.testing.assert_allclose(jerk[0], jerk[1])
    np.testing.assert_allclose(jerk[2], jerk[3])
