"""What the samples say about motion: pose, rest, tracking error, stops of the controller."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import (
    STATUS_EMERGENCY_STOP,
    STATUS_FAULT,
    STATUS_MOVING,
    STATUS_PROGRAM_RUNNING,
    STATUS_PROTECTIVE_STOP,
    SampleBlock,
)

REST_SPEED = 0.05  # rad/s, above the noise of a joint that stands
REST_TIME = 0.05  # s at that speed

_STOPS = (
    (STATUS_EMERGENCY_STOP, "emergency-stop", "the controller reports an emergency stop"),
    (STATUS_PROTECTIVE_STOP, "protective-stop", "the controller reports a protective stop"),
    (STATUS_FAULT, "controller-fault", "the controller reports a safety fault"),
)


@dataclass(frozen=True)
class Cause:
    """Why a motion is stopped; ``immediately``: not along its path."""

    outcome: Literal["stopped", "faulted"]
    reason: str
    code: str | None = None
    immediately: bool = False


class SampleWatch:
    """Fed by the acquisition thread, read by the event loop; every attribute is replaced as a whole."""

    def __init__(self, n_joints: int, unit: str = "rad") -> None:
        self._unit = unit
        self.pose: NDArray[np.float64] | None = None
        self.status = 0
        self.worst_tracking_error = np.zeros(n_joints)  # per joint, since `guard`
        self._last_moving = time.monotonic()
        self._last_sample = 0.0
        self._limit: NDArray[np.float64] | None = None
        self._on_cause: Callable[[Cause], object] = lambda _: None

    @property
    def at_rest(self) -> bool:
        """True when fresh samples have shown no motion for a while."""
        now = time.monotonic()
        return now - self._last_sample < REST_TIME < now - self._last_moving

    @property
    def program_running(self) -> bool:
        return bool(self.status & STATUS_PROGRAM_RUNNING)

    @property
    def safety_stop(self) -> Cause | None:
        """The stop the controller reports, if any."""
        for bit, code, reason in _STOPS:
            if self.status & bit:
                return Cause("faulted", reason, code, immediately=True)
        return None

    def free_since(self, time: float) -> bool:
        """True when samples that came after ``time`` (CLOCK_MONOTONIC, s) report no stop."""
        return self._last_sample > time and self.safety_stop is None

    def guard(self, limit: NDArray[np.float64], on_cause: Callable[[Cause], object]) -> None:
        """Call ``on_cause`` (in the acquisition thread, once) when a joint's actual position leaves its
        target by more than ``limit`` (n,), or the controller reports a stop.
        """
        self.worst_tracking_error = np.zeros(limit.size)
        self._on_cause = on_cause
        self._limit = limit

    def unguard(self) -> None:
        self._limit = None

    def update(self, block: SampleBlock) -> None:
        """Take note of new samples; called by the acquisition thread."""
        now = time.monotonic()
        newest = block[-1]  # a stop of the controller stays in all samples after it
        self.pose = newest["q"]
        self.status = int(newest["status"])
        if self.status & STATUS_MOVING or np.abs(newest["qd"]).max() > REST_SPEED:
            self._last_moving = now
        self._last_sample = now
        if self._limit is not None:
            self._check(block, self._limit)

    def _check(self, block: SampleBlock, limit: NDArray[np.float64]) -> None:
        error = np.abs(block["target_q"] - block["q"]).max(axis=0)
        self.worst_tracking_error = np.fmax(self.worst_tracking_error, error)
        cause = self.safety_stop
        if cause is None and not (error <= limit).all():  # nor may a number that is none pass for a small error
            joint = int(np.argmax(error - limit))
            cause = Cause(
                "faulted",
                f"joint {joint + 1} is {error[joint]:.4f} {self._unit} off its target, allowed are {limit[joint]:.4f}",
                "tracking-error",
                immediately=True,
            )
        if cause is not None:
            self.unguard()
            self._on_cause(cause)
