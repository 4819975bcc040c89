"""What the PLC program does in its 1 ms cycle: heartbeat, commands, targets, drives, supervision, samples.

A real PLC's structured text does the same, with the variables of ``drivers.twincat_layout``.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from drivers.twincat_layout import LEGS, VERSION, Command, End, Error, Mode, Result, Status
from drivers.virtual.target_motions import Motion, PointToPoint, SpeedRamp
from drivers.virtual.twincat.interface import Order, PlcInterface
from drivers.virtual.twincat.path import FADE, PathPlayer, warm_up
from drivers.virtual.twincat.symbols import SymbolTable
from drivers.virtual.twincat.tables import UploadedTable

Array = NDArray[np.float64]

CYCLE = 0.001  # s
RING_LENGTH = 4096  # samples: about four seconds
TABLE_LENGTH = 30001  # rows: 30 s at 1 kHz
START_TOLERANCE = 0.002  # m
WATCHDOG = 0.25  # s
HALT_DECELERATION = 6.0  # m/s², when the path is left
FASTEST_LEG = 1.0  # m/s
FOLLOWING_LIMIT = 0.02  # m
MOVING_SPEED = 1e-4  # m/s of a target
_EPOCH_2000 = 946684800  # s, where the distributed clock begins
_DRIVE_ENABLED, _DRIVE_OFF, _DRIVE_FAULT = 0x1637, 0x1650, 0x1618  # statuswords of CiA 402
_MOVING = (Mode.APPROACHING, Mode.PLAYING, Mode.STOPPING)
_log = logging.getLogger(__name__)


class LegDrives(Protocol):
    """The machine as the PLC meets it: six legs with drives, encoders and force sensors."""

    measured: Array
    """(4, 6): length m, speed m/s, current A, force N with compression positive."""
    stroke: Array  # (2, 6) m, least and largest length
    force_limit: float  # N at which the sensors saturate
    saturated: NDArray[np.bool_]  # (6,), a fault: the sensor reads its limit whatever the force is

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
        self.machine = machine
        self.cycle = 0
        """Cycles of the machine; the program's own are in the samples."""
        self._stroke = machine.stroke.tolist()
        self.emergency_stopped = False
        self.drive_errors = [0] * LEGS
        self._interface = PlcInterface(prefix, RING_LENGTH, TABLE_LENGTH)
        self._identity = identity
        self._born = time.time_ns() - _EPOCH_2000 * 10**9
        self._compiled = self._online_changes = 0
        warm_up(LEGS)
        self._initialise()

    @property
    def symbols(self) -> SymbolTable:
        return self._interface.symbols

    def _initialise(self) -> None:
        """Begin as after a download: everything the program remembers is new."""
        self.mode = Mode.OFF if self.emergency_stopped else Mode.HOLDING
        self.error = Error.EMERGENCY_STOP if self.emergency_stopped else Error.NONE
        self._powerless = self.emergency_stopped  # the button was pressed, and there was no reset since
        self.end = self._outcome = End.NONE  # of the last motion; of the one that is stopping
        self._sequence = 0
        self._target: Array = np.vstack([self.machine.measured[0], np.zeros((2, LEGS))])
        self._motion: Motion | None = None
        self._path: PathPlayer | None = None
        self._feed: Array = np.zeros(LEGS)
        self._fading: Array | None = None
        self._beat = self._interface.host_beat
        self._silence = WATCHDOG  # s since the host's heart beat
        self._trajectory = UploadedTable(self._interface, "stTrajectory", "aTrajectory", self._within_stroke)
        self._feedforward = UploadedTable(self._interface, "stFeedforward", "aFeedforward")
        self._online_changes = 0
        self._stamp()
        self._interface.introduce(
            VERSION,
            round(CYCLE * 1e9),
            True,
            self._identity.model.encode(),
            self._identity.serial.encode(),
            START_TOLERANCE,
            WATCHDOG,
        )

    def _stamp(self) -> None:
        """Say that the program was compiled, as it is for a download and for an online change."""
        self._compiled = max(self._compiled + 1, int(time.time()))
        self._interface.stamp(self._compiled, self._online_changes)

    # --- what engineers do -----------------------------------------------------------------------------

    def online_change(self) -> None:
        """Change the running program: it goes on, with its variables at other addresses."""
        self.symbols.move()
        self._online_changes += 1
        self._stamp()
        for part in (self._interface, self._trajectory, self._feedforward):
            part.bind()

    def download(self) -> None:
        """Load the program anew: it begins from nothing."""
        self.symbols.reset()
        self._interface.bind()
        self._initialise()

    def lose_outputs(self) -> None:
        """What happens to a motion when the PLC stops: nobody moves the targets any more."""
        self._end_motion(End.FAULTED)
        self._target[1:] = 0.0

    def press_emergency_stop(self, pressed: bool) -> None:
        """Press or release the button; pressed, it takes the drives' power."""
        self.emergency_stopped = pressed
        if pressed:
            self._powerless = True
            self._fault(Error.EMERGENCY_STOP)
            self._end_motion(End.FAULTED)
            self.mode = Mode.OFF

    def fail_drive(self, leg: int, code: int) -> None:
        """Let the drive of ``leg`` (from 0) report an error."""
        self.drive_errors[leg] = code
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
            self._trajectory.run_cycle()
            self._feedforward.run_cycle()
            self._move_target()
        if not self.machine.run_cycle(self._target, self._feed, enabled=not self._powerless):
            raise ArithmeticError("the simulated dynamics broke down")
        if self._powerless:
            self._target[0], self._target[1:] = self.machine.measured[0], 0.0
        if running:
            legs = self._legs()
            self._supervise(legs)
            self._publish(legs)

    def _listen(self) -> None:
        beat = self._interface.host_beat
        self._silence = 0.0 if beat != self._beat else self._silence + CYCLE
        self._beat = beat
        order = self._interface.new_order()
        if order is not None:
            self._interface.answer(order, self._obey(order))

    @property
    def host_alive(self) -> bool:
        return self._silence < WATCHDOG

    # --- commands --------------------------------------------------------------------------------------

    def _obey(self, order: Order) -> Result:
        match order.command:
            case Command.APPROACH:
                return self._why_not(order) or self._approach(order)
            case Command.START:
                return self._why_not(order) or self._start(order)
            case Command.STOP:
                return self._stop()
            case Command.HALT:
                return self._halt()
            case Command.RESET:
                return self._reset()
        return Result.UNKNOWN_COMMAND

    def _why_not(self, order: Order) -> Result:
        """Return why no motion may begin, or DONE, which is false."""
        if self.mode is not Mode.HOLDING:
            return Result.NOT_HOLDING
        if not self.host_alive:
            return Result.NO_HEARTBEAT
        if self._trajectory.version == 0 or self._trajectory.version != order.version:
            return Result.NO_TRAJECTORY
        return Result.DONE

    def _approach(self, order: Order) -> Result:
        if not (0.0 < order.speed <= FASTEST_LEG and 0.0 < order.acceleration <= HALT_DECELERATION):
            return Result.BAD_ARGUMENT
        limits = np.full(LEGS, FASTEST_LEG)
        goal = self._rows["aLength"][0].copy()
        self._begin(Mode.APPROACHING, order)
        self._motion = PointToPoint(self._target[0], goal, order.speed, order.acceleration, limits)
        return Result.DONE

    def _start(self, order: Order) -> Result:
        rows = self._rows
        first = rows["aLength"][0]
        off = max(np.abs(self.machine.measured[0] - first).max(), np.abs(self._target[0] - first).max())
        if not off <= START_TOLERANCE:
            return Result.NOT_AT_START
        lengths, speeds = (np.ascontiguousarray(rows[name]) for name in ("aLength", "aSpeed"))
        self._begin(Mode.PLAYING, order)
        self._path = PathPlayer(self._trajectory.period, lengths, speeds, self._currents(), self._feedforward.period)
        return Result.DONE

    def _within_stroke(self, rows: NDArray[Any]) -> bool:
        least, most = self.machine.stroke
        return bool(((rows["aLength"] >= least) & (rows["aLength"] <= most)).all())

    @property
    def _rows(self) -> NDArray[Any]:
        rows = self._trajectory.rows
        assert rows is not None  # noqa: S101 - only used where the trajectory has a version
        return rows

    def _currents(self) -> Array | None:
        """Return the feedforward for the trajectory that is loaded; a table for another one is not used."""
        table = self._feedforward
        if table.rows is None or table.trajectory_crc != self._trajectory.crc:
            return None
        return np.array(table.rows["aCurrent"], dtype=np.float64)

    def _begin(self, mode: Mode, order: Order) -> None:
        self.mode = mode
        self.end = self._outcome = End.NONE
        self._sequence = order.sequence

    def _stop(self) -> Result:
        if self.mode is Mode.PLAYING and self._path is not None:
            self._path.stop()
            self.mode, self._outcome = Mode.STOPPING, End.STOPPED
            return Result.DONE
        return self._halt()

    def _halt(self) -> Result:
        self._brake(End.STOPPED)
        return Result.DONE

    def _reset(self) -> Result:
        if self.emergency_stopped:
            return Result.FAULT_PERSISTS
        self.drive_errors = [0] * LEGS
        self._powerless = False
        self.error = Error.NONE
        if self.mode in (Mode.FAULTED, Mode.OFF):
            self.mode = Mode.HOLDING
        return Result.DONE

    # --- motion ----------------------------------------------------------------------------------------

    def _move_target(self) -> None:
        if self._path is not None:
            self._path.advance(self._target, self._feed, CYCLE)
            if self._path.finished:
                self._end_motion(self._outcome or End.COMPLETED)
        elif self._motion is not None and self._motion.advance(self._target, CYCLE, 1.0):
            self._end_motion(self._outcome or End.COMPLETED)
        if self._fading is not None:
            self._feed -= self._fading * (CYCLE / FADE)
            if self._feed @ self._fading <= 0.0:
                self._feed[:] = 0.0
                self._fading = None

    def _brake(self, outcome: End) -> None:
        """Come to rest at once, whatever moves."""
        if self.mode in _MOVING:
            self._leave_path()
            self._motion = SpeedRamp(np.zeros(LEGS), HALT_DECELERATION)
            self.mode, self._outcome = Mode.STOPPING, outcome

    def _leave_path(self) -> None:
        if self._path is not None and self._path.feeds_forward:
            self._fading = self._feed.copy()
        self._path = None

    def _end_motion(self, outcome: End) -> None:
        self._motion = None
        self._leave_path()
        self._target[1:] = 0.0
        if self.mode in _MOVING:
            self.end = outcome
            self.mode = Mode.HOLDING if self.error is Error.NONE else Mode.FAULTED

    # --- supervision -----------------------------------------------------------------------------------

    def _supervise(self, legs: list[float]) -> None:
        """Stop what must not go on; ``legs`` as in a sample."""
        if self.mode in (Mode.APPROACHING, Mode.PLAYING) and not self.host_alive:
            self._fault(Error.HEARTBEAT_LOST)
        lengths, targets = legs[:LEGS], legs[2 * LEGS : 3 * LEGS]
        if max(abs(target - length) for target, length in zip(targets, lengths, strict=True)) > FOLLOWING_LIMIT:
            self._fault(Error.FOLLOWING_ERROR)
        least, most = self._stroke
        if any(not low <= target <= high for low, target, high in zip(least, targets, most, strict=True)):
            self._fault(Error.STROKE_LIMIT)

    def _fault(self, error: Error) -> None:
        if self.error is Error.NONE:
            self.error = error
        elif self._path is None:
            return
        # here with an earlier reason: the path is slowing down, and must be left now
        _log.warning("stopped by the PLC: %s", error.name)
        if self.mode is Mode.HOLDING:
            self.mode = Mode.FAULTED
        elif error is Error.HEARTBEAT_LOST and self._path is not None:
            self._path.stop()  # nothing is wrong with the path
            self.mode, self._outcome = Mode.STOPPING, End.FAULTED
        else:
            self._brake(End.FAULTED)

    # --- what clients see ------------------------------------------------------------------------------

    def _legs(self) -> list[float]:
        """Return the arrays of a sample, one after the other."""
        length, speed, current, force = self.machine.measured.tolist()
        target, target_speed = self._target[:2].tolist()
        legs: list[float] = length + speed + target + target_speed + current + self._feed.tolist() + force
        return legs

    def _publish(self, legs: list[float]) -> None:
        limit = self.machine.force_limit
        saturated = sum(1 << leg for leg, force in enumerate(legs[-LEGS:]) if abs(force) >= limit)
        drives = [_DRIVE_OFF if self._powerless else _DRIVE_ENABLED] * LEGS
        for leg, error in enumerate(self.drive_errors):
            if error:
                drives[leg] = _DRIVE_FAULT
        alive = self.host_alive
        self._interface.show_state(
            self.mode, self.error, self.end, self._sequence, saturated, *drives, *self.drive_errors, alive
        )
        path = self._path
        status = (
            Status.MOVING * (max(map(abs, legs[3 * LEGS : 4 * LEGS])) > MOVING_SPEED)
            + Status.PLAYING * (self.mode in _MOVING)
            + Status.STOPPED_BY_PLC * (self.error is not Error.NONE)
            + Status.EMERGENCY_STOP * self.emergency_stopped
            + Status.DRIVE_FAULT * any(self.drive_errors)
            + Status.SENSOR_SATURATED * (saturated != 0)
            + Status.FEEDFORWARD * (path is not None and path.feeds_forward)
            + Status.HOST_ALIVE * alive
        )
        clock = self._born + self.cycle * round(CYCLE * 1e9)
        self._interface.append_sample(clock, status, 0.0 if path is None else path.time, legs)

    def statistics(self) -> dict[str, Any]:
        """Return counters and states for tests and measurements."""
        return {
            "cycles": self.cycle,
            "head": self._interface.head,
            "mode": self.mode.name,
            "error": self.error.name,
            "end": self.end.name,
            "trajectory_version": self._trajectory.version,
            "feedforward_version": self._feedforward.version,
            "host_alive": self.host_alive,
        }
