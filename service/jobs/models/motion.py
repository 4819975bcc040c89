"""Jobs that move a robot, listen to it, or design its motion.

Every field that makes a robot move has to be written out by whoever asks: those have no default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from service.jobs.models.common import JobKind, JobModel, PerJoint, Positive


class ApproachRequest(JobModel):
    """How to reach the first pose of the trajectory: one joint-space move."""

    speed: Annotated[Positive, Field(description="Of the fastest joint, rad/s (m/s).")]
    acceleration: Annotated[Positive, Field(description="Of the fastest joint, rad/s² (m/s²).")]


class PlayRequest(JobModel):
    """Move a robot along a stored trajectory, once. Needs the permit armed and the lease."""

    kind: Literal[JobKind.PLAY] = JobKind.PLAY
    robot: str
    trajectory_id: str
    approach: Annotated[
        ApproachRequest | None,
        Field(description="null: the robot must stand at the first pose already, and is refused if not."),
    ]
    record: Annotated[bool, Field(description="Keep a recording of exactly this motion.")] = True


class PlayResult(JobModel):
    """What was played. A motion that was stopped has a result too, and its recording is kept."""

    kind: Literal[JobKind.PLAY] = JobKind.PLAY
    recording_id: str | None
    outcome: Literal["completed", "stopped", "faulted"]
    reason: str
    cycles: Annotated[int, Field(description="Set-points sent.")]
    late_cycles: Annotated[int, Field(description="Cycles that passed without a set-point; the path waits for them.")]
    max_tracking_error: Annotated[
        list[float], Field(description="Largest |target - actual| per joint, rad (m); empty if it never began.")
    ]
    limit_use: Annotated[
        dict[str, list[float]],
        Field(description="Share of each limit that the trajectory uses, per joint; 1 = at the limit."),
    ]


class CalibrateRequest(JobModel):
    """Move a robot along a stored trajectory and compare it with its result in force, joint by joint. Needs the permit
    armed and the lease."""

    kind: Literal[JobKind.CALIBRATE] = JobKind.CALIBRATE
    robot: str
    trajectory_id: str
    approach: Annotated[
        ApproachRequest | None,
        Field(description="null: the robot must stand at the first pose already, and is refused if not."),
    ]
    level: Annotated[
        float,
        Field(
            gt=0,
            lt=0.5,
            allow_inf_nan=False,
            description="Probability that a robot that is as it was is flagged, by noise.",
        ),
    ] = 1e-3
    time_limit: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="s for all of it; later, it is stopped. null: only each phase."),
    ] = None


class CalibrateResult(JobModel):
    """Whether the robot is as it was identified; a flagged one goes on with the same result, for a person to judge."""

    kind: Literal[JobKind.CALIBRATE] = JobKind.CALIBRATE
    outcome: Literal["accepted", "flagged"]
    result_id: Annotated[str, Field(description="The result in force that it was compared with.")]
    recording_id: str
    summary: Annotated[str, Field(description="In words: friction of which joint, payload, or a sensor's gain.")]
    drift: Annotated[
        dict[str, Any],
        Field(description="Changes with their causes, joints, p-values and sizes; errors before and after, per joint."),
    ]


class LoadFeedforwardRequest(JobModel):
    """Hand a feedforward table to the robot's controller, which adds its currents whenever it plays the table's
    trajectory. Nothing moves, but the lease is needed, and no motion may be under way."""

    kind: Literal[JobKind.LOAD_FEEDFORWARD] = JobKind.LOAD_FEEDFORWARD
    robot: str
    table_id: Annotated[str | None, Field(description="null: nothing is added any more.")]


class LoadFeedforwardResult(JobModel):
    """The controller has the table, read back byte by byte and checked by its CRC; or none any more."""

    kind: Literal[JobKind.LOAD_FEEDFORWARD] = JobKind.LOAD_FEEDFORWARD
    controller_version: Annotated[int | None, Field(description="Which the table bears in the controller.")]
    rows: int
    standing_current: Annotated[
        list[float],
        Field(
            description="A per joint at the table's first row: what the controller's own loop holds already when the "
            "motion begins, so it is not added; the other rows are counted from it."
        ),
    ]


class RecordRequest(JobModel):
    """Record a robot for a while, whatever it does."""

    kind: Literal[JobKind.RECORD] = JobKind.RECORD
    robot: str
    duration: Annotated[float, Field(gt=0, le=86400, description="s", allow_inf_nan=False)]


class RecordResult(JobModel):
    """A finished recording."""

    kind: Literal[JobKind.RECORD] = JobKind.RECORD
    recording_id: str
    samples: int
    lost: int


class ExciteLimits(JobModel):
    """What a designed motion keeps to. Joint limits that are absent are those of the robot's model, and stated
    ones can only tighten them."""

    start: Annotated[
        PerJoint | None,
        Field(description="Pose at the start, rad (m); of a parallel robot that of its platform, null: its home."),
    ] = None
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
    joint_angle: Annotated[
        Positive | None, Field(description="Of a parallel robot's universal joints, from home to either side, rad.")
    ] = None
    condition: Annotated[
        float | None, Field(gt=1, allow_inf_nan=False, description="Largest of a parallel robot's scaled Jacobian.")
    ] = None


class ExciteRequest(JobModel):
    """Design an excitation trajectory for a robot and store it. Moves nothing.

    That of a parallel robot is one of its platform; limits per joint are those of its legs, m, m/s, m/s² and N.
    """

    kind: Literal[JobKind.EXCITE] = JobKind.EXCITE
    robot: str
    name: Annotated[str, Field(min_length=1, max_length=200, description="Of the trajectory that is stored.")]
    limits: ExciteLimits
    family: Literal["fourier_quintic", "fourier", "bspline", "fourier_segments", "fourier_free"] = "fourier_quintic"
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


class ExciteResult(JobModel):
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
