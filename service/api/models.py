"""What the API answers with. Times are UTC, units SI, identifiers sort by time of creation."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.access import Role
from service.devices import DeviceStatus
from service.jobs.models import JobKind, JobProblem
from service.motion.permit import PermitState
from service.settings import RobotName
from service.storage.states import JobState, RecordingState, ResultState

T = TypeVar("T")


class Body(BaseModel):
    """A request body: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class View(BaseModel):
    """Something stored, made from its database row."""

    model_config = ConfigDict(from_attributes=True)

    id: Annotated[str, Field(examples=["rec_01JDZ3K8QW5V7N2M4P6R8T0XYZ"])]


class Page(BaseModel, Generic[T]):
    """Part of a list, newest first."""

    items: list[T]
    next: Annotated[str | None, Field(description="Send as `before` to get the next page; null at the end.")]


class RecordingView(View):
    """A recorded file and what is known about it."""

    robot: Annotated[str, Field(examples=["cell1"])]
    state: RecordingState
    reason: Annotated[str | None, Field(description="Why it was salvaged or failed.")]
    sha256: str | None
    bytes: int | None
    samples: int | None
    lost: Annotated[int | None, Field(description="Samples that never arrived, by the controller's count.")]
    lapped: Annotated[int | None, Field(description="Samples overwritten before they could be stored.")]
    started_at: datetime
    ended_at: datetime | None
    job_id: str | None
    model_digest: str | None
    details: dict[str, Any]


class TrajectorySummary(View):
    """A stored motion."""

    name: Annotated[str, Field(examples=["excitation A"])]
    robot: str | None
    n_joints: int
    duration: Annotated[float, Field(description="s")]
    digest: Annotated[str, Field(description="SHA-256 of the definition.")]
    created_at: datetime


class TrajectoryView(TrajectorySummary):
    """A stored motion with its definition."""

    definition: dict[str, Any]


class TrajectoryBody(Body):
    """A motion to store."""

    name: Annotated[str, Field(min_length=1, max_length=255, examples=["excitation A"])]
    robot: Annotated[str | None, Field(description="The robot it is meant for; null: any.")] = None
    ready_made: Annotated[
        str | None,
        Field(description="Name of a motion that comes with dynid, instead of a definition.", examples=[None]),
    ] = None
    definition: Annotated[
        dict[str, Any] | None,
        Field(
            description="As `Trajectory.definition()` writes it: the family and its parameters.",
            examples=[
                {
                    "family": "fourier_quintic",
                    "period": 10.0,
                    "a": [[0.2, 0.1]],
                    "b": [[0.0, 0.1]],
                    "start": [0.0],
                    "end": [0.0],
                }
            ],
        ),
    ] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.ready_made is None) == (self.definition is None):
            raise ValueError("give either a definition or the name of a ready_made motion")
        return self


class JobView(View):
    """A job and how far it is."""

    kind: JobKind
    robot: str | None
    state: JobState
    phase: str | None
    progress: Annotated[float, Field(ge=0, le=1, description="Of the whole job.")]
    request: dict[str, Any]
    result: dict[str, Any] | None
    error: JobProblem | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class ResultSummary(View):
    """An identification, without its numbers."""

    robot: str
    kind: str
    state: ResultState
    recording_ids: list[str]
    settings: dict[str, Any]
    validation: Annotated[dict[str, Any] | None, Field(description="The last verdict on it, passed or not.")]
    job_id: str | None
    created_at: datetime
    activated_at: datetime | None
    supersedes_id: Annotated[str | None, Field(description="What a roll-back would make active again.")]


class ResultView(ResultSummary):
    """An identification with its numbers: the document stands alone, model included."""

    document: dict[str, Any]


class TableSummary(View):
    """A feedforward table, without its numbers."""

    robot: str
    version: Annotated[int, Field(description="Counts per robot, from 1.")]
    result_id: str
    trajectory_id: str
    cycle_time: Annotated[float, Field(description="s")]
    samples: int
    n_joints: int
    crc32: Annotated[int, Field(description="Of the torque as float32, little endian, row by row.")]
    digest: str
    document: dict[str, Any]
    created_at: datetime


class TableView(TableSummary):
    """A feedforward table with its numbers, one row per controller cycle and one column per joint."""

    torque: Annotated[list[list[float]], Field(description="N·m (N for prismatic joints)")]
    current: Annotated[list[list[float]] | None, Field(description="A; null without drive gains.")]


class PermitView(BaseModel):
    """The permit: whether the robot may move at all."""

    state: PermitState
    reason: Annotated[str, Field(description="Why it is in this state.")]
    armed_seconds_left: Annotated[float | None, Field(description="Until an unused arm lapses, s.")]


class LeaseView(BaseModel):
    """The lease as everybody may see it."""

    holder: str
    fencing: Annotated[int, Field(description="Grows with every grant, also across restarts.")]
    seconds_left: float


class LeaseGrantView(LeaseView):
    """The lease as its holder is given it."""

    token: Annotated[str, Field(description="Secret; send it in the header Lease-Token.")]


class LeaseBody(Body):
    """Who wants to move the robot, for how long."""

    holder: Annotated[str, Field(min_length=1, max_length=255, examples=["identification bench"])]
    seconds: Annotated[float | None, Field(description="Time to live; null: the service's default.")] = None


class LeaseRenewal(Body):
    """How long the lease lasts from now."""

    seconds: Annotated[float | None, Field(description="null: as long as first granted.")] = None


class StopBody(Body):
    """Why it is stopped, for the log."""

    reason: Annotated[str | None, Field(max_length=500, examples=["someone entered the cell"])] = None


PerJoint = Annotated[list[float | None], Field(description="One per joint; null where not measured.")]


class SampleView(BaseModel):
    """One sample, as it came from the controller. Angles in rad, rad/s; currents in A; torques in N·m."""

    sequence: Annotated[int, Field(description="Controller cycles since the connection was made.")]
    controller_time: Annotated[float, Field(description="The controller's clock, s.")]
    age_ms: Annotated[float, Field(description="Since it arrived at this host, ms.")]
    flags: list[str]
    signals: dict[str, PerJoint]


class Envelope(BaseModel):
    """Extremes over a frame."""

    minimum: PerJoint
    maximum: PerJoint


class Frame(BaseModel):
    """What happened since the frame before."""

    sequence: Annotated[int, Field(description="Of the last sample in it.")]
    controller_time: Annotated[float, Field(description="Of the last sample in it, s.")]
    samples: Annotated[int, Field(description="How many samples it summarises.")]
    lost: Annotated[int, Field(description="Samples that never arrived meanwhile.")]
    lapped: Annotated[int, Field(description="Samples overwritten before this stream looked at them.")]
    flags: Annotated[list[str], Field(description="Set at any time during the frame.")]
    signals: dict[str, Envelope]


class WrenchView(BaseModel):
    """What acts on a platform from outside, payload that its model does not know of included."""

    controller_time: Annotated[float, Field(description="That it is for, s.")]
    delay: Annotated[float, Field(description="By which that is before the newest sample, s.")]
    wrench: Annotated[
        list[float],
        Field(description="Force x y z, N, and moment x y z about the platform's origin, N·m, in the base's frame."),
    ]
    std: Annotated[list[float], Field(description="Standard deviations, from the residuals of the result's forces.")]


class RobotView(BaseModel):
    """A robot as it is configured, and whether it is there."""

    name: Annotated[str, Field(examples=["cell1"])]
    driver: Annotated[str, Field(examples=["universal_robots"])]
    host: str
    model: Annotated[str, Field(description="Catalogue name or file of its nominal model.", examples=["ur10e"])]
    virtual: Annotated[bool, Field(description="Simulated: nothing real moves.")]
    motion_enabled: Annotated[bool, Field(description="Whether the settings let it be moved at all.")]
    rate_hz: float
    status: DeviceStatus


class DriftView(BaseModel):
    """The live stream beside the result in force, joint by joint."""

    model_config = ConfigDict(from_attributes=True)

    result_id: str
    learned: Annotated[list[float], Field(description="Of what is usual, 0 to 1; a joint does not trip before.")]
    level: Annotated[list[float], Field(description="How near to tripping; at 1 it trips.")]
    tripped: Annotated[list[int], Field(description="Joints, from 1, that have drifted since the monitor started.")]
    trips: Annotated[int, Field(description="How often, since the service started.")]


class RobotStatus(BaseModel):
    """Connection and motion, permit, lease."""

    device: DeviceStatus
    permit: PermitView
    lease: Annotated[LeaseView | None, Field(description="null: nobody holds it.")]
    drift: Annotated[
        DriftView | None, Field(description="null: not switched on, nothing to compare with, or nothing said yet.")
    ] = None


class ActiveResult(View):
    """Which identification is in force; the whole of it is under /results."""

    activated_at: datetime | None


class LatestTable(View):
    """Which feedforward table is the newest; the whole of it is under /feedforward-tables."""

    version: int
    result_id: str
    trajectory_id: str
    crc32: int


class RobotState(RobotStatus):
    """Everything about a robot now."""

    robot: str
    virtual: bool
    sample: Annotated[SampleView | None, Field(description="The newest; null when none has arrived.")]
    active_result: Annotated[ActiveResult | None, Field(description="The identification in force.")]
    latest_table: Annotated[LatestTable | None, Field(description="The newest feedforward table.")]


class Health(BaseModel):
    """The process is there and answers."""

    status: Annotated[str, Field(examples=["alive"])] = "alive"


class Check(BaseModel):
    """One thing that the service depends on."""

    name: Annotated[str, Field(examples=["robot cell1"])]
    ready: bool
    reason: Annotated[str | None, Field(description="What is missing.")] = None


class Readiness(BaseModel):
    """Whether everything that was configured can be used now."""

    ready: bool
    checks: list[Check]


class KeyBody(Body):
    """A key to be made."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="Whom it is for.")]
    role: Role
    robots: Annotated[list[RobotName] | None, Field(max_length=256, description="For these only; absent: all.")] = None


class KeyView(View):
    """A key without the key."""

    name: str
    role: Role
    robots: list[str] | None
    created_at: datetime
    created_by: str
    revoked_at: datetime | None


class KeyGrant(KeyView):
    """A new key, told for the only time."""

    key: str


class AuditView(BaseModel):
    """A row of the audit; ``chain`` is the hash of the row before and of this one."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: datetime
    principal: str
    action: str
    robot: str | None
    request_id: str
    details: dict[str, Any]
    chain: str


class AuditPage(BaseModel):
    """Rows, newest first; ``next`` is the ``before`` of the page that follows."""

    items: list[AuditView]
    next: int | None


class AuditCheck(BaseModel):
    """Whether the chain holds, and its newest link."""

    intact: bool
    first_broken: int | None
    newest: int
    chain: str
