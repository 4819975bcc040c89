"""The wrench that acts on a platform from outside, sample by sample, from leg lengths and sensor forces.

A polynomial fitted to the last samples (Savitzky and Golay 1964) gives length, speed and acceleration of each leg, and
its force, all at the same moment in the middle of these samples. Everything is linear up to there and of the same
bandwidth, so that force and inertia do not get out of step; the price is a delay of half the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError
from core.models import SixUPRU
from core.models.arguments import shaped
from core.streaming.samples import STATUS_SENSOR_SATURATED, SampleBlock

Array = NDArray[np.float64]

_DEGREE = 3


class WrenchSignal(NamedTuple):
    """times (m,) s on the controller's clock, and wrench (m, 6) at these: force N, moment N·m about the origin of the
    platform, in {B}, as of ``SixUPRU.inverse_dynamics``."""

    times: Array
    wrench: Array


class ExternalWrench:
    """Turns samples into wrenches as they come in.

    Parameters
    ----------
    robot : with identified parameters; what they get wrong counts as a wrench, and so does a payload it knows not of.
    period : s between samples.
    window : s of motion that one estimate is made from. Half of it is the delay. Noise of the forces comes down with
        the root of the number of samples, while what changes within the window is rounded off.
    tare, gain : (6,) of the sensors, see ``core.pipelines.sensor_calibration``; by default forces are true.

    Raises
    ------
    InputError
        A number or a shape is wrong, or the window holds fewer than five samples.
    """

    def __init__(
        self,
        robot: SixUPRU,
        period: float,
        *,
        window: float = 0.1,
        tare: ArrayLike | None = None,
        gain: ArrayLike | None = None,
    ) -> None:
        if not (0.0 < period < np.inf and 0.0 < window < np.inf):
            raise InputError(f"period and window must be positive, got {period:g} and {window:g} s")
        half = round(0.5 * window / period)
        if half < 2:
            raise InputError(
                f"a window of {window:g} s holds {2 * half + 1} samples of {period:g} s; give it at least five",
                code="window-too-short",
            )
        self.robot = robot
        self.period = period
        self._last: int  # sequence number
        self._kept: Array
        self._pose: Array | None
        self._samples = 2 * half + 1
        self._tare = np.zeros(6) if tare is None else shaped(tare, "tare", (6,))
        self._gain = np.ones(6) if gain is None else shaped(gain, "gain", (6,))
        if np.any(self._gain == 0.0):
            raise InputError("the gain of a sensor cannot be zero")
        self._weights = np.stack(
            [
                scipy.signal.savgol_coeffs(self._samples, _DEGREE, deriv=order, delta=period, use="dot")
                for order in range(3)
            ]
        )
        self.restarts = 0
        """How often the window had to be filled anew because samples were missing."""
        self._clear()

    @property
    def delay(self) -> float:
        """s from the moment an estimate is for to the sample that completes it."""
        return 0.5 * (self._samples - 1) * self.period

    def take(self, block: SampleBlock) -> WrenchSignal:
        """Return the estimates that a block of samples completes; none until the window is full.

        Where samples are missing, the window starts anew.

        Raises
        ------
        InputError
            The samples are of another number of joints, without a measured force, or with one that is its sensor's
            limit (``sensor-saturated``).
        KinematicsError
            No pose of the platform has these leg lengths.
        """
        if block["q"].shape[1:] != (6,):
            raise InputError(f"samples are of {block['q'].shape[1:]} joints, {self.robot.name} has 6 legs")
        if not np.all(np.isfinite(block["torque"])):
            raise InputError(
                "samples come without a measured force; a wrench needs the force sensors of all legs",
                code="signal-missing",
            )
        saturated = np.flatnonzero(block["status"] & STATUS_SENSOR_SATURATED)
        if saturated.size:
            at = float(block["controller_time"][saturated[0]])
            raise InputError(
                f"a force sensor is at its limit at t = {at:.3f} s; what it shows is no measurement",
                code="sensor-saturated",
                time=at,
            )
        times, sequence = block["controller_time"], block["sequence"].astype(np.int64)
        whole = np.append(self._last, sequence)
        gaps = np.flatnonzero((np.diff(whole) != 1) | (block["lost"] > 0))
        parts = []
        for piece in np.split(np.arange(len(block)), gaps):
            if piece.size and piece[0] in gaps:
                self.restarts += self._last >= 0
                self._clear()
            parts.append(self._continue(times[piece], block["q"][piece], block["torque"][piece]))
        self._last = int(sequence[-1])
        return WrenchSignal(*(np.concatenate(signals) for signals in zip(*parts, strict=True)))

    def noise(self, force_std: ArrayLike) -> Array:
        """Return the standard deviation (6,) of the wrench at the last pose for white noise (6,) N of the sensors.

        Raises
        ------
        InputError
            There was no estimate yet.
        """
        if self._pose is None:
            raise InputError("the window is not full yet, so there is no pose to tell the noise at")
        left = shaped(force_std, "force_std", (6,)) / np.abs(self._gain) * np.linalg.norm(self._weights[0])
        return np.asarray(np.linalg.norm(self.robot.jacobian(self._pose)[0] * left[:, None], axis=0))

    def _clear(self) -> None:
        self._last = -1
        self._kept = np.empty((0, 13))  # time, lengths, forces
        self._pose = None

    def _continue(self, times: Array, lengths: Array, forces: Array) -> tuple[Array, Array]:
        rows = np.column_stack([times, lengths, (forces - self._tare) / self._gain])
        self._kept = np.vstack([self._kept, rows])
        if len(self._kept) < self._samples:
            return np.empty(0), np.empty((0, 6))
        windows = sliding_window_view(self._kept[:, 1:], self._samples, axis=0)
        middle = self._kept[self._samples // 2 : len(self._kept) - self._samples // 2, 0]
        length, rate, acceleration = (windows[:, :6] @ weights for weights in self._weights)
        states = self.robot.from_joints(length, rate, acceleration, start=self._pose)
        wrench = self.robot.external_wrench(*states, windows[:, 6:] @ self._weights[0])
        self._pose = states[0][-1]
        self._kept = self._kept[-(self._samples - 1) :]
        return middle, wrench
