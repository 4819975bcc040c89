"""The artificial bee colony on functions whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import InputError
from core.estimators.bee_colony import BeeColony


def bowl(x: np.ndarray) -> float:
    return float(np.sum((x - [0.5, -1.0, 2.0]) ** 2))


def test_it_finds_the_bottom_of_a_bowl():
    found = BeeColony().minimise(bowl, [-4.0] * 3, [4.0] * 3, np.random.default_rng(1))
    np.testing.assert_allclose(found.best, [0.5, -1.0, 2.0], atol=0.02)
    assert found.cost == bowl(found.best)
    assert found.history.shape == (200,)
    assert np.all(np.diff(found.history) <= 0.0)
    assert 10 + 200 * 20 <= found.evaluations <= 10 + 200 * 21


def test_the_same_seed_gives_the_same_digits():
    runs = [BeeColony(cycles=20).minimise(bowl, [-4.0] * 3, [4.0] * 3, np.random.default_rng(s)) for s in (7, 7, 8)]
    np.testing.assert_array_equal(runs[0].best, runs[1].best)
    assert np.any(runs[0].best != runs[2].best)


def test_scouts_leave_what_gives_nothing():
    visited = []

    def flat(x: np.ndarray) -> float:
        visited.append(x.copy())
        return 1.0

    BeeColony(population=4, limit=3, cycles=40).minimise(flat, [0.0, 0.0], [1.0, 1.0], np.random.default_rng(0))
    assert len({round(float(x[0]), 12) for x in visited}) > 10
    assert np.all((np.array(visited) >= 0.0) & (np.array(visited) <= 1.0))


@pytest.mark.parametrize(
    ("colony", "lower", "upper"),
    [
        (BeeColony(), [0.0, 1.0], [1.0, 1.0]),
        (BeeColony(), [0.0], [np.inf]),
        (BeeColony(population=5), [0.0], [1.0]),
        (BeeColony(cycles=0), [0.0], [1.0]),
    ],
)
def test_what_makes_no_sense_is_refused(colony, lower, upper):
    with pytest.raises(InputError):
        colony.minimise(lambda x: 0.0, lower, upper, np.random.default_rng(0))
