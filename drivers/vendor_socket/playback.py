"""Playing one trajectory as a stream of servo points: checks, approach, points ahead of time, stop."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import (
    STATUS_EMERGENCY_STOP,
    STATUS_FAULT,
    STATUS_MOVING,
    STATUS_PROGRAM_RUNNING,
    STATUS_PROTECTIVE_STOP,
)
from drivers.contract import (
    ApproachSpeed,
    ControllerNotReady,
    DriverError,
    DriverTimeout,
    MotionFinish,
    MotionOutcome,
    ProtectiveStop,
    UnsupportedController,
)
from drivers.motion_orders import MotionFailed, Orders, Stopped, realtime_priority
from drivers.motion_player import MotionOrder
from drivers.trajectory import PlayableTrajectory
from drivers.vendor_socket.clock import ControllerClock
from drivers.vendor_socket.commands import CommandChannel
from drivers.vendor_socket.course import Approach
from drivers.vendor_socket.layout import Layout
from drivers.vendor_socket.stream import FeedbackReader

Array = NDArray[np.float64]

STOP_RAMP = 0.3  # s in which the motion along the path is brought to rest
LAST_BIT = ApproachSpeed(0.05, 0.1)  # of the way to the first pose that is left where no approach was asked for
FIRST_SAMPLE_TIMEOUT = 2.0  # s
SILENCE_LIMIT = 0.15  # s without feedback
TAKES_UP = 0.25  # s after which a controller must say that it follows the points
SPARE_PERIODS = 3  # of the look-ahead that must be left, or the controller has run out of points
EXPLANATION_TIMEOUT = 0.3  # s for the feedback to say why a point was refused
PROGRESS_PERIOD = 0.1  # s
CONNECTION_LOST = "connection-lost"

_STOPS = (
    (STATUS_EMERGENCY_STOP, "emergency-stop", "the controller reports an emergency stop"),
    (STATUS_PROTECTIVE_STOP, "protective-stop", "the controller reports a protective stop"),
    (STATUS_FAULT, "controller-fault", "the controller reports a fault"),
)


class Leg(Protocol):
    """A part of the way, as a function of time."""

    @property
    def duration(self) -> float: ...
    def pose(self, time: float) -> Array: ...


def halt(host: str, layout: Layout) -> None:
    """Stop whatever moves the robot, over a connection of its own; raises `DriverError`."""
    with CommandChannel(host, layout) as channel:
        channel.ask("stop")


class Playback:
    """One trajectory over one command connection, watched through a feedback connection of its own."""

    def __init__(self, order: MotionOrder, layout: Layout, orders: Orders, send_event: Callable[..., None]) -> None:
        if layout.motion_gap is not None or layout.commands is None:
            raise UnsupportedController(f"{order.host}: layout '{layout.name}' cannot move: {layout.motion_gap}")
        commands = layout.commands
        self._order = order
        self._layout = layout
        self._orders = orders
        self._send_event = send_event
        self._path = PlayableTrajectory.load(Path(order.trajectory), layout.n_joints)
        self._period = commands.period or 0.0
        self._lookahead = commands.lookahead or 0.0
        self._timing = {
            "period": self._period,
            "period_ms": 1e3 * self._period,
            "lookahead": self._lookahead,
            "lookahead_ms": 1e3 * self._lookahead,
        }
        self._says_running = commands.texts.servo_begin is not None and "program_running" in layout.feedback.status
        self._feedback = FeedbackReader(order.host, layout)
        self._clock = ControllerClock()
        self._pose: Array = np.zeros(layout.n_joints)  # that the controller holds or follows
        self._status = 0
        self._heard = 0.0
        self._channel: CommandChannel | None = None
        self._begun = 0.0  # controller time of the first point
        self._point: Array = self._pose
        self._sent: list[float] = []  # monotonic time of every point, s
        self._late = 0
        self._shown = 0.0  # s of the trajectory at which progress is told next

    def run(self) -> MotionFinish:
        """Play, and leave the robot at rest; returns how it went.

        Raises
        ------
        DynidError
            Nothing has moved.
        """
        with contextlib.closing(self._feedback), realtime_priority():
            self._feedback.connect()
            self._await_first_sample()
            self._check_ready()
            with CommandChannel(self._order.host, self._layout) as channel:
                self._channel = channel
                for name, values in (("enable", {}), ("servo_begin", self._timing)):
                    if channel.has(name):
                        channel.ask(name, **values)
                self._send_event("accepted")
                finish = self._play()
        if finish.code == CONNECTION_LOST:
            with contextlib.suppress(DriverError):
                halt(self._order.host, self._layout)
        return finish

    def _play(self) -> MotionFinish:
        self._begun = self._clock.now()
        try:
            self._move()
            self._end("servo_end")
            return self._finish("completed", "the trajectory was played to its end")
        except Stopped:
            stop = self._orders.stop
            assert stop is not None  # noqa: S101 - it is what raised
            self._end("stop" if stop.immediately else "servo_end")
            return self._finish("stopped" if stop.code is None else "faulted", stop.reason, stop.code)
        except MotionFailed as failure:
            with contextlib.suppress(DriverError):
                self._end("stop")
            return self._finish("faulted", failure.reason, failure.code)
        except DriverError as error:
            return self._finish("faulted", error.detail, CONNECTION_LOST)

    # --- before anything moves -------------------------------------------------------------------------------

    def _await_first_sample(self) -> None:
        if not self._listen(FIRST_SAMPLE_TIMEOUT):
            raise DriverTimeout(f"{self._order.host}: no feedback within {FIRST_SAMPLE_TIMEOUT:g} s")

    def _check_ready(self) -> None:
        """Refuse to move a robot that cannot, or that somebody else moves."""
        for bit, code, reason in _STOPS:
            if self._status & bit:
                raise ProtectiveStop(f"{self._order.host}: {reason}; find the cause, then release it", code=code)
        if self._status & STATUS_PROGRAM_RUNNING:
            raise ControllerNotReady(
                f"{self._order.host}: a program is running on the controller; stop it first", code="program-running"
            )
        if self._status & STATUS_MOVING:
            raise ControllerNotReady(f"{self._order.host}: the robot moves; stop it first", code="robot-moving")

    # --- phases ----------------------------------------------------------------------------------------------

    def _move(self) -> None:
        settle = self._order.settle_time
        self._point = self._pose.copy()
        self._follow(Approach(self._point, self._path.q[0], self._order.approach or LAST_BIT), lambda _time: None)
        self._hold(lambda held: held >= self._lookahead + settle)
        self._send_event("at_start")
        self._hold(lambda _held: self._orders.proceed.is_set())
        self._follow(self._path, self._report)
        self._hold(lambda held: held >= self._lookahead + settle)

    def _follow(self, leg: Leg, report: Callable[[float], None]) -> None:
        """Send one point per period; a stop that leaves time slows the motion down along its own, checked, path."""
        leg_time = stopping = 0.0
        while True:
            pace = 1.0
            if self._orders.stop is not None:
                if self._orders.stop.immediately:
                    raise Stopped
                if stopping >= STOP_RAMP:
                    self._hold(lambda held: held >= self._lookahead, stoppable=False)
                    raise Stopped
                stopping += self._period
                pace = 0.5 * (1.0 + math.cos(math.pi * min(1.0, stopping / STOP_RAMP)))
            self._send(leg.pose(leg_time))
            report(leg_time)
            if leg_time >= leg.duration:
                return
            leg_time += pace * self._period

    def _hold(self, over: Callable[[float], bool], *, stoppable: bool = True) -> None:
        """Repeat the last point until ``over(seconds)``: points are also what tells the controller of our life."""
        held = 0.0
        while not over(held):
            if self._orders.stop is not None and (stoppable or self._orders.stop.immediately):
                raise Stopped
            self._send(self._point)
            held += self._period

    def _report(self, path_time: float) -> None:
        if path_time >= self._shown:
            self._shown = path_time + PROGRESS_PERIOD
            self._send_event("progress", time=min(path_time, self._path.duration))

    # --- points ----------------------------------------------------------------------------------------------

    def _send(self, point: Array) -> None:
        """Send a point when it is due by the controller's clock; what is overdue goes at once, to fill its buffer."""
        due = self._begun + len(self._sent) * self._period
        while (wait := due - self._clock.now()) > 0.0:
            self._listen(wait)
            self._check()
            if self._orders.stop is not None and self._orders.stop.immediately:
                raise Stopped
        if wait < -self._period:
            self._listen(0.0)
            self._check()
            self._late += 1
            if -wait > self._lookahead - SPARE_PERIODS * self._period:
                raise MotionFailed(
                    f"a point is {-1e3 * wait:.0f} ms late, more than the controller has buffered; this machine is too "
                    "busy to move a robot",
                    "motion-too-late",
                )
        assert self._channel is not None  # noqa: S101 - points are only sent over it
        speed = (point - self._point) / self._period
        try:
            self._channel.stream("servo_point", q=point, qd=speed, **self._timing)
        except ControllerNotReady as refused:
            raise self._explained(refused) from refused
        self._sent.append(time.monotonic())
        self._point = point

    def _explained(self, refused: ControllerNotReady) -> MotionFailed:
        """Say why a point was refused: what the feedback says, if it says something soon."""
        deadline = time.monotonic() + EXPLANATION_TIMEOUT
        try:
            while time.monotonic() < deadline:
                self._listen(EXPLANATION_TIMEOUT)
                self._check()
        except MotionFailed as failure:
            return failure
        return MotionFailed(refused.detail, refused.code)

    def _listen(self, seconds: float) -> bool:
        """Read feedback for that long or until some comes; True when some has."""
        block = self._feedback.read(max(seconds, 1e-3))
        if block is None:
            return False
        self._clock.update(block)
        self._pose = block["target_q"][-1]
        self._status = int(block["status"][-1])
        self._heard = time.monotonic()
        return True

    def _check(self) -> None:
        """Refuse to go on when the controller has stopped, or says nothing any more."""
        host = self._order.host
        for bit, code, reason in _STOPS:
            if self._status & bit:
                raise MotionFailed(f"{host}: {reason}", code)
        silence = time.monotonic() - self._heard
        if silence > SILENCE_LIMIT:
            raise MotionFailed(f"{host}: no feedback for {1e3 * silence:.0f} ms", "samples-stale")
        follows = self._status & STATUS_PROGRAM_RUNNING
        if self._says_running and not follows and len(self._sent) * self._period > TAKES_UP:
            raise MotionFailed(f"{host}: the controller does not follow the points any more", "program-stopped")

    # --- end -------------------------------------------------------------------------------------------------

    def _end(self, name: str) -> None:
        """Leave servo mode, or stop at once."""
        channel = self._channel
        assert channel is not None  # noqa: S101 - there is one while it plays
        if channel.has(name):
            channel.ask(name)

    def _finish(self, outcome: MotionOutcome, reason: str, code: str | None = None) -> MotionFinish:
        period = 1e3 * np.diff(self._sent)
        shown: Any = tuple(np.percentile(period, [50, 99, 100]).round(3).tolist()) if period.size else None
        return MotionFinish(outcome, reason, code, len(self._sent), self._late, shown)
