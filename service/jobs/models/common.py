"""What requests and results of all kinds are made of."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.signals.settings import Kinematics, Marked, OnGap, Periods, TorqueFilter, Velocity

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PerJoint = Annotated[list[float], Field(min_length=1, max_length=64)]
RecordingIds = Annotated[list[str], Field(min_length=1, max_length=64)]
StopMargin = Annotated[
    Literal["auto"] | Annotated[float, Field(ge=0, allow_inf_nan=False)],
    Field(
        description="What is left out before the last moving sample of a recording, s; `auto`: 0.25 s where it "
        "comes to rest with a jolt."
    ),
]


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
    CALIBRATE_SENSORS = "calibrate_sensors"
    LEG_DRIVES = "leg_drives"
    LOAD_FEEDFORWARD = "load_feedforward"
    CALIBRATE = "calibrate"


class JobModel(BaseModel):
    """Refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SignalRequest(JobModel):
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
