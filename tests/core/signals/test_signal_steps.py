"""Single steps of signal processing: smoothing, refit, averaging, marks, delay; and that the account tells of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError, RecordingError
from core.recordings import Recording
from core.signals import SignalSettings, estimate_delay, mark_samples, prepare
from core.signals.five_point import FivePointCubic
from core.signals.fourier_refit import fit_fourier
from core.signals.periods import average_periods

PERIOD = 5.0
W = 2.0 * np.pi / PERIOD


def series(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two joints, harmonics 1 to 3."""
    q = np.column_stack([0.4 * np.sin(W * t) + 0.1 * np.cos(3 * W * t), 0.3 * np.cos(2 * W * t) + 0.2])
    qd = W * np.column_stack([0.4 * np.cos(W * t) - 0.3 * np.sin(3 * W * t), -0.6 * np.sin(2 * W * t)])
    qdd = W**2 * np.column_stack([-0.4 * np.sin(W * t) - 0.9 * np.cos(3 * W * t), -1.2 * np.cos(2 * W * t)])
    return q, qd, qdd


def recorded(seconds: float = 22.0, *, noise: float = 0.0, lag: float = 0.0, rate: float = 125.0) -> Recording:
    rng = np.random.default_rng(1)
    t = 3.0 + np.arange(int(seconds * rate)) / rate + rng.uniform(-0.2, 0.2, int(seconds * rate)) / rate
    q, qd, _ = series(t)
    torque = 10.0 * series(t - lag)[0] + 4.0 * series(t - lag)[2]
    return Recording("run", t, q, qd, torque=torque + noise * rng.normal(size=q.shape))


# --- five-point cubic smoothing -------------------------------------------------------------------------------


@given(coefficients=st.lists(st.floats(-3, 3), min_size=4, max_size=4), passes=st.integers(1, 30))
@settings(max_examples=20, deadline=None)
def test_cubics_pass_the_smoother_unchanged(coefficients, passes):
    x = np.linspace(-1.0, 1.0, 40)
    cubic = np.polyval(coefficients, x)[:, None]
    assert FivePointCubic(passes, 100.0).apply(cubic) == pytest.approx(cubic, abs=1e-9)


def test_the_smoother_is_linear_without_phase_and_settles():
    rng = np.random.default_rng(0)
    smoother = FivePointCubic(100, 100.0)
    a, b = rng.normal(size=(2, 300, 3, 2))
    before = a.copy()
    assert smoother.apply(a + 2.0 * b) == pytest.approx(smoother.apply(a) + 2.0 * smoother.apply(b), abs=1e-12)
    assert np.array_equal(a, before)
    impulse = np.zeros((401, 1))
    impulse[200] = 1.0
    response = smoother.apply(impulse)[:, 0]
    assert response == pytest.approx(response[::-1], abs=1e-14)
    assert response.sum() == pytest.approx(1.0)
    reach = smoother.settling(0.01)
    assert np.abs(response[200 + reach :]).sum() < 0.01
    assert 3 < reach < 40
    assert smoother.settling(1e-10) > reach
    for passes in (1, 5, 100):
        smoother = FivePointCubic(passes, 100.0)
        wave = np.exp(2j * np.pi * smoother.cutoff * np.arange(600) / 100.0)
        smoothed = smoother.apply(np.column_stack([wave.real, wave.imag])) @ [1.0, 1.0j]
        assert np.abs(smoothed[250:350]) == pytest.approx(0.5, abs=1e-9)
    assert smoother.cutoff == pytest.approx(8.4, abs=0.2)


# --- periods and Fourier refit --------------------------------------------------------------------------------


def test_the_refit_has_exact_derivatives():
    t = np.arange(700) / 100.0
    q, qd, qdd = series(t)
    noisy = q + 1e-4 * np.random.default_rng(0).normal(size=q.shape)
    found = fit_fourier(noisy, 0.01, PERIOD, 5, "run")
    motion = found.motion(700, 0.01)
    assert motion.q == pytest.approx(q, abs=1e-4)
    assert motion.qd == pytest.approx(qd, abs=3e-4)
    assert motion.qdd == pytest.approx(qdd, abs=1e-3)
    assert found.residual_rms == pytest.approx(1e-4, rel=0.1)
    with pytest.raises(
        RecordingError, match="joint 2 does not follow a Fourier series of order 5 and period 4"
    ) as refusal:
        fit_fourier(q, 0.01, 4.1, 5, "run")
    assert refusal.value.code == "recording-not-periodic"
    with pytest.raises(RecordingError, match="less than the period"):
        fit_fourier(q, 0.01, 20.0, 5, "run")


def test_averaging_lowers_noise_and_tells_the_spread():
    rng = np.random.default_rng(0)
    t = np.arange(2100) / 100.0
    clean = series(t)[0]
    found = average_periods(clean + 0.1 * rng.normal(size=clean.shape), 500, skipped=1)
    assert found.count == 3
    assert found.rms_spread == pytest.approx(0.1, rel=0.1)
    assert np.std(found.mean - clean[:500]) == pytest.approx(0.1 / 3**0.5, rel=0.1)
    with pytest.raises(RecordingError, match="needs two whole ones"):
        average_periods(clean, 500, skipped=3)


def test_averaged_refitted_and_smoothed_recordings_are_a_matter_of_settings():
    recording = recorded(noise=0.2)
    chosen = SignalSettings(
        period=PERIOD,
        periods="averaged",
        skipped_periods=1,
        kinematics="fourier",
        torque_filter="five_point_cubic",
        smoothing_passes=100,
    )
    preparation = prepare(recording, recording.torque, chosen)
    (segment,) = preparation.segments
    assert segment.n_rows == 500
    assert segment.times[0] == pytest.approx(recording.t[0] + PERIOD)
    q, qd, qdd = series(segment.times)
    motion, rows = segment.motion, segment.rows
    assert motion.q[rows] == pytest.approx(q, abs=1e-4)
    assert motion.qd[rows] == pytest.approx(qd, abs=1e-4)
    assert motion.qdd[rows] == pytest.approx(qdd, abs=1e-3)
    assert np.std(segment.effort[rows] - (10.0 * q + 4.0 * qdd)) < 0.1
    (account,) = preparation.account["segments"]
    assert account["periods"]["count"] == 3
    assert account["periods"]["effort_rms_spread"] == pytest.approx([0.2, 0.2], rel=0.3)
    assert account["kinematics"]["name"] == "fourier"
    assert preparation.account["torque_filter"] == {"name": "five_point_cubic", "passes": 100}
    assert preparation.account["differentiation"] == "analytic"
    assert SignalSettings.from_document(chosen.to_document()) == chosen
    with pytest.raises(RecordingError, match=r"joint 1 does not repeat every 4\.3 s"):
        prepare(recording, recording.torque, replace(chosen, period=4.3))


# --- outliers and frozen samples ------------------------------------------------------------------------------


def spoilt() -> tuple[Recording, np.ndarray]:
    recording = recorded(noise=0.05)
    torque = recording.torque.copy()
    torque[[400, 1500], 1] += [60.0, -40.0]
    q, qd = recording.q.copy(), recording.qd.copy()
    for i in (800, 801):
        q[i], qd[i], torque[i] = q[799], qd[799], torque[799]
    q[1100, 0] += 0.05
    return replace(recording, q=q, qd=qd, torque=torque), torque


def test_odd_samples_are_marked_and_nothing_else():
    recording, torque = spoilt()
    marks = mark_samples(recording, torque)
    assert np.argwhere(marks.outliers).tolist() == [[400, 1], [1500, 1]]
    assert np.argwhere(marks.jumps).tolist() == [[1100, 0]]
    assert np.flatnonzero(marks.frozen).tolist() == [800, 801]
    assert marks.missing == 0
    clean = recorded(noise=0.05)
    assert not mark_samples(clean, clean.torque).any.any()
    still = Recording("still", clean.t, np.zeros_like(clean.q), torque=np.ones_like(clean.q))
    assert not mark_samples(still, still.torque).any.any()
    holes = np.delete(np.arange(clean.t.size), [50, 51, 90])
    thinned = replace(clean, t=clean.t[holes], q=clean.q[holes], qd=clean.qd[holes], torque=clean.torque[holes])
    assert mark_samples(thinned, thinned.torque).missing == 3


def test_marked_samples_are_reported_and_left_out_only_on_request():
    recording, torque = spoilt()
    reported = prepare(recording, torque, SignalSettings())
    assert reported.account["marked"] == {
        "treatment": "report",
        "outliers": [0, 2],
        "jumps": [1, 0],
        "frozen": 2,
        "missing": 0,
        "samples": 5,
        "rows_left_out": 0,
    }
    without = prepare(recording, torque, SignalSettings(marked="leave_out"))
    assert len(without.segments) == 5
    assert all(segment.motion is without.segments[0].motion for segment in without.segments)
    left_out = without.account["marked"]["rows_left_out"]
    assert left_out == sum(s.n_rows for s in reported.segments) - sum(s.n_rows for s in without.segments)
    assert 30 <= left_out <= 50
    for times in (segment.times for segment in without.segments):
        assert np.diff(times) == pytest.approx(0.01)
        assert np.abs(times[:, None] - recording.t[[400, 800, 801, 1100, 1500]]).min() > 0.05
    truth = prepare(recorded(), recorded().torque, SignalSettings()).segments[0]
    for segment in without.segments:
        assert segment.motion.qdd[segment.rows] == pytest.approx(truth.motion.qdd[segment.rows], abs=0.02)
        assert segment.effort[segment.rows] == pytest.approx(truth.effort[segment.rows], abs=0.12)
    assert "outliers" not in prepare(recording, torque, SignalSettings(marked="ignore")).account["marked"]


def test_a_recording_of_outliers_is_refused():
    recording = recorded(noise=0.05)
    torque = recording.torque.copy()
    torque[::40] += 50.0
    with pytest.raises(RecordingError, match="rows lie next to outliers or frozen samples") as refusal:
        prepare(recording, torque, SignalSettings(marked="leave_out"))
    assert refusal.value.code == "recording-too-many-outliers"


# --- delay ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", [0.0, 0.0037, -0.011])
def test_a_delay_is_found_and_taken_out(lag):
    recording = recorded(noise=0.3, lag=lag, seconds=40.0)

    def found(chosen: SignalSettings):
        (segment,) = prepare(recording, recording.torque, chosen).segments
        q, _, qdd = series(segment.times)
        predicted = segment.low_pass.apply(10.0 * series(segment.start + np.arange(len(segment.effort)) * 0.008)[0])
        assert predicted.shape == segment.effort.shape
        return estimate_delay(segment.effort[segment.rows], 10.0 * q + 4.0 * qdd, 0.01, chosen.torque_cutoff, 0.05)

    chosen = SignalSettings(rate=100.0)
    before = found(chosen)
    assert np.all(np.abs(before.seconds - lag) < 4.0 * before.std + 1e-5)
    assert np.all(before.significant) == (lag != 0.0)
    after = found(replace(chosen, delay=lag))
    assert np.all(np.abs(after.seconds) < 4.0 * after.std + 1e-5)
    assert prepare(recording, recording.torque, replace(chosen, delay=lag)).account["delay"] == lag


def test_noise_alone_gains_nothing_from_a_delay():
    """What a second interpolation of the measured torque would fake: a lower residual at half a sample."""
    recording = recorded(noise=2.0, seconds=60.0)
    (segment,) = prepare(recording, recording.torque, SignalSettings(torque_cutoff=40.0)).segments
    q, _, qdd = series(segment.times)
    found = estimate_delay(segment.effort[segment.rows], 10.0 * q + 4.0 * qdd, 0.01, 40.0, 0.05)
    assert np.all(found.gain < 1e-3)
    assert not found.significant.any()
    with pytest.raises(InputError, match="too few"):
        estimate_delay(q[:10], q[:10], 0.01, 10.0, 0.05)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"torque_filter": "median"}, "torque_filter must be one of butterworth, five_point_cubic"),
        ({"marked": "hide"}, "marked must be one of report, leave_out, ignore"),
        ({"kinematics": "fourier"}, "need the period"),
        ({"periods": "averaged"}, "need the period"),
        ({"period": -1.0}, "period must be positive"),
        ({"period": 0.1, "kinematics": "fourier"}, "harmonic 5 of a period"),
        ({"delay": 0.5}, "delay must be within"),
        ({"smoothing_passes": 0}, "smoothing_passes must be at least 1"),
    ],
)
def test_settings_are_checked(wrong, message):
    with pytest.raises(InputError, match=message):
        SignalSettings(**wrong)


def test_settings_of_another_type_or_name_are_refused():
    for document, message in (
        ({"rate": "fast"}, "something else"),
        ({"speed": 1}, "unknown signal settings: speed; there"),
    ):
        with pytest.raises(InputError, match=message):
            SignalSettings.from_document(document)
