"""Emulation of the program that ur_rtde uploads: its command loop over RTDE registers.

The program text is not interpreted. Its loop and its commands are rebuilt from how the client behaves
(ur_rtde 1.6): integer input register 0 holds a command, integer output register 0 answers 1 (ready) or
2 (done), integer output register 2 tells how an asynchronous operation goes. What is read from the text are
the register offsets and the injected path. Commands that need inverse kinematics, force or contact are not
emulated; they end the program with an error, as an error in a real program does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drivers.virtual.target_motions import Motion, PointToPoint, SpeedRamp
from drivers.virtual.ur_controller.servo import Servo
from drivers.virtual.ur_controller.variables import InputVariables, OutputImage

Array = NDArray[np.float64]
Steps = Generator[None, None, None]

PROGRAM_NAME = "rtde_control"
_READY, _DONE = 1, 2
_PATH = re.compile(r"# inject move path\n(?P<body>.*?)^\s*end\b", re.DOTALL | re.MULTILINE)
_WAYPOINT = re.compile(r"^\s*(?P<kind>\w+)\((?P<pose>p?\[[^\]]*\]),a=(?P<a>[^,]+),v=(?P<v>[^,]+),r=(?P<r>[^)]+)\)")
_PROGRESS = re.compile(r"^\s*signal_async_progress\((?P<value>\d+)\)")


class Command(IntEnum):
    """Commands of the client that are emulated."""

    NONE = 0
    MOVEJ = 1
    SPEEDJ = 9
    SERVOJ = 11
    SPEED_STOP = 15
    SERVO_STOP = 16
    SET_PAYLOAD = 17
    GET_STEPTIME = 26
    JOINT_POSITIONS_HISTORY = 27
    SET_TCP = 29
    PROTECTIVE_STOP = 31
    STOPL = 33
    STOPJ = 34
    SET_WATCHDOG = 35
    JOINTS_WITHIN_LIMITS = 37
    JOINT_TORQUES = 38
    GET_TCP_OFFSET = 40
    MOVE_PATH = 45
    IS_STEADY = 47
    STOP_SCRIPT = 255


class ScriptError(Exception):
    """The program did something that ends a real program with an error."""


class ScriptHost(Protocol):
    """What the program needs of the controller."""

    @property
    def inputs(self) -> InputVariables: ...
    @property
    def outputs(self) -> OutputImage: ...
    @property
    def cycle(self) -> int: ...
    @property
    def target(self) -> Array: ...
    @property
    def period(self) -> float: ...
    @property
    def speed_limits(self) -> Array: ...
    @property
    def steady(self) -> bool: ...

    motion: Motion | None
    servo_cycles: int

    def protective_stop(self, reason: str) -> None: ...
    def within_limits(self, q: Array) -> bool: ...
    def positions_ago(self, steps: int) -> Array: ...


class ControlScript:
    """The running program. ``step`` once per control cycle, before the target moves."""

    def __init__(self, text: str, host: ScriptHost) -> None:
        """Prepare to run.

        Raises
        ------
        ScriptError
            The text holds something that cannot be emulated.
        """
        self._host = host
        self._floats = _offset(text, "float")
        self._integers = _offset(text, "int")
        self._path = _parse_path(text)
        self._writes = self._operations = 0
        self._watchdog: int | None = None
        self._armed_at = 0
        self._servo: Servo | None = None
        self._background: Steps | None = None
        self._main = self._run()
        self._immediate: dict[int, Callable[[], None]] = {
            Command.SERVOJ: self._servoj,
            Command.SPEEDJ: self._speedj,
            Command.GET_STEPTIME: lambda: self._answer([host.period]),
            Command.JOINT_TORQUES: lambda: self._answer(self._cycle_row("target_moment")),
            Command.JOINT_POSITIONS_HISTORY: lambda: self._answer(host.positions_ago(self._integer(1))),
        }
        self._blocking: dict[int, Callable[[], Steps]] = {
            Command.MOVEJ: lambda: self._perhaps_async(self._movej(self._six(), self._float(6), self._float(7))),
            Command.MOVE_PATH: lambda: self._perhaps_async(self._follow_path()),
            Command.SPEED_STOP: lambda: self._brake(self._float(0)),
            Command.SERVO_STOP: lambda: self._brake(self._float(0)),
            Command.STOPJ: lambda: self._perhaps_async(self._brake(self._float(0))),
            Command.STOPL: lambda: self._perhaps_async(self._brake(self._float(0))),
            Command.SET_WATCHDOG: self._set_watchdog,
            Command.PROTECTIVE_STOP: self._protective_stop,
            Command.JOINTS_WITHIN_LIMITS: lambda: self._tell(host.within_limits(self._six())),
            Command.IS_STEADY: lambda: self._tell(host.steady),
            Command.SET_PAYLOAD: self._accept,
            Command.SET_TCP: self._accept,
            Command.GET_TCP_OFFSET: lambda: self._tell_pose(np.zeros(6)),
        }

    def step(self) -> bool:
        """Run the program for one control cycle; False when it has ended by itself.

        Raises
        ------
        ScriptError
            The program failed, or its watchdog ran out.
        """
        self._check_watchdog()
        if self._background is not None and next(self._background, True):
            self._background = None
        return not next(self._main, True)

    def _run(self) -> Generator[bool, None, None]:
        """Yield False once per control cycle (the program goes on)."""
        self._report_progress(-1)
        self._signal(_READY)
        executing = False
        while True:
            command = self._integer(0)
            if command in self._immediate:
                self._immediate[command]()
                self._signal(_READY)
            elif command == Command.NONE:
                executing = False
                self._signal(_READY)
            elif not executing:
                if command == Command.STOP_SCRIPT:
                    return
                if command not in self._blocking:
                    raise ScriptError(f"command {command} is not emulated by the virtual controller")
                for _ in self._blocking[command]():
                    yield False
                self._signal(_DONE)
                executing = True
            yield False

    # --- registers ------------------------------------------------------------------------------------

    def _integer(self, index: int) -> int:
        return self._host.inputs.integers[index + self._integers]

    def _float(self, index: int) -> float:
        return self._host.inputs.doubles[index + self._floats]

    def _six(self) -> Array:
        q = np.array(self._host.inputs.doubles[self._floats : self._floats + 6])
        if not np.isfinite(q).all():
            raise ScriptError("a joint position or speed is not a number")
        return q

    def _signal(self, value: int) -> None:
        self._host.outputs[f"output_int_register_{self._integers}"] = value

    def _answer(self, values: Array | list[float]) -> None:
        for index, value in enumerate(values):
            self._host.outputs[f"output_double_register_{index + self._floats}"] = value

    def _cycle_row(self, name: str) -> Array:
        return np.array(self._host.outputs[name], dtype=np.float64)

    def _report_progress(self, value: int) -> None:
        """Publish how the asynchronous operation goes: 0 started, > 0 progress, -1 finished.

        Bits 0-14 progress, 15 running, 16-22 count of reports, 24-30 number of the operation.
        """
        self._writes = (self._writes + 1) % 128
        if value == 0:
            self._operations = (self._operations + 1) % 128
        word = (self._writes << 16) | (self._operations << 24)
        if value >= 0:
            word |= 0x8000 | min(value, 0x7FFF)
        self._host.outputs[f"output_int_register_{self._integers + 2}"] = word

    # --- commands -------------------------------------------------------------------------------------

    def _servoj(self) -> None:
        lookahead, gain = self._float(9), self._float(10)
        if not (0.03 <= lookahead <= 0.2 and 100.0 <= gain <= 2000.0):
            raise ScriptError(f"servoj takes 0.03..0.2 s look-ahead and gain 100..2000, got {lookahead}, {gain}")
        if self._servo is None or self._host.motion is not self._servo:
            self._servo = Servo(self._host.target)
            self._host.motion = self._servo
        self._servo.command(self._six(), lookahead, gain)
        self._host.servo_cycles += 1

    def _speedj(self) -> None:
        self._host.motion = SpeedRamp(self._six(), _positive(self._float(6), "acceleration"))

    def _movej(self, goal: Array, speed: float, acceleration: float) -> Steps:
        _positive(speed, "speed")
        _positive(acceleration, "acceleration")
        if not self._host.within_limits(goal):
            self._host.protective_stop("movej: the goal lies outside the joint limits")
            yield  # the program is not resumed from here
        if self._host.target[1].any():
            yield from self._brake(acceleration)
        start = self._host.target[0]
        yield from self._move(PointToPoint(start, goal, speed, acceleration, self._host.speed_limits))

    def _follow_path(self) -> Steps:
        """Run the waypoints one after the other; each ends at rest, blends are not emulated."""
        for goal, speed, acceleration, progress in self._path:
            if progress is not None:
                self._report_progress(progress)
            yield from self._movej(goal, speed, acceleration)

    def _brake(self, deceleration: float) -> Steps:
        rate = _positive(deceleration, "deceleration")
        yield from self._move(SpeedRamp(np.zeros_like(self._host.target[0]), rate))

    def _move(self, motion: Motion) -> Steps:
        self._host.motion = motion
        while self._host.motion is motion:
            yield

    def _perhaps_async(self, operation: Steps) -> Steps:
        """Run ``operation`` here, or beside the command loop where integer register 1 says so."""
        if self._background is not None:
            self._background = None
            self._report_progress(-1)
        if self._integer(1) == 1:
            self._background = self._reported(operation)
            next(self._background)
            return
        yield from operation

    def _reported(self, operation: Steps) -> Steps:
        self._report_progress(0)
        yield
        yield from operation
        self._report_progress(-1)

    def _set_watchdog(self) -> Steps:
        frequency = _positive(self._float(0), "watchdog frequency")
        self._watchdog = max(1, round(1.0 / (frequency * self._host.period)))
        self._armed_at = self._host.cycle
        yield

    def _check_watchdog(self) -> None:
        if self._watchdog is None:
            return
        written = max(self._armed_at, self._host.inputs.written_at[self._integers])
        if self._host.cycle - written > self._watchdog:
            raise ScriptError("watchdog: the client stopped writing its command register")

    def _protective_stop(self) -> Steps:
        self._host.protective_stop("asked for by the client")
        yield

    def _tell(self, fact: bool) -> Steps:
        self._host.outputs[f"output_int_register_{self._integers + 1}"] = int(fact)
        yield

    def _tell_pose(self, pose: Array) -> Steps:
        self._answer(pose)
        yield

    def _accept(self) -> Steps:
        """Take a setting that changes nothing here."""
        yield


def _positive(value: float, what: str) -> float:
    if not (np.isfinite(value) and value > 0.0):
        raise ScriptError(f"{what} must be positive, got {value}")
    return value


def _offset(text: str, kind: str) -> int:
    """Return the register offset that the client injected after its marker, 0 if there is none."""
    found = re.search(rf"# {kind} register offset\s*\n\s*(\d+)", text)
    return int(found.group(1)) if found else 0


def _parse_path(text: str) -> list[tuple[Array, float, float, int | None]]:
    """Return (q, speed, acceleration, progress to report) per injected waypoint."""
    found = _PATH.search(text)
    path = []
    progress = None
    for line in found["body"].splitlines() if found else ():
        if report := _PROGRESS.match(line):
            progress = int(report["value"])
        elif waypoint := _WAYPOINT.match(line):
            if waypoint["kind"] != "movej" or waypoint["pose"].startswith("p"):
                raise ScriptError(f"only movej with joint positions is emulated in a path: {line.strip()!r}")
            q = np.array([float(value) for value in waypoint["pose"].strip("[]").split(",")])
            path.append((q, float(waypoint["v"]), float(waypoint["a"]), progress))
            progress = None
    return path
