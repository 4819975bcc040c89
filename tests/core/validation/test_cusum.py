"""Cumulative sums: as rarely wrong as they are meant to be, and quick about a change."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import InputError
from core.validation.cusum import Cusum, average_run_length, threshold_for

RUN_LENGTH = 200.0


def run_lengths(shift: float, count: int) -> np.ndarray:
    """Return after how many values ``count`` signals tripped, each started anew then."""
    random = np.random.default_rng(1)
    sums, alive, lengths = Cusum(count, RUN_LENGTH), np.ones(count, dtype=bool), np.zeros(count)
    for step in range(1, 20 * round(RUN_LENGTH)):
        tripped = sums.update(random.normal(shift, 1.0, count)) & alive
        lengths[tripped] = step
        alive &= ~tripped
        if not alive.any():
            break
    return lengths[lengths > 0]


def test_false_alarms_are_as_rare_as_they_are_meant_to_be() -> None:
    assert np.mean(run_lengths(0.0, 2000)) == pytest.approx(RUN_LENGTH, rel=0.1)


@pytest.mark.parametrize("shift", [1.0, -1.0])
def test_a_change_of_a_standard_deviation_is_found_soon(shift: float) -> None:
    assert np.mean(run_lengths(shift, 500)) < 15.0


def test_nothing_said_changes_nothing() -> None:
    sums = Cusum(2, RUN_LENGTH)
    sums.update(np.array([2.0, np.nan]))
    before = sums.upper.copy()
    assert not sums.update(np.array([np.nan, np.nan])).any()
    np.testing.assert_array_equal(sums.upper, before)
    assert before[1] == 0.0
    sums.reset()
    assert not sums.level.any()


def test_thresholds_are_the_run_lengths_own() -> None:
    for length in (50.0, 1e4, 1e8):
        assert average_run_length(threshold_for(length, 0.5), 0.5) == pytest.approx(length, rel=1e-6)
    with pytest.raises(InputError, match="a run length above 10"):
        threshold_for(5.0, 0.5)
