"""Fourier + quintic trajectories: exact derivatives, rest at both ends, round trip, clear refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import FourierQuintic, catalogue, catalogue_names, trajectory_from_definition


def random_trajectory(seed: int = 0, n: int = 6, harmonics: int = 5) -> FourierQuintic:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0.0, 0.3, (2, n, harmonics))
    start, end = rng.uniform(-1.0, 1.0, (2, n))
    return FourierQuintic(12.0, a, b, start, end)


def test_starts_and_ends_at_rest_in_the_given_poses() -> None:
    trajectory = random_trajectory()
    q, qd, qdd = trajectory.evaluate(np.array([0.0, trajectory.duration]))
    np.testing.assert_allclose(q, [trajectory.start, trajectory.end], atol=1e-12)
    np.testing.assert_allclose(qd, 0.0, atol=1e-12)
    np.testing.assert_allclose(qdd, 0.0, atol=1e-11)


def test_derivatives_are_those_of_the_position() -> None:
    trajectory = random_trajectory(1)
    h, t = 1e-3, np.linspace(0.5, 11.5, 57)
    q = [trajectory.evaluate(t + k * h)[0] for k in range(-3, 4)]
    _, qd, qdd = trajectory.evaluate(t)
    first = np.tensordot([-1, 9, -45, 0, 45, -9, 1], q, axes=1) / (60 * h)
    second = np.tensordot([2, -27, 270, -490, 270, -27, 2], q, axes=1) / (180 * h**2)
    np.testing.assert_allclose(qd, first, atol=1e-10)
    np.testing.assert_allclose(qdd, second, atol=1e-7)


def test_series_alone_is_the_published_one() -> None:
    """With amplitudes that already rest at both ends, the quintic is constant and the series remains."""
    a, b = np.array([[0.4, -0.4]]), np.array([[0.6, -0.3]])  # sum a = 0, sum b k = 0
    w = 2 * np.pi / 8.0
    offset = -(0.6 / w - 0.3 / (2 * w))
    trajectory = FourierQuintic(8.0, a, b, np.array([offset]), np.array([offset]))
    t = np.linspace(0.0, 8.0, 41)
    expected = (
        0.4 / w * np.sin(w * t)
        - 0.6 / w * np.cos(w * t)
        - 0.4 / (2 * w) * np.sin(2 * w * t)
        + 0.3 / (2 * w) * np.cos(2 * w * t)
    )
    np.testing.assert_allclose(trajectory.evaluate(t)[0][:, 0], expected, atol=1e-12)


def test_sampling_includes_both_ends() -> None:
    samples = random_trajectory().sample(0.002)
    assert samples.t.size == 6001
    assert samples.t[-1] == 12.0
    assert samples.duration == 12.0


def test_definition_survives_json_exactly() -> None:
    trajectory = random_trajectory(2)
    again = trajectory_from_definition(json.loads(json.dumps(trajectory.definition())))
    t = np.linspace(0.0, 12.0, 31)
    for value, expected in zip(again.evaluate(t), trajectory.evaluate(t), strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "sine"}, "unknown trajectory family 'sine'"),
        ({"period": -1.0}, "period must be positive"),
        ({"period": "12"}, "period must be a number"),
        ({"a": [[0.1, "x"]] * 6}, "a is not a rectangular array"),
        ({"a": [[0.1, float("nan")]] * 6}, "a holds a value that is not finite"),
        ({"b": [[0.1]] * 6}, "a and b must both have shape"),
        ({"speed": 1.0}, "unknown ['speed']"),
    ],
)
def test_bad_definitions_are_refused_with_the_reason(change: dict[str, object], message: str) -> None:
    definition = {**random_trajectory().definition(), **change}
    with pytest.raises(InputError) as refused:
        trajectory_from_definition(definition)
    assert message in refused.value.detail


@pytest.mark.parametrize("period", [0.0, -0.002, float("nan"), 0.007, 20.0])
def test_a_period_that_would_lose_the_end_is_refused(period: float) -> None:
    with pytest.raises(InputError):
        random_trajectory().sample(period)


def test_catalogue_names_what_it_has() -> None:
    assert {"ur10e_excitation", "ur10e_validation"} <= set(catalogue_names())
    with pytest.raises(InputError, match="ur10e_excitation"):
        catalogue("nothing")
