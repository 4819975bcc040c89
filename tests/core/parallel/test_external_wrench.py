"""The wrench on a platform as a live signal, from encoders and force sensors at 1 kHz."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import InputError
from core.models import SixUPRU
from core.streaming.external_wrench import ExternalWrench, WrenchSignal
from core.streaming.samples import SampleBlock, sample_dtype

Array = np.ndarray

PERIOD = 0.001
RESOLUTION = 0.010 / 2**17  # m, of an encoder
NOISE = 2.2  # N, one per cent of the forces
TARE, GAIN = np.array([5.0, -3.0, 8.0, 0.0, -6.0, 2.0]), np.array([1.01, 0.99, 1.0, 1.02, 0.98, 1.0])


class Pushed:
    """A platform in motion that is pushed from 1 s on, and what is measured of it."""

    def __init__(self, upru: SixUPRU, noise: float = NOISE, seconds: float = 2.0) -> None:
        self.t = np.arange(0.0, seconds, PERIOD)
        amplitude = np.array([0.05, 0.04, 0.06, 0.08, 0.06, 0.07])
        rate = 2.0 * np.pi * np.array([0.4, 0.5, 0.6, 0.5, 0.4, 0.3])
        phase = np.outer(self.t, rate)
        q, qd, qdd = (
            upru.home + amplitude * np.sin(phase),
            amplitude * rate * np.cos(phase),
            -amplitude * rate**2 * np.sin(phase),
        )
        rise = np.clip((self.t - 1.0) / 0.4, 0.0, 1.0)
        self.wrench = np.outer(rise**2 * (3.0 - 2.0 * rise), [30.0, -20.0, -80.0, 6.0, -4.0, 8.0])
        force = upru.inverse_dynamics(q, qd, qdd, self.wrench)
        random = np.random.default_rng(0)
        self.samples: SampleBlock = np.zeros(self.t.size, sample_dtype(6))
        self.samples["sequence"] = np.arange(1000, 1000 + self.t.size)
        self.samples["controller_time"] = self.t
        self.samples["q"] = np.round(upru.leg_lengths(q) / RESOLUTION) * RESOLUTION
        self.samples["torque"] = TARE + GAIN * (force + random.normal(0.0, noise, force.shape))

    def wrenches(self, observer: ExternalWrench, block: int) -> WrenchSignal:
        found = [observer.take(self.samples[k : k + block]) for k in range(0, self.t.size, block)]
        return WrenchSignal(*(np.concatenate(signals) for signals in zip(*found, strict=True)))

    def at(self, times: Array) -> Array:
        return np.column_stack([np.interp(times, self.t, own) for own in self.wrench.T])


def test_a_push_is_seen_within_the_noise_that_is_told(upru: SixUPRU) -> None:
    pushed = Pushed(upru)
    observer = ExternalWrench(upru, PERIOD, tare=TARE, gain=GAIN)
    assert observer.delay == pytest.approx(0.05)
    found = pushed.wrenches(observer, 10)
    assert found.times[0] == pytest.approx(observer.delay)
    assert found.times[-1] == pytest.approx(pushed.t[-1] - observer.delay)
    error = found.wrench - pushed.at(found.times)
    told = observer.noise(GAIN * NOISE)
    assert np.all(told < [0.4, 0.4, 1.0, 0.3, 0.3, 0.2])  # N, N·m: of a push of 88 N
    assert np.all(np.sqrt(np.mean(error**2, axis=0)) < 1.6 * told)  # some 20 windows, and other poses than the last
    assert np.all(np.abs(error).max(axis=0) < 5.0 * told)
    assert observer.restarts == 0


def test_without_noise_only_rounding_off_is_left(upru: SixUPRU) -> None:
    pushed = Pushed(upru, noise=0.0)
    found = pushed.wrenches(ExternalWrench(upru, PERIOD, window=0.04, tare=TARE, gain=GAIN), 50)
    assert np.abs(found.wrench - pushed.at(found.times)).max() < 0.15


def test_blocks_of_any_size_give_the_same(upru: SixUPRU) -> None:
    pushed = Pushed(upru, seconds=0.3)
    one, other = (pushed.wrenches(ExternalWrench(upru, PERIOD), block) for block in (1, 300))
    np.testing.assert_array_equal(one.times, other.times)
    np.testing.assert_allclose(one.wrench, other.wrench, atol=1e-6)


def test_a_gap_starts_the_window_anew(upru: SixUPRU) -> None:
    pushed = Pushed(upru, seconds=0.5)
    pushed.samples = np.delete(pushed.samples, slice(250, 260))
    pushed.samples["lost"][250] = 10
    observer = ExternalWrench(upru, PERIOD, tare=TARE, gain=GAIN)
    found = [observer.take(pushed.samples[k : k + 70]) for k in range(0, 490, 70)]
    times = np.concatenate([part.times for part in found])
    assert observer.restarts == 1
    assert not np.any((times > 0.2) & (times < 0.309))  # nothing from samples on both sides
    np.testing.assert_allclose(times[times > 0.25][0], 0.31)
    wrench = np.concatenate([part.wrench for part in found])
    assert np.abs(wrench).max() < 15.0


def test_what_is_no_force_signal_is_refused(upru: SixUPRU) -> None:
    observer = ExternalWrench(upru, PERIOD)
    blind = Pushed(upru, seconds=0.01).samples
    blind["torque"] = np.nan
    with pytest.raises(InputError, match="without a measured force"):
        observer.take(blind)
    with pytest.raises(InputError, match="has 6 legs"):
        observer.take(np.zeros(3, sample_dtype(7)))
    with pytest.raises(InputError, match="give it at least five"):
        ExternalWrench(upru, PERIOD, window=0.002)
    with pytest.raises(InputError, match="must be positive"):
        ExternalWrench(upru, 0.0)
    with pytest.raises(InputError, match="window is not full yet"):
        observer.noise(np.ones(6))
    assert observer.take(Pushed(upru, seconds=0.01).samples).times.size == 0
