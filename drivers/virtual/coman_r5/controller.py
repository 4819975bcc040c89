"""The controller: its modes, the servo points it follows, its safety checks and its 1 ms cycle. No sockets here."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections import deque
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from drivers.virtual.coman_r5.robot import DESIGN, HOME, PERIOD, controller_model
from drivers.virtual.plant import Plant
from drivers.virtual.plant_parameters import PlantParameters
from drivers.virtual.target_motions import Motion, SpeedRamp

Array = NDArray[np.float64]

MODEL = "COMAN R5 VIRTUAL"
WATCHDOG = 0.15  # s without a word from whoever sends servo points
MOVING, RUNNING, PROTECTIVE, EMERGENCY = 1, 2, 4, 8  # status bits

_log = logging.getLogger(__name__)

_STOP_DECELERATION = 12.0  # rad/s²
_ACCELERATION_LIMIT = 120.0  # rad/s² of the target; beyond what the drives can give, so the points jump
_OVERCURRENT_CYCLES = 50
_SETTLING_CYCLES = 2000
_STEADY_SPEED = 3e-3  # rad/s, above what the motor encoder's steps look like
_MOST_POINTS = 1000
_TARGET_QD, _ACTUAL_Q, _ACTUAL_QD, _CURRENT, _DEVIATION = 1, 5, 6, 8, 10  # rows of the plant's ``out``


class Mode(IntEnum):
    """What the controller is doing."""

    DISABLED = 0
    ENABLED = 1
    SERVO = 2
    STOPPING = 3


class PointBuffer:
    """Points that are ``period`` s apart, followed smoothly (Catmull-Rom) once ``lookahead`` s of them are there."""

    def __init__(self, start: Array, period: float, lookahead: float) -> None:
        self._points = deque([start.copy(), start.copy()])
        self._period = period
        self._needed = max(4, 2 + math.ceil(lookahead / period))
        self._phase = 0.0
        self.started = False
        self.starved = False

    @property
    def waiting(self) -> int:
        """How many points have not been reached."""
        return len(self._points) - 2

    def add(self, point: Array) -> None:
        self._points.append(point)

    def advance(self, target: Array, dt: float, scaling: float) -> bool:
        self.started = self.started or len(self._points) >= self._needed
        if not self.started:
            return False
        self._phase += dt / self._period
        while self._phase >= 1.0 - 1e-9 and len(self._points) > 3:
            self._points.popleft()
            self._phase = max(0.0, self._phase - 1.0)
        if len(self._points) < 4:
            self.starved = True
            return True
        p0, p1, p2, p3 = itertools.islice(self._points, 4)
        m1, m2 = 0.5 * (p2 - p0), 0.5 * (p3 - p1)
        step, u = p2 - p1, self._phase
        b, c = 3.0 * step - 2.0 * m1 - m2, m1 + m2 - 2.0 * step
        target[0] = p1 + u * (m1 + u * (b + u * c))
        target[1] = (m1 + u * (2.0 * b + 3.0 * u * c)) / self._period
        target[2] = (2.0 * b + 6.0 * u * c) / self._period**2
        return False


class Controller:
    """One virtual robot: give it commands, call ``run_cycle`` every millisecond, send what ``out`` says.

    Commands return what speaks against them, None when nothing does.

    Parameters
    ----------
    parameters
        The individual robot that it moves.
    unlock_delay
        s that a protective stop must have lasted before it can be released.
    """

    def __init__(self, parameters: PlantParameters, *, unlock_delay: float = 5.0) -> None:
        model = controller_model()
        self.target: Array = np.vstack([HOME, np.zeros_like(HOME), np.zeros_like(HOME)])
        self.mode = Mode.ENABLED
        self.protective = False
        self.emergency = False
        self.stop_reason = ""
        self.cycle = 0
        self.points = 0
        """Servo points received."""
        self._limits = model.limits
        self._unlock_delay = unlock_delay
        self._stopped_at = 0.0
        self._owner: object | None = None
        self._silence = 0.0
        self._motion: Motion | None = None
        self._buffer: PointBuffer | None = None
        self._saturated = 0
        self._plant = Plant(model, parameters, HOME, DESIGN)
        for _ in range(_SETTLING_CYCLES):  # brakes off: the drives take up the weight
            self._plant.run_cycle(self.target)

    # --- what is sent ----------------------------------------------------------------------------------------

    @property
    def out(self) -> Array:
        """The plant's rows of the last cycle."""
        return self._plant.out

    @property
    def status(self) -> int:
        """Status bits."""
        moving = bool(self.target[_TARGET_QD].any()) or bool(np.abs(self.out[_ACTUAL_QD]).max() > _STEADY_SPEED)
        running = self.mode in (Mode.SERVO, Mode.STOPPING)
        return MOVING * moving | RUNNING * running | PROTECTIVE * self.protective | EMERGENCY * self.emergency

    @property
    def waiting(self) -> int:
        """How many servo points are buffered."""
        return 0 if self._buffer is None else self._buffer.waiting

    # --- commands --------------------------------------------------------------------------------------------

    def enable(self) -> str | None:
        """Release the brakes."""
        if self.protective or self.emergency:
            return f"stopped: {self.stop_reason}"
        if self.mode is Mode.DISABLED:
            self.mode = Mode.ENABLED
        return None

    def begin_servo(self, owner: object, period: float, lookahead: float) -> str | None:
        """Follow the points of ``owner`` from now on."""
        if self.mode is not Mode.ENABLED or self.protective or self.emergency:
            return f"not ready: mode {self.mode.name}, {self.stop_reason or 'no stop'}"
        if not (PERIOD <= period <= 0.1 and 0.0 <= lookahead <= 1.0):
            return "period must be 1 to 100 ms, lookahead 0 to 1000 ms"
        self._owner, self._silence = owner, 0.0
        self._motion = self._buffer = PointBuffer(self.target[0], period, lookahead)
        self.mode = Mode.SERVO
        return None

    def servo(self, owner: object, point: Array) -> str | None:
        """Take the next point (n,) rad."""
        if owner is not self._owner or self._buffer is None:
            return f"no servo points are followed: {self.stop_reason or 'servo_begin first'}"
        if point.shape != HOME.shape or not np.isfinite(point).all():
            return f"a point has {HOME.size} finite numbers"
        self._silence = 0.0
        self.points += 1
        self._buffer.add(point)
        if self._buffer.waiting > _MOST_POINTS:
            self.stop("servo points come too fast")
        return None

    def end_servo(self, owner: object) -> str | None:
        if owner is not self._owner:
            return "no servo points are followed"
        self.stop("servo mode ended")
        return None

    def lost(self, owner: object) -> None:
        """The connection of ``owner`` is gone."""
        if owner is self._owner:
            self.stop("the connection of whoever sent the points was closed")

    def stop(self, reason: str) -> None:
        """Bring the robot to rest and follow nobody any more."""
        if self.mode is Mode.SERVO:
            _log.info("stopped: %s", reason)
            self.stop_reason = reason
            self._owner = self._buffer = None
            self.mode = Mode.STOPPING
            self._motion = SpeedRamp(np.zeros_like(HOME), _STOP_DECELERATION)

    def protective_stop(self, reason: str) -> None:
        """Bring the robot to rest; it moves again only after a release."""
        if self.protective or self.emergency:
            return
        _log.warning("protective stop: %s", reason)
        self.stop(reason)
        self.protective, self.stop_reason, self._stopped_at = True, reason, time.monotonic()

    def emergency_stop(self) -> None:
        """Press the button. Only a restart of the virtual robot releases it."""
        self.stop("emergency stop")
        self.emergency, self.stop_reason = True, "emergency stop"

    def release(self) -> str | None:
        """Leave a protective stop."""
        if self.emergency:
            return "emergency stop"
        if self.protective and time.monotonic() - self._stopped_at < self._unlock_delay:
            return "too early"
        self.protective = False
        return None

    # --- the cycle -------------------------------------------------------------------------------------------

    def run_cycle(self) -> None:
        """Advance the controller and the robot by 1 ms."""
        self.cycle += 1
        if self.mode is Mode.SERVO:
            self._silence += PERIOD
            if self._silence > WATCHDOG:
                self.stop(f"no word for {WATCHDOG:g} s")
        self._move_target()
        if not self._plant.run_cycle(self.target):
            raise ArithmeticError("the simulated dynamics broke down")
        self._check_drives()

    def _move_target(self) -> None:
        """Let the motion move the target; what leaves the limits is not passed on to the drives."""
        if self._motion is None:
            return
        before = self.target.copy()
        over = self._motion.advance(self.target, PERIOD, 1.0)
        if over and self._buffer is not None and self._buffer.starved:
            self.target[2] = 0.0
            self.stop("servo points ran out")
        elif over:
            self._motion = None
            self.mode = Mode.ENABLED
        violation = None if self.protective or self.mode is not Mode.SERVO else self._violation()
        if violation is not None:
            self.target[:] = before
            self.protective_stop(violation)

    def _violation(self) -> str | None:
        q, qd, qdd = self.target
        stopping = q + qd * np.abs(qd) / (2.0 * _STOP_DECELERATION)
        within = {
            "position": (stopping >= self._limits.position_lower) & (stopping <= self._limits.position_upper),
            "speed": np.abs(qd) <= 1.001 * self._limits.velocity,
            "acceleration": np.abs(qdd) <= _ACCELERATION_LIMIT,
        }
        for what, fine in within.items():
            if not fine.all():
                return f"joint {int(np.argmin(fine)) + 1}: {what} limit"
        return None

    def _check_drives(self) -> None:
        out = self.out
        saturated = np.abs(out[_CURRENT]) >= 0.999 * self._plant.drives.current_limit
        self._saturated = self._saturated + 1 if saturated.any() else 0
        reason = None
        if (out[_DEVIATION] > 1.0).any():
            reason = f"joint {int(np.argmax(out[_DEVIATION])) + 1}: too far from its target"
        elif self._saturated >= _OVERCURRENT_CYCLES:
            reason = f"joint {int(np.argmax(saturated)) + 1}: current limit"
        if reason is not None and not self.protective:
            self.target[0] = out[_ACTUAL_Q]  # give way instead of pushing on
            self.target[1] = np.clip(out[_ACTUAL_QD], -self._limits.velocity, self._limits.velocity)
            self.protective_stop(reason)
