"""Requests and results of the jobs, one pair per kind, told apart by ``kind``.

Every field that makes a robot move has to be written out by whoever asks: those have no default.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.signals.settings import Kinematics, Marked, OnGap, Periods, TorqueFilter, Velocity

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
PerJoint = Annotated[list[float], Field(min_length=1, max_length=64)]
RecordingIds = Annotated[list[str], Field(min_length=1, max_length=64)]


class JobKind(StrEnum):
    """What a job does."""

    PLAY = "play"
    RECORD = "record"
    EXCITE = "excite"
    IDENTIFY = "identify"
    VALIDATE = "validate"
    FEEDFORWARD = "feedforward"
    PAYLOAD = "payload"
    DRIVE_GAINS = "drive_gains"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ApproachRequest(_Model):
    """How to reach the first pose of the trajectory: one joint-space move."""

    speed: Annotated[Positive, Field(description="Of the fastest joint, rad/s.")]
    acceleration: Annotated[Positive, Field(description="Of the fastest joint, rad/s².")]


class PlayRequest(_Model):
    """Move a robot along a stored trajectory, once. Needs the permit armed and the lease."""

    kind: Literal[JobKind.PLAY] = JobKind.PLAY
    robot: str
    trajectory_id: str
    approach: Annotated[
        ApproachRequest | None,
        Field(description="null: the robot must stand at the first pose already, and is refused if not."),
    ]
    record: Annotated[bool, Field(description="Keep a recording of exactly this motion.")] = True


class PlayResult(_Model):
    """What was played. A motion that was stopped has a result too, and its recording is kept."""

    kind: Literal[JobKind.PLAY] = JobKind.PLAY
    recording_id: str | None
    outcome: Literal["completed", "stopped", "faulted"]
    reason: str
    cycles: Annotated[int, Field(description="Set-points sent.")]
    late_cycles: Annotated[int, Field(description="Cycles that passed without a set-point; the path waits for them.")]
    max_tracking_error: Annotated[
        list[float], Field(description="Largest |target - actual| per joint, rad; empty if it never began.")
    ]
    limit_use: Annotated[
        dict[str, list[float]],
        Field(description="Share of each limit that the trajectory uses, per joint; 1 = at the limit."),
    ]


class RecordRequest(_Model):
    """Record a robot for a while, whatever it does."""

    kind: Literal[JobKind.RECORD] = JobKind.RECORD
    robot: str
    duration: Annotated[float, Field(gt=0, le=86400, description="s", allow_inf_nan=False)]


class RecordResult(_Model):
    """A finished recording."""

    kind: Literal[JobKind.RECORD] = JobKind.RECORD
    recording_id: str
    samples: int
    lost: int


class ExciteLimits(_Model):
    """What a designed motion keeps to. Joint limits that are absent are those of the robot's model, and stated
    ones can only tighten them."""

    start: Annotated[PerJoint, Field(description="Pose at the start, rad.")]
    end: Annotated[PerJoint | None, Field(description="Pose at the end, rad; null: as at the start.")] = None
    position_lower: Annotated[PerJoint | None, Field(description="rad")] = None
    position_upper: Annotated[PerJoint | None, Field(description="rad")] = None
    velocity: Annotated[PerJoint | None, Field(description="rad/s")] = None
    acceleration: Annotated[PerJoint | None, Field(description="rad/s²")] = None
    jerk: Annotated[PerJoint | None, Field(description="rad/s³")] = None
    torque: Annotated[PerJoint | None, Field(description="Predicted by the nominal model, N·m.")] = None
    floor: Annotated[
        float | None, Field(allow_inf_nan=False, description="Height that no moving link falls below, m.")
    ] = None
    self_collision: Annotated[
        float | None, Field(ge=0, allow_inf_nan=False, description="Least distance between links, m.")
    ] = None
    box: Annotated[list[list[float]] | None, Field(description="Least and largest x, y, z of the tool point, m.")] = (
        None
    )
    radii: Annotated[
        PerJoint | None, Field(description="Of the capsules around the base and every link, m; null: from geometry.")
    ] = None


class ExciteRequest(_Model):
    """Design an excitation trajectory for a robot and store it. Moves nothing."""

    kind: Literal[JobKind.EXCITE] = JobKind.EXCITE
    robot: str
    name: Annotated[str, Field(min_length=1, max_length=200, description="Of the trajectory that is stored.")]
    limits: ExciteLimits
    family: Literal["fourier_quintic", "fourier", "bspline", "fourier_segments"] = "fourier_quintic"
    harmonics: Annotated[int, Field(ge=1, le=50)] = 5
    period: Annotated[
        float, Field(gt=0, le=600, description="Of the trajectory, or of each segment, s.", allow_inf_nan=False)
    ] = 20.0
    criterion: Literal["cond", "cond_normalised", "d_optimal", "a_optimal", "coman"] = "cond"
    friction: Annotated[
        str | Annotated[list[str], Field(min_length=1, max_length=64)] | None,
        Field(description="Velocity law whose columns count too, or one per joint; null: base parameters only."),
    ] = "coulomb_viscous"
    rotor_inertia: Annotated[bool, Field(description="Reflected rotor inertias are columns too.")] = False
    optimizer: Literal["interior_point", "slsqp", "cma_es", "genetic"] = "interior_point"
    segments: Annotated[int, Field(ge=1, le=20, description="Of fourier_segments.")] = 3
    time_budget: Annotated[float, Field(gt=0, le=3600, description="s", allow_inf_nan=False)] = 60.0
    seed: Annotated[int, Field(ge=0)] = 0
    warm_start: Annotated[str | None, Field(description="Trajectory to begin with.")] = None


class ExciteResult(_Model):
    """A trajectory was stored; it keeps every limit on a 1 ms grid. A search that was cancelled, or ran out of time,
    has a result too: the best it had found."""

    kind: Literal[JobKind.EXCITE] = JobKind.EXCITE
    trajectory_id: str
    value: Annotated[float, Field(description="Of the criterion.")]
    condition_number: float
    condition_number_normalised: Annotated[float, Field(description="With columns of length one.")]
    limit_use: Annotated[
        dict[str, list[float]], Field(description="Share of each limit that is used, per joint; 1 = at the limit.")
    ]
    least_clearance: Annotated[
        float | None, Field(description="Least room to floor, box and self-collision, m; null: none was limited.")
    ]
    candidates: Annotated[int, Field(description="Trajectories that were considered.")]


class SignalRequest(_Model):
    """What is done to the signals before anything is estimated; absent fields take the pipeline's defaults.

    The fields are those of ``core.signals.SignalSettings``.
    """

    rate: Annotated[Positive | None, Field(description="Rows per second that enter the estimate, Hz.")] = None
    order: Annotated[int | None, Field(ge=1, le=10, description="Of the zero-phase Butterworth filters.")] = None
    torque_cutoff: Annotated[Positive | None, Field(description="On torque and regressor alike, Hz.")] = None
    kinematic_cutoff: Annotated[Positive | None, Field(description="On position and velocity, Hz.")] = None
    velocity: Annotated[Velocity | None, Field(description="Where velocity comes from.")] = None
    max_gap: Annotated[Positive | None, Field(description="Longest gap that is interpolated, s.")] = None
    on_gap: Annotated[OnGap | None, Field(description="What a longer gap means.")] = None
    torque_filter: Annotated[TorqueFilter | None, Field(description="Of torque and regressor alike.")] = None
    smoothing_passes: Annotated[int | None, Field(ge=1, le=10_000, description="Of `five_point_cubic`.")] = None
    delay: Annotated[
        float | None, Field(allow_inf_nan=False, description="By which torque lags behind position, s.")
    ] = None
    marked: Annotated[
        Marked | None, Field(description="What becomes of outliers and frozen samples: told, left out, not looked for.")
    ] = None
    period: Annotated[Positive | None, Field(description="Of a repeated excitation, s.")] = None
    periods: Annotated[Periods | None, Field(description="`averaged`: periods are replaced by their mean.")] = None
    skipped_periods: Annotated[int | None, Field(ge=0, description="At the start, before averaging.")] = None
    kinematics: Annotated[
        Kinematics | None, Field(description="`fourier`: position refitted by a Fourier series of `period`.")
    ] = None
    fourier_order: Annotated[int | None, Field(ge=1, le=100, description="Harmonics of that series.")] = None

    def settings(self) -> dict[str, Any]:
        """Return what is stated, as ``SignalSettings.from_document`` takes it."""
        return self.model_dump(exclude_none=True)


class IdentifyRequest(_Model):
    """Estimate base and friction parameters from recordings of one robot."""

    kind: Literal[JobKind.IDENTIFY] = JobKind.IDENTIFY
    robot: str
    recordings: RecordingIds
    gains: Annotated[
        Literal["from-recording", "configured"] | PerJoint,
        Field(
            description="Drive gains, N·m/A per joint; 'from-recording': the controller's own, read from target "
            "torque over target current at rest; 'configured': `drive_gains` of the robot's settings, or else "
            "its model's."
        ),
    ]
    friction: Annotated[
        str | Annotated[list[str], Field(min_length=1, max_length=64)],
        Field(
            description="`law+term+...` for all joints, or one such text per joint; `auto`: what predicts left-out "
            "recordings best."
        ),
    ] = "coulomb_viscous"
    cross_validate: Annotated[bool, Field(description="Score the result on recordings left out in turn.")] = False
    estimator: str = "wls"
    rotor_inertia: Annotated[bool, Field(description="Identify reflected rotor inertias too.")] = False
    signals: SignalRequest = SignalRequest()


class IdentifyResult(_Model):
    """A candidate result was stored; its figures on the training data."""

    kind: Literal[JobKind.IDENTIFY] = JobKind.IDENTIFY
    result_id: str
    base_parameters: int
    condition_number: float
    rms: Annotated[list[float | None], Field(description="Residual on the training data per joint, N·m (or A).")]


class ValidationCriteria(_Model):
    """What a result has to reach on recordings it has not seen; judged on moving samples, joint by joint."""

    max_relative_residual: Annotated[
        Share | Annotated[list[Share], Field(min_length=1, max_length=64)],
        Field(
            description="Largest RMS of the residual over RMS of the measured torque; one for all joints or "
            "one per joint. At 1 no model is as good. The default of 0.5 only tells a model from none: state "
            "what the use needs."
        ),
    ] = 0.5
    min_moving_samples: Annotated[
        int, Field(ge=1, description="Fewer moving samples of a joint than this prove nothing about it.")
    ] = 200


class ValidateRequest(_Model):
    """Judge a candidate result on other recordings; VALIDATED if it meets the criteria."""

    kind: Literal[JobKind.VALIDATE] = JobKind.VALIDATE
    result_id: str
    recordings: RecordingIds
    criteria: ValidationCriteria = ValidationCriteria()


class ValidateResult(_Model):
    """The verdict, also kept with the result. Not passing is an outcome, not an error."""

    kind: Literal[JobKind.VALIDATE] = JobKind.VALIDATE
    result_id: str
    passed: bool
    reasons: Annotated[list[str], Field(description="Why not, joint by joint; empty when it passed.")]
    rms_moving: Annotated[
        list[float | None], Field(description="Residual per joint, N·m (or A); null where it never moved.")
    ]
    relative_moving: Annotated[
        list[float | None], Field(description="RMS of the residual over RMS of what was measured.")
    ]


class FeedforwardRequest(_Model):
    """Build a torque table for a stored trajectory from a validated or active result."""

    kind: Literal[JobKind.FEEDFORWARD] = JobKind.FEEDFORWARD
    result_id: str
    trajectory_id: str
    cycle_time: Annotated[float, Field(gt=0, le=1, description="Controller cycle, s.")]


class FeedforwardResult(_Model):
    """A table was stored."""

    kind: Literal[JobKind.FEEDFORWARD] = JobKind.FEEDFORWARD
    table_id: str
    version: int
    samples: int
    crc32: int


class PayloadRequest(_Model):
    """Estimate what a robot carries, from runs with it and a result of the robot without it."""

    kind: Literal[JobKind.PAYLOAD] = JobKind.PAYLOAD
    result_id: Annotated[str, Field(description="Of the robot alone, in N·m; best with load-dependent friction.")]
    loaded: RecordingIds
    unloaded: Annotated[
        list[str], Field(max_length=64, description="The same motion without the payload: makes it surer.")
    ] = []


class PayloadResult(_Model):
    """The payload. Parameters that the runs do not tell are not in `identified`, and are not to be relied on."""

    kind: Literal[JobKind.PAYLOAD] = JobKind.PAYLOAD
    frame: Annotated[str, Field(description="That all of it is given in.")]
    mass: Annotated[float, Field(description="kg")]
    mass_std: float
    centre: Annotated[list[float] | None, Field(description="Of mass, m; null where there is no mass.")]
    centre_std: list[float] | None
    inertia: Annotated[list[list[float]] | None, Field(description="About the centre of mass, kg·m².")]
    names: Annotated[list[str], Field(description="Of the ten parameters about the frame's origin.")]
    parameters: list[float]
    std: list[float]
    covariance: list[list[float]]
    covariance_kind: str
    identified: list[str]
    relations: Annotated[dict[str, str], Field(description="What a parameter stands for together with others.")]
    rms_without: Annotated[list[float], Field(description="Residual of the loaded runs without the payload, N·m.")]
    rms_with: Annotated[list[float], Field(description="The same with it.")]
    warnings: list[str]


class DriveGainsRequest(_Model):
    """Estimate drive gains from runs with and without a payload that was weighed."""

    kind: Literal[JobKind.DRIVE_GAINS] = JobKind.DRIVE_GAINS
    result_id: Annotated[str, Field(description="Of the robot alone, from currents with nominal gains.")]
    loaded: RecordingIds
    unloaded: Annotated[RecordingIds, Field(description="Best of the same motion.")]
    payload_mass: Annotated[Positive, Field(description="kg")]
    payload_com: Annotated[
        tuple[float, float, float] | None, Field(description="In the last joint frame, m; gains get surer.")
    ] = None


class DriveGainsResult(_Model):
    """The gains, N·m/A per joint; null for joints that hardly feel the payload. Nothing was stored or changed."""

    kind: Literal[JobKind.DRIVE_GAINS] = JobKind.DRIVE_GAINS
    joint_names: list[str]
    nominal: list[float]
    gains: list[float | None]
    std: list[float | None]
    payload: Annotated[dict[str, float], Field(description="Its parameters in the last joint frame, as found.")]
    disagreement: Annotated[
        float, Field(description="How many times further the joints are apart than noise explains.")
    ]
    covariance_kind: str
    warnings: list[str]


JobRequest = Annotated[
    PlayRequest
    | RecordRequest
    | ExciteRequest
    | IdentifyRequest
    | ValidateRequest
    | FeedforwardRequest
    | PayloadRequest
    | DriveGainsRequest,
    Field(discriminator="kind"),
]
JobResult = Annotated[
    PlayResult
    | RecordResult
    | ExciteResult
    | IdentifyResult
    | ValidateResult
    | FeedforwardResult
    | PayloadResult
    | DriveGainsResult,
    Field(discriminator="kind"),
]


class JobProblem(_Model):
    """Why a job did not succeed, in the form every error of the service has."""

    code: str
    detail: str
    context: dict[str, Any] = {}


class LogLine(_Model):
    """One line of a job's log."""

    time: str
    message: str


class JobUpdate(_Model):
    """A job as it stands, with the log lines that this subscriber has not had yet."""

    id: str
    kind: JobKind
    robot: str | None
    state: str
    phase: str
    progress: Annotated[float, Field(ge=0, le=1, description="Of the whole job.")]
    message: str
    log: list[LogLine]
    result: dict[str, Any] | None
    error: JobProblem | None
