"""Jobs that compute with recordings: parameters, their verdict, tables, payload, drive gains."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.jobs.models.common import JobKind, JobModel, PerJoint, Positive, RecordingIds, SignalRequest, StopMargin
from service.jobs.models.parallel import SensorFigures

Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class IdentifyRequest(JobModel):
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
    sensors: Annotated[
        SensorFigures | None,
        Field(
            description="Of a parallel robot: tares and gains that are taken out of measured forces, and the gravity "
            "that goes with them; validation of the result does the same. null: forces are what sensors show."
        ),
    ] = None
    signals: SignalRequest = SignalRequest()
    moving_threshold: Annotated[Positive, Field(description="A joint faster than this moves, rad/s.")] = 0.02
    stop_margin: StopMargin = "auto"
    preferred: list[str] = Field(
        default_factory=list, max_length=1000, description="Standard parameters to build base parameters around."
    )
    without: list[str] = Field(
        default_factory=list, max_length=1000, description="Base parameters taken for zero: those the data do not tell."
    )
    random_state: Annotated[int, Field(ge=0, description="Seed of the search for shapes of friction.")] = 0


class IdentifyResult(JobModel):
    """A candidate result was stored; its figures on the training data."""

    kind: Literal[JobKind.IDENTIFY] = JobKind.IDENTIFY
    result_id: str
    base_parameters: int
    condition_number: float
    normalised_condition_number: Annotated[float, Field(description="With columns of length one.")]
    rms: Annotated[list[float | None], Field(description="Residual on the training data per joint, N·m (or A).")]


class ValidationCriteria(JobModel):
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


class ValidateRequest(JobModel):
    """Judge a candidate result on other recordings; VALIDATED if it meets the criteria."""

    kind: Literal[JobKind.VALIDATE] = JobKind.VALIDATE
    result_id: str
    recordings: RecordingIds
    criteria: ValidationCriteria = ValidationCriteria()


class ValidateResult(JobModel):
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


class FeedforwardRequest(JobModel):
    """Build a torque table for a stored trajectory from a validated or active result."""

    kind: Literal[JobKind.FEEDFORWARD] = JobKind.FEEDFORWARD
    result_id: str
    trajectory_id: str
    cycle_time: Annotated[float, Field(gt=0, le=1, description="Controller cycle, s.")]


class FeedforwardResult(JobModel):
    """A table was stored."""

    kind: Literal[JobKind.FEEDFORWARD] = JobKind.FEEDFORWARD
    table_id: str
    version: int
    samples: int
    crc32: int


class PayloadRequest(JobModel):
    """Estimate what a robot carries, from runs with it and a result of the robot without it."""

    kind: Literal[JobKind.PAYLOAD] = JobKind.PAYLOAD
    result_id: Annotated[str, Field(description="Of the robot alone, in N·m; best with load-dependent friction.")]
    loaded: RecordingIds
    unloaded: list[str] = Field(
        default_factory=list, max_length=64, description="The same motion without the payload: makes it surer."
    )


class PayloadResult(JobModel):
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


class DriveGainsRequest(JobModel):
    """Estimate drive gains from runs with and without a payload that was weighed."""

    kind: Literal[JobKind.DRIVE_GAINS] = JobKind.DRIVE_GAINS
    result_id: Annotated[str, Field(description="Of the robot alone, from currents with nominal gains.")]
    loaded: RecordingIds
    unloaded: Annotated[RecordingIds, Field(description="Best of the same motion.")]
    payload_mass: Annotated[Positive, Field(description="kg")]
    payload_com: Annotated[
        tuple[float, float, float] | None, Field(description="In the last joint frame, m; gains get surer.")
    ] = None


class DriveGainsResult(JobModel):
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
