"""Recordings as they come: odd stamps, gaps, wrong units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError, RecordingError
from core.recordings import Recording
from core.signals import SignalSettings, cut_before_stop, prepare

AMPLITUDE, RATE = 0.5, 2.0 * np.pi * 0.7


def recording(t: np.ndarray, *, offset: float = 0.0) -> Recording:
    q = np.column_stack([AMPLITUDE * np.sin(RATE * t), AMPLITUDE * np.cos(RATE * t)]) + offset
    qd = RATE * np.column_stack([AMPLITUDE * np.cos(RATE * t), -AMPLITUDE * np.sin(RATE * t)])
    return Recording("sine", t, q, qd, current=3.0 * q)


def uneven(seconds: float, seed: int = 0) -> np.ndarray:
    """Stamps like those of a recorded arm: 10 and 12 ms, now and then 2 or 34."""
    steps = np.random.default_rng(seed).choice(
        [0.010, 0.012, 0.002, 0.034], int(seconds * 95), p=[0.6, 0.38, 0.01, 0.01]
    )
    return 300.0 + np.cumsum(steps)


@pytest.mark.parametrize("velocity", ["measured", "differentiated"])
def test_uneven_stamps_cost_no_accuracy(velocity):
    r = recording(uneven(20.0))
    preparation = prepare(r, r.current, SignalSettings(velocity=velocity))
    (segment,) = preparation.segments
    t = segment.times
    motion, rows = segment.motion, segment.rows
    assert np.diff(t) == pytest.approx(0.01)
    assert motion.q[rows, 0] == pytest.approx(AMPLITUDE * np.sin(RATE * t), abs=1e-5)
    assert motion.qd[rows, 0] == pytest.approx(AMPLITUDE * RATE * np.cos(RATE * t), abs=1e-3)
    assert motion.qdd[rows, 0] == pytest.approx(-AMPLITUDE * RATE**2 * np.sin(RATE * t), abs=2e-2)
    assert segment.effort[rows, 0] == pytest.approx(3 * AMPLITUDE * np.sin(RATE * t), abs=4e-3)


def test_fast_recordings_are_filtered_at_their_own_rate_and_decimated():
    r = recording(np.arange(5000) / 500.0)
    preparation = prepare(r, r.current, SignalSettings())
    (segment,) = preparation.segments
    assert preparation.account["grid_rate"] == 500.0
    assert preparation.account["decimation"] == 5
    assert np.diff(segment.times) == pytest.approx(0.01)
    assert segment.n_rows == segment.times.size
    assert segment.motion.q[segment.rows, 1] == pytest.approx(AMPLITUDE * np.cos(RATE * segment.times), abs=1e-5)


def test_nothing_is_differentiated_across_a_gap():
    before, after = recording(np.arange(500) / 100.0), recording(5.4 + np.arange(500) / 100.0, offset=2.0)
    joined = Recording(
        "with gap",
        *(np.concatenate([getattr(before, s), getattr(after, s)]) for s in ("t", "q", "qd", "current")),
        lost=40,
    )
    preparation = prepare(joined, joined.current, SignalSettings())
    assert len(preparation.segments) == 2
    assert preparation.account["gaps"] == [{"after": pytest.approx(4.99), "seconds": pytest.approx(0.41)}]
    assert preparation.account["lost"] == 40
    for segment in preparation.segments:
        assert np.abs(segment.motion.qdd[segment.rows]).max() < 1.01 * AMPLITUDE * RATE**2
    with pytest.raises(RecordingError, match=r"1 gaps longer .* the first of 0"):
        prepare(joined, joined.current, SignalSettings(on_gap="refuse"))


def test_pieces_too_short_for_the_filter_are_dropped_and_counted():
    t = np.arange(1000) / 100.0
    t[20:] += 1.0
    r = recording(t)
    preparation = prepare(r, r.current, SignalSettings())
    assert preparation.account["samples_in_dropped_segments"] == [20]
    with pytest.raises(RecordingError, match="no uninterrupted part is as long as"):
        prepare(r.rows(1, 20), r.current[:20], SignalSettings())


def test_recordings_too_slow_for_the_filters_are_refused():
    r = recording(np.arange(500) / 20.0)
    with pytest.raises(RecordingError, match=r"recorded at 20\.0 Hz, which cannot carry the 15 Hz"):
        prepare(r, r.current, SignalSettings(max_gap=0.1))


def test_a_velocity_in_degrees_is_noticed():
    r = recording(np.arange(1000) / 100.0)
    odd = replace(r, qd=r.qd * [1.0, 180.0 / np.pi])
    with pytest.raises(RecordingError, match=r"velocity of joint 2 .* best factor 57.3"):
        prepare(odd, r.current, SignalSettings())
    assert prepare(odd, r.current, SignalSettings(velocity="differentiated")).segments


def test_effort_has_to_fit():
    r = recording(np.arange(1000) / 100.0)
    with pytest.raises(InputError, match="effort has shape"):
        prepare(r, r.current[:, :1], SignalSettings())


def test_the_stop_is_cut_off_with_a_margin():
    r = recording(np.arange(1000) / 100.0)
    stopped = replace(r, qd=np.where(r.t[:, None] <= 8.0, r.qd, 0.0), provenance={"rows": [51, 1050]})
    cut = cut_before_stop(stopped, 0.25)
    assert cut.t[-1] == pytest.approx(7.75)
    assert cut.provenance == {"rows": [51, 826], "stop_margin": 0.25}
    with pytest.raises(RecordingError, match="no joint moves faster"):
        cut_before_stop(replace(r, qd=np.zeros_like(r.qd)), 0.25)
    with pytest.raises(RecordingError, match=r"it lasts 9\.99 s, and leaving out 100 s before its stop leaves nothing"):
        cut_before_stop(r, 100.0)


def test_two_samples_are_too_short_rather_than_a_crash():
    r = recording(np.arange(2) / 100.0)
    with pytest.raises(RecordingError, match="no uninterrupted part is as long as"):
        prepare(r, r.current, SignalSettings())
