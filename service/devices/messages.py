"""What the service and a device host say to each other: one JSON object per line, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from drivers.contract import MotionOutcome

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

Connection = Literal["starting", "streaming", "stale", "disconnected", "crashed"]
MotionState = Literal["idle", "approaching", "playing", "stopping", "faulted"]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Approach(Message):
    """Go to the first pose with a joint move: rad/s and rad/s² of the leading joint."""

    speed: Positive
    acceleration: Positive


class MotionRequest(Message):
    """Play a trajectory file (.npz with t (N,), q (N, n), qd (N, n), uniform period).

    ``arming`` is the number of the arming that this motion uses up.
    Without ``approach`` the robot must already be within ``start_tolerance`` (rad) of the first pose; what is left
    of the way is gone gently.
    ``tracking_limit`` (rad, one per joint) stops the motion when the actual pose leaves the target by more.
    ``settle_time`` (s) is the rest before the first and after the last sample.
    """

    motion_id: str
    arming: int
    trajectory: Path
    approach: Approach | None = None
    start_tolerance: Positive
    tracking_limit: tuple[Positive, ...]
    settle_time: NotNegative = 0.5


class ControllerStatus(Message):
    """What the controller says about itself, in its manual's words.

    ``virtual``: whether it says that it moves no real robot; null when it does not tell.
    ``stop``: why its safety system keeps the robot from moving, by the newest sample; null when it does not.
    ``joint_temperatures``: °C, one per joint; null where it does not tell them.
    """

    version: str | None = None
    serial: str | None = None
    model: str | None = None
    virtual: bool | None = None
    mode: str | None = None
    safety: str | None = None
    program_running: bool | None = None
    stop: str | None = None
    joint_temperatures: tuple[float, ...] | None = None


class DeviceStatus(Message):
    """All that is known about a robot's connection and motion, at most 0.2 s old.

    ``reason`` explains every connection that is not ``streaming``, a latched fault, and else a controller that is
    not what the settings say. ``ring_path`` and
    ``ring_epoch`` name the live samples; a new epoch means a new host, with positions that start again.
    """

    robot: str
    connection: Connection = "starting"
    reason: str | None = None
    pid: int | None = None
    ring_path: Path | None = None
    ring_epoch: int | None = None
    n_joints: int | None = None
    rate_hz: float
    samples: int = 0
    lost: int = 0
    sample_age_ms: float | None = None
    realtime: str | None = None
    controller: ControllerStatus = ControllerStatus()
    motion: MotionState = "idle"
    motion_id: str | None = None
    restarts: int = 0


# --- events of one motion, host -> service -------------------------------------------------------------


class MotionStarted(Message):
    """The approach is over; the trajectory begins at or after this position of the ring."""

    type: Literal["motion-started"] = "motion-started"
    motion_id: str
    ring_position: int


class MotionProgress(Message):
    type: Literal["motion-progress"] = "motion-progress"
    motion_id: str
    fraction: float
    time: float


class MotionFinished(Message):
    """The last event of a motion; ``max_tracking_error`` (rad) is per joint, empty when it never started.

    ``cycles`` commands were sent and ``late_cycles`` cycles passed without one, each of which delays the rest
    of the path by a cycle; ``period_ms`` holds the 50th, 99th and 100th percentile of the time between commands.
    """

    type: Literal["motion-finished"] = "motion-finished"
    motion_id: str
    outcome: MotionOutcome
    reason: str
    code: str | None = None
    ring_position: int
    cycles: int = 0
    late_cycles: int = 0
    period_ms: tuple[float, float, float] | None = None
    max_tracking_error: tuple[float, ...] = ()


MotionEvent = MotionStarted | MotionProgress | MotionFinished


# --- service -> host -----------------------------------------------------------------------------------


class Configure(Message):
    """The first message: which robot, where its samples go."""

    type: Literal["configure"] = "configure"
    robot: str
    driver: str
    driver_options: dict[str, str | int | float] = {}
    host: str
    rate_hz: Positive
    ring_path: Path
    ring_seconds: Positive
    motion_enabled: bool
    virtual: bool
    temperature_limit: float | None = None


class Heartbeat(Message):
    """The service is alive; the motion of this ``arming`` is allowed until ``authority_until`` (CLOCK_MONOTONIC, s)."""

    type: Literal["heartbeat"] = "heartbeat"
    authority_until: float | None
    arming: int | None


class Play(Message):
    type: Literal["play"] = "play"
    call: int
    request: MotionRequest


class Stop(Message):
    """Stop, and refuse whatever was asked for under the present arming but has not arrived yet."""

    type: Literal["stop"] = "stop"
    call: int
    reason: str


class Recover(Message):
    """Release what keeps the controller from moving (a protective stop); a deliberate act."""

    type: Literal["recover"] = "recover"
    call: int


class LoadFeedforward(Message):
    """Have the controller add a table of currents whenever it plays this trajectory; None: no table any more.

    ``trajectory`` is the file that will be played, ``table`` an .npz with ``period`` (s) and ``current`` (N, n) A.
    """

    type: Literal["load-feedforward"] = "load-feedforward"
    call: int
    trajectory: Path | None
    table: Path | None


class Shutdown(Message):
    type: Literal["shutdown"] = "shutdown"


ToHost = Annotated[
    Configure | Heartbeat | Play | Stop | Recover | LoadFeedforward | Shutdown, Field(discriminator="type")
]


# --- host -> service -----------------------------------------------------------------------------------


class Report(Message):
    """The host's share of `DeviceStatus`, sent every 100 ms and on every change."""

    type: Literal["report"] = "report"
    connection: Connection
    reason: str | None
    ring_epoch: int
    n_joints: int
    samples: int
    lost: int
    sample_age_ms: float | None
    realtime: str
    controller: ControllerStatus
    motion: MotionState
    motion_id: str | None


class Done(Message):
    """Call number ``call`` has succeeded; ``version`` is what the controller calls what it was given, if anything."""

    type: Literal["done"] = "done"
    call: int
    version: int | None = None


class Failed(Message):
    """Call number ``call`` was refused or failed."""

    type: Literal["failed"] = "failed"
    call: int
    code: str
    detail: str
    context: dict[str, Any] = {}


FromHost = Annotated[
    Report | Done | Failed | MotionStarted | MotionProgress | MotionFinished,
    Field(discriminator="type"),
]

to_host: TypeAdapter[ToHost] = TypeAdapter(ToHost)
from_host: TypeAdapter[FromHost] = TypeAdapter(FromHost)


def line(message: Message) -> bytes:
    """Return ``message`` as one line."""
    return message.model_dump_json().encode() + b"\n"
