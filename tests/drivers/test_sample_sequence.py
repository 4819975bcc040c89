"""Numbers for samples: gaps exact, restarts survived, oddities refused or counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.contract import DriverProtocolError
from drivers.sequence import SequenceCounter

SECOND = 1_000_000_000


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.integers(1, 2000), min_size=1, max_size=60),
    splits=st.lists(st.integers(1, 10), min_size=60, max_size=60),
    start=st.integers(0, 10**9),
)
def test_what_is_missing_is_counted_exactly(steps: list[int], splits: list[int], start: int) -> None:
    """Stamps of any uptime, up to 23 days at 500 Hz, in blocks of any size."""
    counter = SequenceCounter(500.0)
    periods = start + np.cumsum(steps)
    stamps = periods * 0.002
    sequences, losses, at = [], [], 0
    for size in splits:
        if at < stamps.size:
            sequence, lost = counter.number(stamps[at : at + size], SECOND)
            sequences += sequence.tolist()
            losses += lost.tolist()
        at += size
    assert sequences == periods.tolist()
    assert losses == [0, *(step - 1 for step in steps[1:])]


def test_a_gap_over_a_new_connection_is_counted_by_the_controllers_clock() -> None:
    counter = SequenceCounter(500.0)
    counter.number(np.array([10.0, 10.002]), 100 * SECOND)
    counter.new_connection()
    sequence, lost = counter.number(np.array([13.002, 13.004]), 103 * SECOND)
    assert sequence.tolist() == [6501, 6502]
    assert lost.tolist() == [1499, 0]
    assert counter.restarts == 0


@pytest.mark.parametrize("stamp_after", [0.5, 30.0])
def test_after_a_restart_numbers_go_on_by_this_hosts_clock(stamp_after: float) -> None:
    """Also when the restarted controller's clock is already past the old one."""
    counter = SequenceCounter(500.0)
    counter.number(np.array([20.0]), 100 * SECOND)
    counter.new_connection()
    stamps = stamp_after + np.array([0.0, 0.002, 0.006])
    sequence, lost = counter.number(stamps, 140 * SECOND)
    assert sequence.tolist() == [30000, 30001, 30003]
    assert lost.tolist() == [19999, 0, 1]
    assert counter.restarts == 1
    sequence, lost = counter.number(stamps[-1:] + 0.002, 140 * SECOND)
    assert (sequence.tolist(), lost.tolist()) == ([30004], [0])


def test_repetitions_are_marked_and_running_backwards_is_refused() -> None:
    counter = SequenceCounter(500.0)
    _, lost = counter.number(np.array([1.0, 1.002, 1.002, 1.004]), SECOND)
    assert lost.tolist() == [0, 0, -1, 0]
    assert counter.repeated == 1
    with pytest.raises(DriverProtocolError, match=r"backwards after 1\.0040 s"):
        counter.number(np.array([0.9]), SECOND)
