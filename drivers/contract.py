"""What every robot driver offers, and the errors it may raise.

A driver is synchronous and owned by one process, the device host. It gives three things: a source of samples,
a player that moves the robot in a process of its own, and a way to halt the robot that needs neither.
"""

# ruff: noqa: N818 - the names say what happened to the controller, not that an exception is an error

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from core.errors import DynidError, InputError
from core.streaming.samples import SampleBlock

MotionOutcome = Literal["completed", "stopped", "faulted"]
KEEP_ALIVE_PERIOD = 0.05  # s between two words to a process that moves a robot


class DriverError(DynidError):
    """Base of everything that goes wrong between this host and a controller.

    ``detail`` starts with ``host:port``; ``context`` holds ``host`` and ``port`` where one is involved.
    """

    code = "driver-error"


class DriverUnreachable(DriverError):
    """Nothing answers at the controller's address."""

    code = "controller-unreachable"


class DriverTimeout(DriverError):
    """The controller is connected but does not answer in time."""

    code = "controller-timeout"


class ConnectionLost(DriverError):
    """An open connection broke."""

    code = "connection-lost"


class DriverProtocolError(DriverError):
    """The peer does not speak the expected protocol, or refuses what was asked of it."""

    code = "controller-protocol"


class UnsupportedController(DriverError):
    """The controller's model or version cannot do what is needed."""

    code = "controller-unsupported"


class ControllerNotReady(DriverError):
    """The controller is in a state in which it cannot move: no remote control, brakes on, other program."""

    code = "controller-not-ready"


class ProtectiveStop(DriverError):
    """The controller has stopped the robot for safety."""

    code = "protective-stop"


class MotionRefused(DriverError):
    """A motion was not started; nothing has moved. ``code`` says why."""

    code = "motion-refused"


class StopUnconfirmed(DriverError):
    """Every way to stop was tried, but it could not be confirmed that the robot is at rest."""

    code = "stop-unconfirmed"


@dataclass(frozen=True)
class Capabilities:
    """What a driver can do with its robot."""

    n_joints: int
    max_rate_hz: float
    motion: bool
    feedforward: bool = False  # it is a `FeedforwardDriver`
    unit: str = "rad"  # of joint positions; m where joints are legs or slides


@dataclass(frozen=True)
class ControllerInfo:
    """What does not change while connected. ``virtual``: by its own word it moves no real robot; None: unknown."""

    version: str
    serial: str | None
    model: str | None = None
    virtual: bool | None = None


@dataclass(frozen=True)
class ControllerState:
    """What the stream says about the controller besides joint signals; names as the controller's manual.

    ``temperatures`` (n,) are those of the joints, °C; None where it does not tell them.
    """

    robot_mode: str
    safety_mode: str
    program_running: bool
    temperatures: tuple[float, ...] | None = None


class SampleSource(Protocol):
    """Every sample of the controller, in order, or an exact count of those that are missing.

    One thread uses a source; ``state`` is for all. It stays usable over lost connections: ``connect`` again,
    and the sequence goes on with the samples missed in between counted as ``lost``.
    """

    @property
    def state(self) -> ControllerState | None:
        """What the newest sample says about the controller; None while not connected. For any thread."""
        ...

    def connect(self) -> ControllerInfo:
        """Open the stream; raises `DriverError` with the reason when that fails."""
        ...

    def read(self, timeout: float) -> SampleBlock | None:
        """Block for at least one sample; None when none arrives within ``timeout`` s.

        Raises
        ------
        ConnectionLost, DriverProtocolError
        """
        ...

    def take_notices(self) -> list[str]:
        """Return and forget what an operator should know: controller messages, restarts, oddities."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ApproachSpeed:
    """How fast to go to the first pose: rad/s and rad/s² of the leading joint."""

    speed: float
    acceleration: float


@dataclass(frozen=True)
class MotionFinish:
    """How a motion ended: ``cycles`` commands were sent, ``late_cycles`` cycles passed without one.

    ``period_ms`` holds the 50th, 99th and 100th percentile of the time between commands.
    """

    outcome: MotionOutcome
    reason: str
    code: str | None = None
    cycles: int = 0
    late_cycles: int = 0
    period_ms: tuple[float, float, float] | None = None


class MotionListener(Protocol):
    """Told by a player what happens; called from the player's own thread, in this order."""

    def accepted(self) -> None:
        """The controller is ready and the robot begins to move; before this, ``finished`` is a refusal."""

    def at_start(self) -> None:
        """The approach is over and the robot holds; the player waits for ``proceed``."""

    def progress(self, time: float) -> None:
        """``time`` s of the trajectory have been commanded."""

    def finished(self, finish: MotionFinish) -> None:
        """Called exactly once, also when the player's process crashed; the process is gone by then."""


class MotionPlayer(Protocol):
    """Plays one trajectory, once, apart from this process: the robot stops when this process dies or hangs.

    What moves the robot is a process of its own, or the controller itself.
    """

    def start(self, listener: MotionListener) -> None:
        """Start the process and return at once; the calling thread must outlive the motion."""

    def keep_alive(self) -> None:
        """Say that somebody watches over the motion, at least every `KEEP_ALIVE_PERIOD` from `start` on.

        A process that hears nothing for longer stops the robot along its path.
        """

    def proceed(self) -> None:
        """Let the trajectory begin."""

    def stop(self, reason: str, *, immediately: bool) -> None:
        """Ask for a decelerated stop: along the path, or at once (which leaves the path). Does not wait."""

    def kill(self) -> None:
        """End the process without its help; the controller then has to be halted another way."""


class RobotDriver(Protocol):
    """One robot. Creating a driver connects to nothing."""

    @property
    def capabilities(self) -> Capabilities: ...

    def source(self) -> SampleSource: ...

    def player(self, trajectory: Path, approach: ApproachSpeed | None, settle_time: float) -> MotionPlayer:
        """Return a player for a trajectory file (see `drivers.trajectory`).

        Without ``approach`` the robot is taken to stand at the first pose; what little is left is gone gently.

        Raises
        ------
        InputError
            The file is not a trajectory for this robot.
        """
        ...

    def halt(self) -> None:
        """Stop whatever program moves the robot, over a connection of its own; raises `DriverError`."""
        ...

    def recover(self) -> None:
        """Release a protective stop; returns when the controller has agreed to.

        Raises
        ------
        DriverError
            It refuses, in its own words, or is stopped by what cannot be released from here (``fault-persists``).
        """
        ...


class FeedforwardDriver(RobotDriver, Protocol):
    """A robot whose controller adds a table of currents to its own, for one trajectory."""

    def load_feedforward(self, trajectory: Path, table: Path) -> int:
        """Have ``table`` added whenever exactly this ``trajectory`` is played; returns the table's version.

        Both are files, see `drivers.trajectory`. Nothing moves.

        Raises
        ------
        InputError
            One of the files is not what it should be, or too long for the controller.
        DriverError
            The controller does not take it, or what it holds afterwards is something else.
        """
        ...

    def clear_feedforward(self) -> None:
        """Have nothing added any more; raises `DriverError`."""
        ...


_DRIVERS = {
    "universal_robots": "drivers.universal_robots.driver",
    "beckhoff_ads": "drivers.beckhoff_ads.driver",
    "vendor_socket": "drivers.vendor_socket.driver",
}


def driver_named(name: str) -> Callable[..., RobotDriver]:
    """Return the maker ``(host, rate_hz, **options) -> RobotDriver`` of the driver called ``name`` in the settings.

    ``options`` are the driver's own settings.

    Raises
    ------
    InputError
        No such driver.
    """
    try:
        module = importlib.import_module(_DRIVERS[name])
    except KeyError:
        raise InputError(f"no driver is called '{name}'; known: {', '.join(_DRIVERS)}", code="driver-unknown") from None
    maker: Callable[..., RobotDriver] = module.create
    return maker
