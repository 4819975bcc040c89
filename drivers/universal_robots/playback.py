"""Playing one trajectory with the vendor's client: checks, approach, servo loop, stop."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from core.errors import MotionLimitError
from drivers.contract import (
    ApproachSpeed,
    ControllerNotReady,
    DriverError,
    MotionFinish,
    MotionOutcome,
    ProtectiveStop,
    UnsupportedController,
)
from drivers.motion_orders import MotionFailed, StopOrder, Stopped, realtime_priority
from drivers.motion_player import MotionOrder
from drivers.trajectory import PlayableTrajectory
from drivers.universal_robots.dashboard import SAFE, Dashboard
from drivers.universal_robots.outputs import N_JOINTS

LOOKAHEAD = 0.05  # s, of servoj: 0.03 (sharp) to 0.2 (smooth)
GAIN = 500  # of servoj: 100 to 2000
FASTEST_JOINT = math.pi  # rad/s, of any joint of this family
STOP_RAMP = 0.3  # s in which the motion along the path is brought to rest
APPROACH_DECELERATION = 2.0  # rad/s²
LAST_BIT = ApproachSpeed(0.05, 0.1)  # of the way to the first pose that is left where no approach was asked for
SERVO_DECELERATION = 10.0  # m/s² of the tool, the vendor's default
WATCHDOG_HZ = 10.0  # the controller stops the program when it hears less often from here
KICK_PERIOD = 0.02  # s between kicks while nothing else is sent
LONGEST_STALL = 0.06  # s that may pass between two commands; the watchdog must not be the first to notice
MOVE_START_TIMEOUT = 2.0  # s until an approach must have begun
PROGRESS_PERIOD = 0.1  # s
SUPPORTED_MAJOR = 5  # of PolyScope; earlier ones lack remote control, later ones the dashboard server
CONNECTION_LOST = "connection-lost"  # after which the client is not asked for anything any more
VENDOR_ERRORS = (RuntimeError, ValueError)  # what the vendor's C++ exceptions arrive as


class Orders(Protocol):
    """What the parent has said so far."""

    stop: StopOrder | None
    proceed: threading.Event


class Outputs(Protocol):
    """Where events go, and the one sign of a client that has lost its connection."""

    reconnects: threading.Event

    def send_event(self, event: str, **fields: Any) -> None: ...


def check_ready(host: str) -> None:
    """Refuse to move a robot that cannot, or that another program moves.

    Raises
    ------
    DriverError
    """
    with Dashboard(host) as dashboard:
        version = dashboard.version()
        if version[0] != SUPPORTED_MAJOR:
            shown = ".".join(map(str, version))
            raise UnsupportedController(f"{host}: motion needs PolyScope {SUPPORTED_MAJOR}, this is {shown}")
        if not dashboard.remote_control():
            raise ControllerNotReady(
                f"{host}: the controller is in local control; switch it to remote control on its pendant",
                code="remote-control-off",
            )
        safety = dashboard.safety_status()
        if safety not in SAFE:
            raise ProtectiveStop(f"{host}: the safety status is {safety}; find the cause, then release it")
        mode = dashboard.robot_mode()
        if mode != "RUNNING":
            raise ControllerNotReady(
                f"{host}: the robot mode is {mode}; power the robot on and release the brakes",
                code="robot-not-running",
            )
        if dashboard.program_running():
            raise ControllerNotReady(
                f"{host}: a program is running on the controller; stop it first", code="program-running"
            )


class Playback:
    """One trajectory on one connection of the vendor's client."""

    def __init__(self, order: MotionOrder, orders: Orders, outputs: Outputs) -> None:
        self._order = order
        self._orders = orders
        self._outputs = outputs
        self._path = PlayableTrajectory.load(Path(order.trajectory), N_JOINTS)
        self._period = 1.0 / order.rate_hz
        self._sent: list[float] = []  # monotonic time of every command, s
        self._late = 0
        self._control: Any = None

    def run(self) -> MotionFinish:
        """Play, and leave the robot at rest without a program; returns how it went.

        Raises
        ------
        DynidError
            Nothing has moved.
        """
        joint, speed = self._path.fastest
        if speed > FASTEST_JOINT:
            raise MotionLimitError(
                f"the trajectory asks joint {joint + 1} for {speed:.2f} rad/s, the robot's limit is "
                f"{FASTEST_JOINT:.2f} rad/s",
                joint=joint + 1,
            )
        check_ready(self._order.host)
        with realtime_priority():  # from here on, so that the client's own thread inherits it
            return self._play()

    def _play(self) -> MotionFinish:
        self._connect()
        self._outputs.send_event("accepted")
        try:
            finish = self._move()
            if finish.code != CONNECTION_LOST:
                self._end()
        except VENDOR_ERRORS as error:
            finish = self._finish("faulted", f"{self._order.host}: {error}", CONNECTION_LOST)
        if finish.code == CONNECTION_LOST:
            with contextlib.suppress(DriverError), Dashboard(self._order.host) as dashboard:
                dashboard.stop()
        return finish

    # --- phases ----------------------------------------------------------------------------------------

    def _connect(self) -> None:
        from rtde_control import RTDEControlInterface

        try:
            self._control = RTDEControlInterface(self._order.host, self._order.rate_hz)
            guarded = self._control.setWatchdog(WATCHDOG_HZ)
        except VENDOR_ERRORS as error:
            raise ControllerNotReady(f"{self._order.host}: {error}") from error
        if not guarded:
            raise ControllerNotReady(f"{self._order.host}: the controller does not set its watchdog")

    def _move(self) -> MotionFinish:
        try:
            self._approach()
            self._outputs.send_event("at_start")
            self._hold_until(self._orders.proceed.is_set)
            self._follow()
        except Stopped:
            stop = self._orders.stop
            assert stop is not None  # noqa: S101 - it is what raised
            return self._finish("stopped" if stop.code is None else "faulted", stop.reason, stop.code)
        except MotionFailed as failure:
            return self._finish("faulted", failure.reason, failure.code)
        return self._finish("completed", "the trajectory was played to its end")

    def _approach(self) -> None:
        """Go to the first pose by a joint move that can be stopped, and rest there.

        A robot that stands within tolerance of it goes there too, gently: the first command of the servo loop
        would be a jump by what is left.
        """
        approach = self._order.approach or LAST_BIT
        target = self._path.q[0].tolist()
        before = self._control.getAsyncOperationProgressEx().operationId()
        if not self._control.moveJ(target, approach.speed, approach.acceleration, True):
            raise self._failure("moveJ")
        begun = time.monotonic()
        try:
            self._hold_until(lambda: self._move_is_over(before, begun))
        except Stopped:
            self._control.stopJ(APPROACH_DECELERATION)
            raise
        rested = time.monotonic() + self._order.settle_time
        self._hold_until(lambda: time.monotonic() >= rested)

    def _move_is_over(self, before: int, begun: float) -> bool:
        progress = self._control.getAsyncOperationProgressEx()
        if progress.operationId() == before:
            if time.monotonic() - begun > MOVE_START_TIMEOUT:
                raise MotionFailed("the approach did not begin", "approach-failed")
            return False
        return not progress.isAsyncOperationRunning()

    def _hold_until(self, over: Callable[[], bool]) -> None:
        """Keep the controller's watchdog quiet until ``over()``; not while servoing, where every command is
        heard, and where a kick would wipe out the command of the same cycle.
        """
        while not over():
            self._check_connection()
            if self._orders.stop is not None:
                raise Stopped
            if not self._control.kickWatchdog():
                raise self._failure("kickWatchdog")
            time.sleep(KICK_PERIOD)

    def _follow(self) -> None:
        """Command one pose per cycle, at absolute times.

        A cycle that was missed delays the rest of the path, since to catch up would be a jump. A stop that
        leaves time slows the motion down along its own, checked, path.
        """
        end = self._path.duration + self._order.settle_time
        due = time.monotonic()
        path_time = stopping = 0.0
        shown = 0
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            self._check_connection()  # first: a new connection takes so long that it looks like a stall
            due += self._missed(due) + self._period
            pace = 1.0
            if self._orders.stop is not None:
                if self._orders.stop.immediately or stopping >= STOP_RAMP:
                    raise Stopped
                stopping += self._period
                pace = 0.5 * (1.0 + math.cos(math.pi * min(1.0, stopping / STOP_RAMP)))
            self._servo(path_time)
            if path_time >= end:
                return
            if path_time >= shown * PROGRESS_PERIOD:
                shown = int(path_time / PROGRESS_PERIOD) + 1
                self._outputs.send_event("progress", time=min(path_time, self._path.duration))
            path_time += pace * self._period

    def _missed(self, due: float) -> float:
        """Return the time of the cycles that passed unused since ``due``, s; too many are a failure."""
        now = time.monotonic()
        if self._sent and now - self._sent[-1] > LONGEST_STALL:
            stall = 1e3 * (now - self._sent[-1])
            raise MotionFailed(
                f"no command could be sent for {stall:.0f} ms; this machine is too busy to move a robot",
                "motion-too-late",
            )
        missed = int((now - due) / self._period)
        self._late += missed
        return missed * self._period

    def _check_connection(self) -> None:
        """Refuse to go on over a new connection: the client makes one, uploads its program again and would
        resume the motion, from wherever the robot has stopped, without a word.
        """
        if self._outputs.reconnects.is_set():
            raise MotionFailed(f"{self._order.host}: the connection was lost", CONNECTION_LOST)

    def _servo(self, path_time: float) -> None:
        pose = self._path.pose(path_time).tolist()
        self._sent.append(time.monotonic())
        if not self._control.servoJ(pose, 0.0, 0.0, self._period, LOOKAHEAD, GAIN):
            raise self._failure("servoJ")

    # --- end -------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Bring the robot to rest and its program to an end; each does nothing when already so."""
        if self._sent:
            self._control.servoStop(SERVO_DECELERATION)
        self._control.stopScript()

    def _failure(self, command: str) -> MotionFailed:
        """Say why the controller did not take a command."""
        self._check_connection()
        host = self._order.host
        with contextlib.suppress(DriverError), Dashboard(host) as dashboard:
            safety = dashboard.safety_status()
            if safety not in SAFE:
                code = "emergency-stop" if "EMERGENCY" in safety else "protective-stop"
                return MotionFailed(f"{host}: the safety status is {safety}", code)
        if not self._control.isProgramRunning():
            return MotionFailed(f"{host}: the control program was stopped", "program-stopped")
        return MotionFailed(f"{host}: {command} was refused", "command-refused")

    def _finish(self, outcome: MotionOutcome, reason: str, code: str | None = None) -> MotionFinish:
        period = 1e3 * np.diff(self._sent)
        shown = tuple(np.percentile(period, [50, 99, 100]).round(3).tolist()) if period.size else None
        return MotionFinish(outcome, reason, code, len(self._sent), self._late, shown)
