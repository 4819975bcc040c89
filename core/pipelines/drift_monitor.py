"""Whether a robot that works drifts from the model in force: measured less predicted torque of the live stream.

Of each joint, what is left over some ten seconds of its motion is split into a part that follows the direction, which
friction that grows makes larger, and one that does not, as a payload or a sensor's offset makes. What these figures are
of a robot that has not changed is learned first, on its own motion, since no model is exact and its error depends on
the motion; they are standardised, made independent of the ones before, and summed up (``core.validation.cusum``). What
has changed, and by how much, a calibration tells: ``core.pipelines.drift``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.pipelines.identification import Identification
from core.validation.cusum import Cusum

Array = NDArray[np.float64]

FIGURE = 10.0
"""s of motion of a joint that make one pair of figures."""
LEARNED = 60
"""Pairs of each joint that tell what is usual: ten minutes of its motion."""
FALSE_ALARM = 30.0 * 24.0 * 3600.0
"""s of motion between false alarms of all joints together, on average."""
ALLOWANCE = 1.0
"""Standard deviations of a figure that it may lie off for good: what is usual is known from some figures only, and
other motions leave other errors."""
_WINDOW = 1.0  # s that are predicted at a time, and as much before them, for friction that remembers
_CUTOFF = 5.0  # Hz
_BOTH_WAYS = 0.15  # share of the rarer direction, below which the two parts cannot be told apart
_TOO_LONG = 6.0  # times a figure's motion, after which one without both directions is given up
_MOST_MEMORY = 0.95


Drift = Literal["offset", "friction"]
_KINDS: tuple[Drift, Drift] = ("offset", "friction")


@dataclass(frozen=True)
class Trip:
    """A joint that has drifted.

    Attributes
    ----------
    joint : from 0.
    kind : ``friction`` where the torque follows the direction of motion, else ``offset``.
    torque : how far the last figure is from what is usual, in the result's unit.
    """

    joint: int
    kind: Drift
    torque: float


class DriftMonitor:
    """Fed with samples in their order; cheap enough for the full rate beside other work.

    Parameters
    ----------
    rate : Hz of the samples.

    Raises
    ------
    InputError
        The rate is not above 4 times the filter's 5 Hz.
    """

    def __init__(self, identified: Identification, rate: float) -> None:
        if not rate > 4.0 * _CUTOFF:
            raise InputError(f"a drift monitor needs more than {4.0 * _CUTOFF:g} samples a second, got {rate:g}")
        self.identified, self.rate = identified, rate
        self._filter = scipy.signal.butter(2, _CUTOFF, fs=rate, output="sos")
        self._width = round(_WINDOW * rate)
        n = identified.model.n_joints
        self._cusum = Cusum(2 * n, 2 * n * FALSE_ALARM / FIGURE, ALLOWANCE)
        self._sums = np.zeros((4, n))
        self._usual: list[list[Array]] = [[] for _ in range(n)]
        self._before = np.zeros((2, n))
        self._doubt = np.zeros((2, n))  # sum over windows of the model's standard deviation, and how many they are
        self._mean, self._spread, self._memory = np.zeros((2, n)), np.ones((2, n)), np.zeros((2, n))
        self.restart()

    @property
    def learned(self) -> Array:
        """How much of what is usual of each joint (n,) is known, from 0 to 1; it does not trip before."""
        return np.array([min(len(figures) / LEARNED, 1.0) for figures in self._usual])

    @property
    def level(self) -> Array:
        """How near each joint (n,) is to tripping; 1 is there."""
        return np.asarray(self._cusum.level.reshape(2, -1).max(axis=0))

    def restart(self) -> None:
        """Forget the samples, after a gap in them, but not what has been learned and summed up."""
        self._state: Array | None = None
        self._kept = np.empty((0, 4, self.identified.model.n_joints))

    def update(self, q: ArrayLike, qd: ArrayLike, measured: ArrayLike) -> tuple[Trip, ...]:
        """Take the samples that follow, each (N, n), torque in the result's unit; return which joints trip now.

        Raises
        ------
        InputError
            A shape is wrong, or a value is not finite.
        """
        samples = self._checked(q, qd, measured)
        self._kept = np.concatenate([self._kept, self._filtered(samples)])
        trips: list[Trip] = []
        while len(self._kept) >= 2 * self._width:
            self._add(self._kept[: 2 * self._width])
            trips += self._judge(self._figures())
            self._kept = self._kept[self._width :]
        return tuple(trips)

    def _checked(self, *signals: ArrayLike) -> Array:
        arrays = [np.atleast_2d(np.asarray(signal, dtype=np.float64)) for signal in signals]
        wanted = (len(arrays[0]), self.identified.model.n_joints)
        for name, array in zip(("q", "qd", "measured"), arrays, strict=True):
            if array.shape != wanted:
                raise InputError(f"{name} has shape {array.shape}, expected {wanted}")
            if not np.all(np.isfinite(array)):
                raise InputError(f"{name} holds values that are not finite")
        return np.stack(arrays, axis=1)

    def _filtered(self, samples: Array) -> Array:
        """Return q, qd, qdd and torque (N, 4, n), all delayed alike, so that no delay has to be known."""
        if self._state is None:
            start = scipy.signal.sosfilt_zi(self._filter)
            self._state = start[:, :, None, None] * samples[0]
            self._last = samples[0, 1]
        smooth, self._state = scipy.signal.sosfilt(self._filter, samples, axis=0, zi=self._state)
        rate = np.vstack([self._last, smooth[:, 1]])
        self._last = smooth[-1, 1]
        qdd = np.diff(rate, axis=0) * self.rate
        return np.stack([smooth[:, 0], smooth[:, 1], qdd, smooth[:, 2]], axis=1)

    def _add(self, window: Array) -> None:
        """Sum up the second half of a window, while joints move: 1, s, r and s r for residual r, direction s."""
        q, qd, qdd, torque = (np.ascontiguousarray(window[:, k]) for k in range(4))
        left = (torque - self.identified.predict(q, qd, qdd, period=1.0 / self.rate))[self._width :]
        speed = qd[self._width :]
        moving = np.abs(speed) > self.identified.moving_threshold
        direction = np.where(moving, np.sign(speed), 0.0)
        left = np.where(moving, left, 0.0)
        if np.any(self.learned < 1.0):
            doubt = self.identified.predict_std(q[-1:], qd[-1:], qdd[-1:], period=1.0 / self.rate)[0]
            self._doubt += [np.where(moving[-1], doubt, 0.0), moving[-1]]
        self._sums += [moving.sum(0), direction.sum(0), left.sum(0), (direction * left).sum(0)]

    def _figures(self) -> Array:
        """Return offset and friction (2, n) of the joints that have moved long enough, NaN for the others."""
        count, way, total, along = self._sums
        enough = count >= FIGURE * self.rate
        rarer = 0.5 * (1.0 - np.abs(way) / np.maximum(count, 1.0))
        told = enough & (rarer >= _BOTH_WAYS)
        figures = np.full((2, count.size), np.nan)
        # least squares of r = offset + friction s, where s² = 1
        scale = count[told] ** 2 - way[told] ** 2
        figures[0, told] = (count[told] * total[told] - way[told] * along[told]) / scale
        figures[1, told] = (count[told] * along[told] - way[told] * total[told]) / scale
        self._sums[:, told | (count >= _TOO_LONG * FIGURE * self.rate)] = 0.0
        return figures

    def _judge(self, figures: Array) -> list[Trip]:
        told = ~np.isnan(figures[0])
        ready = self.learned >= 1.0
        for joint in np.flatnonzero(told & ~ready):
            self._usual[joint].append(figures[:, joint])
            if len(self._usual[joint]) == LEARNED:
                self._settle(int(joint))
        value = figures - self._mean
        fresh = (value - self._memory * self._before) / self._spread
        self._before = np.where(told, value, self._before)
        self._cusum.update(np.where(ready, fresh, np.nan).ravel())
        level = self._cusum.level.reshape(2, -1)
        trips = [
            Trip(int(joint), _KINDS[int(level[:, joint].argmax())], float(value[level[:, joint].argmax(), joint]))
            for joint in np.flatnonzero((level.max(axis=0) >= 1.0) & told)
        ]
        if trips:
            self._cusum.reset()
        return trips

    def _settle(self, joint: int) -> None:
        """Take in what is usual of a joint: mean, memory from one figure to the next, and what scatters beyond it."""
        usual = np.array(self._usual[joint])
        self._mean[:, joint] = usual.mean(axis=0)
        off = usual - self._mean[:, joint]
        power = np.maximum(np.mean(off**2, axis=0), np.finfo(np.float64).tiny)
        memory = np.clip(np.mean(off[1:] * off[:-1], axis=0) / power, 0.0, _MOST_MEMORY)
        # other motions leave other errors, as far as the model's parameters are not known
        doubt = self._doubt[0, joint] / max(self._doubt[1, joint], 1.0)
        self._memory[:, joint] = memory
        self._spread[:, joint] = np.sqrt(power * (1.0 - memory**2) + doubt**2)
        self._before[:, joint] = off[-1]

    def to_document(self) -> dict[str, Any]:
        """Return how it stands, JSON-serialisable, joint by joint."""
        return {"learned": self.learned.tolist(), "level": self.level.tolist()}
