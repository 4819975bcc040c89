"""Jobs for parallel robots: their force sensors, and the drives between motor current and these."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from service.jobs.models.common import JobKind, JobModel, PerJoint, Positive, RecordingIds, SignalRequest, StopMargin


class SensorFigures(JobModel):
    """What force sensors make of forces, and how the robot stands, as `calibrate_sensors` finds it."""

    tare: Annotated[PerJoint, Field(description="What each sensor shows without load, N.")]
    gain: Annotated[list[Positive], Field(min_length=1, max_length=64, description="Shown over true.")]
    gravity: Annotated[tuple[float, float, float], Field(description="In the frame of the base, m/s².")]

    @model_validator(mode="after")
    def _agree(self) -> SensorFigures:
        if len(self.tare) != len(self.gain):
            raise ValueError(f"{len(self.tare)} tares and {len(self.gain)} gains; give one of each per sensor")
        return self


class KnownParameter(JobModel):
    """A base parameter that is known, such as the mass of a platform that was weighed."""

    name: str
    value: Positive


class CalibrateSensorsRequest(JobModel):
    """Find tare and gain of each force sensor and the direction of gravity, from motion that excites everything."""

    kind: Literal[JobKind.CALIBRATE_SENSORS] = JobKind.CALIBRATE_SENSORS
    robot: str
    recordings: RecordingIds
    known: Annotated[
        KnownParameter | None, Field(description="What gives the scale; null: the gains are one in the mean.")
    ] = None
    without: list[str] = Field(
        default_factory=list, max_length=1000, description="Base parameters taken for zero: those the data do not tell."
    )
    signals: SignalRequest = SignalRequest()


class CalibrateSensorsResult(JobModel):
    """What was found; nothing was stored or changed. `sensors` is what `identify` takes."""

    kind: Literal[JobKind.CALIBRATE_SENSORS] = JobKind.CALIBRATE_SENSORS
    joint_names: list[str]
    sensors: SensorFigures
    tare_std: list[float]
    gain_std: list[float]
    gravity_std: list[float]
    gauge: Annotated[str, Field(description="What the scale is taken from.")]
    residual_std: Annotated[list[float], Field(description="Left unexplained, N.")]
    normalised_condition_number: float
    covariance_kind: str


class LegDrivesRequest(JobModel):
    """Explain the motor currents of a parallel robot by the forces of a result of its sensors: gains, screw inertia
    and friction. What comes out is a candidate of its own, which predicts A."""

    kind: Literal[JobKind.LEG_DRIVES] = JobKind.LEG_DRIVES
    result_id: Annotated[str, Field(description="Of the sensors' forces, in N.")]
    recordings: Annotated[RecordingIds, Field(description="With motor current; those of that result will do.")]
    friction: Annotated[
        str | Annotated[list[str], Field(min_length=1, max_length=64)],
        Field(description="Of the cylinders: `law+term+...` for all legs, or one such text per leg."),
    ] = "coulomb_viscous"
    signals: SignalRequest = SignalRequest()
    stop_margin: StopMargin = "auto"


class LegDrivesResult(JobModel):
    """A candidate result was stored; per leg, with standard deviations."""

    kind: Literal[JobKind.LEG_DRIVES] = JobKind.LEG_DRIVES
    result_id: str
    gain: Annotated[list[float], Field(description="Force per motor current, N/A.")]
    gain_std: list[float]
    screw_inertia: Annotated[list[float], Field(description="Of screw and motor along the leg, kg.")]
    screw_inertia_std: list[float]
    rms: Annotated[list[float | None], Field(description="Residual on the training data, A.")]
