"""What the PLC program does in its 1 ms cycle: heartbeat, commands, targets, drives, supervision, samples.

The counterpart for a real PLC is the structured text in ``deploy/twincat``; the driver knows neither.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivers.twincat_layout import (
    APP_TIMESTAMP,
    ARRAYS,
    LEGS,
    ONLINE_CHANGES,
    SAMPLE,
    SYSTEM_VARIABLES,
    VARIABLES,
    VERSION,
    Command,
    End,
    Error,
    Mode,
    Result,
    Status,
)
from drivers.virtual.target_motions import Motion, PointToPoint, SpeedRamp
from drivers.virtual.twincat.path import FADE, PathPlayer
from drivers.virtual.twincat.symbols import Declaration, SymbolTable
from drivers.virtual.twincat.tables import UploadedTable

Array = NDArray[np.float64]

CYCLE = 0.001  # s
RING_LENGTH = 4096  # samples: about four seconds
TABLE_LENGTH = 30001  # rows: 30 s at 1 kHz
START_TOLERANCE = 0.001  # m
WATCHDOG = 0.25  # s
HALT_DECELERATION = 6.0  # m/s², when the path is left
FASTEST_LEG = 1.0  # m/s
FOLLOWING_LIMIT = 0.02  # m
MOVING_SPEED = 1e-4  # m/s of a target
_EPOCH_2000 = 946684800  # s, where the distributed clock begins
_DRIVE_ENABLED, _DRIVE_OFF, _DRIVE_FAULT = 0x1637, 0x1650, 0x1618  # statuswords of CiA 402
_NO_FEED = np.zeros(LEGS)
_log = logging.getLogger(__name__)


class LegDrives(Protocol):
    """The machine as the PLC meets it: six legs with drives, encoders and force sensors; arrays are (6,)."""

    length: Array  # m, measured
    speed: Array  # m/s, measured
    current: Array  # A, measured
    force: Array  # N, measured, compression positive
    stroke: tuple[float, float]  # m, least and largest length
    force_limit: float  # N at which the sensors saturate
    saturated: NDArray[np.bool_]  # a fault: the sensor reads its limit whatever the force is

    def run_cycle(self, target: Array, feed_current: Array, *, enabled: bool) -> bool:
        """Advance 1 ms towards ``target`` (3, 6), brakes closed unless ``enabled``; False when it broke down."""


@dataclass(frozen=True)
class Identity:
    """What the PLC says about itself."""

    model: str
    serial: str


class PlcProgram:
    """The program and its variables; call ``run_cycle`` every millisecond."""

    def __init__(self, machine: LegDrives, identity: Identity, prefix: str) -> None:
        declarations = [Declaration(f"{prefix}.{name}", kind) for name, kind in VARIABLES.items()]
        lengths = {"aRing": RING_LENGTH}
        for name, structure in ARRAYS.items():
            declarations.append(Declaration(f"{prefix}.{name}", structure, lengths.get(name, TABLE_LENGTH)))
        declarations += [Declaration(name, kind) for name, kind in SYSTEM_VARIABLES.items()]
        self.symbols = SymbolTable(declarations)
        self.cycle = 0
        """Cycles of the machine; the program's own are in the samples."""
        self.machine = machine
        self.emergency_stopped = False
        self.drive_error = np.zeros(LEGS, np.uint16)
        self._prefix = prefix
        self._identity = identity
        self._born = time.time_ns() - _EPOCH_2000 * 10**9
        self._downloaded = 0
        self._sample = np.zeros((), SAMPLE.dtype)
        self._initialise()

    def _initialise(self) -> None:
        """Begin as after a download: everything the program remembers is new."""
        self.mode = Mode.HOLDING
        self.error = Error.NONE
        self.end = End.NONE
        self._sequence = 0
        self._target: Array = np.vstack([self.machine.length, np.zeros((2, LEGS))])
        self._motion: Motion | None = None
        self._path: PathPlayer | None = None
        self._outcome = End.NONE  # of the motion that is stopping
        self._feed: Array = np.zeros(LEGS)
        self._fading: Array = _NO_FEED
        self._last_beat = 0
        self._silence = np.inf  # s since the host's heart beat
        names = (("stTrajectory", "aTrajectory"), ("stFeedforward", "aFeedforward"))
        self._trajectory, self._feedforward = (
            UploadedTable(self.symbols, self._name(header), self._name(rows), self._name(header + "State"))
            for header, rows in names
        )
        self._downloaded = max(self._downloaded + 1, int(time.time()))
        self.symbols[APP_TIMESTAMP][...] = self._downloaded
        info = self["stInfo"]
        info["nLayout"], info["nCycle"], info["bVirtual"] = VERSION, round(CYCLE * 1e9), True
        info["sModel"], info["sSerial"] = self._identity.model.encode(), self._identity.serial.encode()
        info["fStartTolerance"], info["fWatchdog"] = START_TOLERANCE, WATCHDOG

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.symbols[self._name(name)]

    def _name(self, name: str) -> str:
        return f"{self._prefix}.{name}"

    # --- what engineers do -----------------------------------------------------------------------------

    def online_change(self) -> None:
        """Change the running program: it goes on, with its variables at other addresses."""
        self.symbols.move()
        self.symbols[ONLINE_CHANGES][...] += 1

    def download(self) -> None:
        """Load the program anew: it begins from nothing."""
        self.symbols.reset()
        self._initialise()

    def lose_outputs(self) -> None:
        """What happens to a motion when the PLC stops: nobody moves the targets any more."""
        self._end_motion(End.FAULTED)
        self._target[1:] = 0.0

    def press_emergency_stop(self, pressed: bool) -> None:
        """Press or release the button; pressed, it takes the drives' power."""
        self.emergency_stopped = pressed
        if pressed:
            self._fault(Error.EMERGENCY_STOP)
            self._end_motion(End.FAULTED)

    def fail_drive(self, leg: int, code: int) -> None:
        """Let the drive of ``leg`` (from 0) report an error."""
        self.drive_error[leg] = code
        self._fault(Error.DRIVE_FAULT)

    # --- the cycle -------------------------------------------------------------------------------------

    def run_cycle(self, *, running: bool) -> None:
        """Advance by 1 ms; a PLC that does not run leaves its drives at their last targets.

        Raises
        ------
        ArithmeticError
            The simulated dynamics broke down.
        """
        self.cycle += 1
        if running:
            self._listen()
            self._obey()
            self._trajectory.run_cycle()
            self._feedforward.run_cycle()
            self._move_target()
        if not self.machine.run_cycle(self._target, self._feed, enabled=not self.emergency_stopped):
            raise ArithmeticError("the simulated dynamics broke down")
        if self.emergency_stopped:
            self._target[0], self._target[1:] = self.machine.length, 0.0
        if running:
            self._supervise()
            self._publish()

    def _listen(self) -> None:
        beat = int(self["nHostBeat"])
        self._silence = 0.0 if beat != self._last_beat else self._silence + CYCLE
        self._last_beat = beat
        self["nPlcBeat"][...] += 1

    @property
    def host_alive(self) -> bool:
        return self._silence < WATCHDOG

    # --- commands --------------------------------------------------------------------------------------

    def _obey(self) -> None:
        command, answer = self["stCommand"], self["stAnswer"]
        if command["nSequence"] == answer["nSequence"]:
            return
        actions = {
            Command.APPROACH: self._approach,
            Command.START: self._start,
            Command.STOP: self._stop,
            Command.HALT: self._halt,
            Command.RESET: self._reset,
        }
        action = actions.get(int(command["eCommand"]))  # type: ignore[call-overload]
        answer["eResult"] = Result.UNKNOWN_COMMAND if action is None else action(command)
        answer["nSequence"] = command["nSequence"]

    def _why_not(self, command: NDArray[Any]) -> Result:
        if self.mode is not Mode.HOLDING:
            return Result.NOT_HOLDING
        if not self.host_alive:
            return Result.NO_HEARTBEAT
        if self._trajectory.version == 0 or self._trajectory.version != int(command["nVersion"]):
            return Result.NO_TRAJECTORY
        return Result.DONE

    def _approach(self, command: NDArray[Any]) -> Result:
        refusal = self._why_not(command)
        if refusal is not Result.DONE:
            return refusal
        speed, acceleration = float(command["fSpeed"]), float(command["fAcceleration"])
        if not (0.0 < speed <= FASTEST_LEG and 0.0 < acceleration <= HALT_DECELERATION):
            return Result.BAD_ARGUMENT
        assert self._trajectory.rows is not None  # noqa: S101 - it has a version
        goal = np.array(self._trajectory.rows["aLength"][0])
        limits = np.full(LEGS, FASTEST_LEG)
        self._begin(Mode.APPROACHING, command)
        self._motion = PointToPoint(self._target[0], goal, speed, acceleration, limits)
        return Result.DONE

    def _start(self, command: NDArray[Any]) -> Result:
        refusal = self._why_not(command)
        if refusal is not Result.DONE:
            return refusal
        rows = self._trajectory.rows
        assert rows is not None  # noqa: S101 - it has a version
        first = np.array(rows["aLength"][0])
        off = max(np.abs(self.machine.length - first).max(), np.abs(self._target[0] - first).max())
        if not off <= START_TOLERANCE:
            return Result.NOT_AT_START
        currents, period = self._currents()
        self._path = PathPlayer(
            float(self._trajectory.header["fPeriod"]),
            np.array(rows["aLength"]),
            np.array(rows["aSpeed"]),
            currents,
            period,
        )
        self._begin(Mode.PLAYING, command)
        return Result.DONE

    def _currents(self) -> tuple[Array | None, float]:
        """Return the feedforward for the trajectory that is loaded; a table for another one is not used."""
        table = self._feedforward
        if table.rows is None or int(table.header["nTrajectoryCrc"]) != self._trajectory.crc:
            return None, 1.0
        return np.array(table.rows["aCurrent"], dtype=np.float64), float(table.header["fPeriod"])

    def _begin(self, mode: Mode, command: NDArray[Any]) -> None:
        self.mode = mode
        self.end = self._outcome = End.NONE
        self._sequence = int(command["nSequence"])

    def _stop(self, _command: NDArray[Any]) -> Result:
        if self.mode is Mode.PLAYING and self._path is not None:
            self._path.stop()
            self.mode, self._outcome = Mode.STOPPING, End.STOPPED
        elif self.mode is Mode.APPROACHING:
            return self._halt(_command)
        return Result.DONE

    def _halt(self, _command: NDArray[Any]) -> Result:
        self._brake(End.STOPPED)
        return Result.DONE

    def _reset(self, _command: NDArray[Any]) -> Result:
        if self.emergency_stopped:
            return Result.FAULT_PERSISTS
        self.drive_error[:] = 0
        self.error = Error.NONE
        if self.mode in (Mode.FAULTED, Mode.OFF):
            self.mode = Mode.HOLDING
        return Result.DONE

    # --- motion ----------------------------------------------------------------------------------------

    def _brake(self, outcome: End) -> None:
        """Come to rest at once, whatever moves."""
        if self.mode not in (Mode.APPROACHING, Mode.PLAYING, Mode.STOPPING):
            return
        self._leave_path()
        self._motion = SpeedRamp(np.zeros(LEGS), HALT_DECELERATION)
        self.mode = Mode.STOPPING
        self._outcome = outcome

    def _leave_path(self) -> None:
        if self._path is not None:
            self._path = None
            self._fading = self._feed.copy()

    def _move_target(self) -> None:
        if self._path is not None:
            self._path.advance(self._target, self._feed, CYCLE)
            if self._path.finished:
                self._leave_path()
                self._end_motion(self._outcome or End.COMPLETED)
        elif self._motion is not None:
            if self._motion.advance(self._target, CYCLE, 1.0):
                self._end_motion(self._outcome or End.COMPLETED)
        else:
            self._target[1:] = 0.0
        if self._path is None and self._feed.any():
            before = self._feed
            self._feed = before - self._fading * (CYCLE / FADE)
            if self._feed @ self._fading <= 0.0:
                self._feed = np.zeros(LEGS)

    def _end_motion(self, outcome: End) -> None:
        self._motion = None
        self._leave_path()
        if self.mode in (Mode.APPROACHING, Mode.PLAYING, Mode.STOPPING):
            self.end = outcome
            self.mode = Mode.HOLDING
        if self.emergency_stopped:
            self.mode = Mode.OFF
        elif self.error is not Error.NONE:
            self.mode = Mode.FAULTED

    # --- supervision -----------------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Stop what must not go on."""
        if self.mode in (Mode.APPROACHING, Mode.PLAYING) and not self.host_alive:
            self._fault(Error.HEARTBEAT_LOST)
        if np.abs(self._target[0] - self.machine.length).max() > FOLLOWING_LIMIT:
            self._fault(Error.FOLLOWING_ERROR)
        least, most = self.machine.stroke
        if self.mode is not Mode.STOPPING and not ((self._target[0] >= least) & (self._target[0] <= most)).all():
            self._fault(Error.STROKE_LIMIT)

    def _fault(self, error: Error) -> None:
        if self.error is not Error.NONE:
            return
        _log.warning("stopped by the PLC: %s", error.name)
        self.error = error
        if self.mode is Mode.HOLDING:
            self.mode = Mode.FAULTED
        elif error is Error.HEARTBEAT_LOST and self._path is not None:
            self._path.stop()  # nothing is wrong with the path
            self.mode, self._outcome = Mode.STOPPING, End.FAULTED
        else:
            self._brake(End.FAULTED)

    # --- what clients see ------------------------------------------------------------------------------

    def _publish(self) -> None:
        machine, sample, state = self.machine, self._sample, self["stState"]
        saturated = np.abs(machine.force) >= machine.force_limit
        state["eMode"], state["eError"], state["eEnd"] = self.mode, self.error, self.end
        state["nMotion"] = self._sequence
        state["nSaturated"] = int(saturated @ (1 << np.arange(LEGS)))
        state["aDriveState"] = np.where(self.drive_error != 0, _DRIVE_FAULT, self._drive_state)
        state["aDriveError"] = self.drive_error
        state["bHostAlive"] = self.host_alive
        head = int(self["nHead"])
        sample["nSeq"] = head
        sample["tDC"] = self._born + self.cycle * round(CYCLE * 1e9)
        sample["nStatus"] = self._status(bool(saturated.any()))
        sample["fPathTime"] = 0.0 if self._path is None else self._path.time
        sample["aLength"], sample["aSpeed"] = machine.length, machine.speed
        sample["aTargetLength"], sample["aTargetSpeed"] = self._target[0], self._target[1]
        sample["aCurrent"], sample["aTargetCurrent"], sample["aForce"] = machine.current, self._feed, machine.force
        self["aRing"][head % RING_LENGTH] = sample
        self["nHead"][...] = (head + 1) % 2**32

    @property
    def _drive_state(self) -> int:
        return _DRIVE_OFF if self.emergency_stopped else _DRIVE_ENABLED

    def _status(self, saturated: bool) -> int:
        moving = bool(np.abs(self._target[1]).max() > MOVING_SPEED)
        flags = {
            Status.MOVING: moving,
            Status.PLAYING: self.mode in (Mode.APPROACHING, Mode.PLAYING, Mode.STOPPING),
            Status.STOPPED_BY_PLC: self.error is not Error.NONE,
            Status.EMERGENCY_STOP: self.emergency_stopped,
            Status.DRIVE_FAULT: bool(self.drive_error.any()),
            Status.SENSOR_SATURATED: saturated,
            Status.FEEDFORWARD: self._path is not None and self._path.feeds_forward,
            Status.HOST_ALIVE: self.host_alive,
        }
        return sum(int(flag) for flag, present in flags.items() if present)

    def statistics(self) -> dict[str, Any]:
        """Return counters and states for tests and measurements."""
        return {
            "cycles": self.cycle,
            "head": int(self["nHead"]),
            "mode": self.mode.name,
            "error": self.error.name,
            "end": self.end.name,
            "trajectory_version": self._trajectory.version,
            "feedforward_version": self._feedforward.version,
            "host_alive": self.host_alive,
        }
