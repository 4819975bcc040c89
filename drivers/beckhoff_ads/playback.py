"""Playing one trajectory with the PLC's player: checks, upload, approach, the motion watched to its end."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from drivers.beckhoff_ads import commands, upload
from drivers.beckhoff_ads.session import Session, SymbolsChanged
from drivers.beckhoff_ads.variables import Variables
from drivers.contract import (
    ApproachSpeed,
    ControllerNotReady,
    DriverError,
    MotionFinish,
    MotionListener,
    MotionRefused,
    ProtectiveStop,
)
from drivers.motion_orders import MotionFailed, StopOrder, Stopped
from drivers.trajectory import PlayableTrajectory
from drivers.twincat_layout import SAMPLE, Command, End, Error, Mode, Result

BEAT_PERIOD = 0.04  # s between two heartbeats, well below the PLC's watchdog
LONGEST_PLC_SILENCE = 0.25  # s without a new heartbeat of the PLC
LAST_BIT = ApproachSpeed(0.01, 0.05)  # m/s, m/s² of the way to the first pose where no approach was asked for
LONGEST_LAST_BIT = 0.01  # m that it may be
STOP_TIMEOUT = 1.2  # s for the PLC to bring the legs to rest
_WORD = 2**32
_MOVING = (Mode.APPROACHING, Mode.PLAYING, Mode.STOPPING)
_REFUSALS: dict[int, tuple[str, str]] = {
    Result.NOT_HOLDING: ("it is not ready to move", "program-running"),
    Result.NO_TRAJECTORY: ("another trajectory was uploaded meanwhile", "trajectory-replaced"),
    Result.NOT_AT_START: ("the legs are not at the trajectory's first row", "not-at-start"),
    Result.NO_HEARTBEAT: ("it does not hear this host's heartbeat", "heartbeat-lost"),
    Result.BAD_ARGUMENT: ("the approach's speed or acceleration is beyond its limits", "approach-refused"),
}
_FAULTS: dict[int, tuple[str, str]] = {
    Error.HEARTBEAT_LOST: ("it heard no heartbeat from this host", "heartbeat-lost"),
    Error.FOLLOWING_ERROR: ("a leg was too far off its target", "tracking-error"),
    Error.DRIVE_FAULT: ("a drive reports an error", "drive-fault"),
    Error.EMERGENCY_STOP: ("the emergency stop is pressed", "emergency-stop"),
    Error.STROKE_LIMIT: ("a leg's target reached the end of its stroke", "stroke-limit"),
}


class Plan(Protocol):
    """What is to be played."""

    @property
    def trajectory(self) -> PlayableTrajectory: ...
    @property
    def approach(self) -> ApproachSpeed | None: ...
    @property
    def settle_time(self) -> float: ...


class Orders(Protocol):
    """What the device host has said so far."""

    proceed: threading.Event
    stop: StopOrder | None
    abandoned: bool

    def wait(self, seconds: float) -> None: ...


class Playback:
    """One trajectory in one session."""

    def __init__(self, session: Session, plan: Plan, orders: Orders, listener: MotionListener) -> None:
        self._session = session
        self._plan = plan
        self._orders = orders
        self._listener = listener
        self._variables = Variables(session)
        self._beat = secrets.randbelow(_WORD)  # new to the PLC, whatever it heard last
        self._plc_beat = -1
        self._plc_lived = 0.0  # monotonic time of its last heartbeat that was new, s
        self._version = 0

    def run(self) -> MotionFinish:
        """Play, and leave the robot at rest; returns how it went.

        Raises
        ------
        DynidError, SymbolsChanged, Stopped
            Nothing has moved.
        """
        self._check_ready()
        rows = upload.trajectory_rows(self._plan.trajectory)
        self._version = upload.upload(
            self._variables, upload.TRAJECTORY, rows, self._plan.trajectory.period, meanwhile=self._raise_if_stopped
        )
        self._raise_if_stopped()
        self._keep_beating()
        self._listener.accepted()
        try:
            return self._move()
        except DriverError as error:
            return MotionFinish(
                "faulted", f"{error.detail}; the PLC stops the robot when it hears no heart", error.code
            )

    # --- before anything moves -------------------------------------------------------------------------

    def _check_ready(self) -> None:
        """Refuse to move a robot that cannot, or that somebody else moves.

        Raises
        ------
        DriverError
        """
        state, head = self._variables.read("stState", "nHead")
        address, error = self._session.address, int(state["eError"])
        if error != Error.NONE:
            reason, code = _FAULTS.get(error, (f"error {error}", "protective-stop"))
            raise address.problem(
                ProtectiveStop, f"the PLC has stopped the robot: {reason}; find the cause, then release it", code=code
            )
        if state["eMode"] != Mode.HOLDING:
            running = int(state["eMode"]) in _MOVING
            raise address.problem(
                ControllerNotReady,
                "the PLC moves the robot already; stop it first" if running else "the drives are not enabled",
                code="program-running" if running else "robot-not-running",
            )
        if self._plan.approach is None:
            self._check_pose(int(head))

    def _check_pose(self, head: int) -> None:
        """A robot that is to go without an approach stands at the first row, or nearly so."""
        slot = (head - 1) % self._variables.lengths["aRing"]
        raw = self._session.read("the newest sample", *self._variables.elements("aRing", slot, 1))
        length = np.frombuffer(raw, SAMPLE.dtype)[0]["aLength"]
        off = np.abs(length - self._plan.trajectory.q[0])
        leg = int(np.argmax(off))
        if off[leg] > LONGEST_LAST_BIT:
            raise self._session.address.problem(
                MotionRefused,
                f"leg {leg + 1} is {off[leg]:.4f} m off the first pose; only {LONGEST_LAST_BIT:g} m are gone without "
                "asking, so ask for an approach",
                code="not-at-start",
                leg=leg + 1,
            )

    def _raise_if_stopped(self) -> None:
        if self._orders.stop is not None or self._orders.abandoned:
            self._orders.stop = self._orders.stop or StopOrder("the motion was abandoned", immediately=True)
            raise Stopped

    # --- phases ----------------------------------------------------------------------------------------

    def _move(self) -> MotionFinish:
        try:
            approach = self._plan.approach or LAST_BIT
            self._carry_out(Command.APPROACH, speed=approach.speed, acceleration=approach.acceleration)
            self._rest()
            self._listener.at_start()
            self._hold_until(self._orders.proceed.is_set)
            self._carry_out(Command.START, self._report)
            self._rest()
        except Stopped:
            stop = self._orders.stop
            assert stop is not None  # noqa: S101 - it is what raised
            return MotionFinish("stopped" if stop.code is None else "faulted", stop.reason, stop.code)
        except MotionFailed as failure:
            return MotionFinish("faulted", f"{self._session.address}: {failure.reason}", failure.code)
        return MotionFinish("completed", "the trajectory was played to its end")

    def _rest(self) -> None:
        rested = time.monotonic() + self._plan.settle_time
        self._hold_until(lambda: time.monotonic() >= rested)

    def _hold_until(self, over: Callable[[], bool]) -> None:
        while not over():
            self._keep_beating()
            self._raise_if_stopped()
            self._orders.wait(BEAT_PERIOD)

    def _carry_out(
        self,
        command: Command,
        report: Callable[[float], None] = lambda _path_time: None,
        *,
        speed: float = 0.0,
        acceleration: float = 0.0,
    ) -> None:
        """Begin a motion and watch it to its end."""
        self._raise_if_stopped()
        result, sequence = commands.send(
            self._variables, command, version=self._version, speed=speed, acceleration=acceleration
        )
        if result != Result.DONE:
            reason, code = _REFUSALS.get(result, (f"result {result}", "command-refused"))
            raise MotionFailed(f"the PLC refuses to move: {reason}", code)
        while True:
            self._orders.wait(BEAT_PERIOD)
            if self._orders.stop is not None or self._orders.abandoned:
                self._stop(sequence)
            state, path_time = self._look()
            if not self._goes_on(state, sequence):
                return
            report(float(path_time))

    def _goes_on(self, state: Any, sequence: int) -> bool:
        """Tell whether the motion number ``sequence`` is under way; False at its regular end."""
        if state["nMotion"] != sequence:
            raise MotionFailed("the PLC's program has forgotten the motion, or moves another one", "motion-lost")
        if int(state["eMode"]) in _MOVING:
            return True
        if state["eEnd"] == End.COMPLETED:
            return False
        error = int(state["eError"])
        if error == Error.NONE:
            raise MotionFailed("somebody else has stopped the motion", "program-stopped")
        reason, code = _FAULTS.get(error, (f"error {error}", "controller-fault"))
        raise MotionFailed(f"the PLC has stopped the robot: {reason}", code)

    def _look(self) -> tuple[Any, Any]:
        """Beat, make sure that the PLC does, and return ST_DynidState and the time along the path."""
        names = ("stState", "fPathTime", "nPlcBeat")
        try:
            self._keep_beating()
            state, path_time, plc_beat = self._variables.read(*names)
        except SymbolsChanged:  # the PLC goes on with the motion; where its variables are now has to be asked
            self._variables = Variables(self._session)
            self._keep_beating()
            state, path_time, plc_beat = self._variables.read(*names)
        now = time.monotonic()
        if int(plc_beat) != self._plc_beat:
            self._plc_beat, self._plc_lived = int(plc_beat), now
        elif now - self._plc_lived > LONGEST_PLC_SILENCE:
            raise MotionFailed("the PLC's heart has stopped beating: its program does not run", "plc-heartbeat-lost")
        return state, path_time

    def _keep_beating(self) -> None:
        self._beat = (self._beat + 1) % _WORD
        self._variables.write("nHostBeat", self._beat)

    def _stop(self, sequence: int) -> None:
        """Bring the legs to rest as ordered, then unwind.

        An abandoned motion is left to the PLC's watchdog: whoever abandons it does not trust this thread.
        """
        self._raise_if_abandoned()
        assert self._orders.stop is not None  # noqa: S101 - only called then
        command = Command.HALT if self._orders.stop.immediately else Command.STOP
        commands.send(self._variables, command)
        deadline = time.monotonic() + STOP_TIMEOUT
        while time.monotonic() < deadline:
            state, _ = self._look()
            if state["nMotion"] != sequence or int(state["eMode"]) not in _MOVING:
                raise Stopped
            self._raise_if_abandoned()
            time.sleep(0.25 * BEAT_PERIOD)
        raise MotionFailed(f"the legs did not come to rest within {STOP_TIMEOUT:g} s of the stop", "stop-unconfirmed")

    def _raise_if_abandoned(self) -> None:
        if self._orders.abandoned:
            raise MotionFailed("the motion was abandoned, and the PLC left to stop the robot", "motion-abandoned")

    def _report(self, path_time: float) -> None:
        self._listener.progress(min(path_time, self._plan.trajectory.duration))
