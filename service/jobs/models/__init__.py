"""Requests and results of the jobs, one pair per kind, told apart by ``kind``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.jobs.models.common import JobKind, SignalRequest
from service.jobs.models.identification import (
    DriveGainsRequest,
    DriveGainsResult,
    FeedforwardRequest,
    FeedforwardResult,
    IdentifyRequest,
    IdentifyResult,
    PayloadRequest,
    PayloadResult,
    ValidateRequest,
    ValidateResult,
)
from service.jobs.models.motion import (
    CalibrateRequest,
    CalibrateResult,
    ExciteRequest,
    ExciteResult,
    LoadFeedforwardRequest,
    LoadFeedforwardResult,
    PlayRequest,
    PlayResult,
    RecordRequest,
    RecordResult,
)
from service.jobs.models.parallel import (
    CalibrateSensorsRequest,
    CalibrateSensorsResult,
    LegDrivesRequest,
    LegDrivesResult,
)
from service.jobs.models.update import JobProblem, JobUpdate, LogLine

__all__ = [
    "CalibrateRequest",
    "CalibrateResult",
    "CalibrateSensorsRequest",
    "CalibrateSensorsResult",
    "DriveGainsRequest",
    "DriveGainsResult",
    "ExciteRequest",
    "ExciteResult",
    "FeedforwardRequest",
    "FeedforwardResult",
    "IdentifyRequest",
    "IdentifyResult",
    "JobKind",
    "JobProblem",
    "JobRequest",
    "JobResult",
    "JobUpdate",
    "LegDrivesRequest",
    "LegDrivesResult",
    "LoadFeedforwardRequest",
    "LoadFeedforwardResult",
    "LogLine",
    "PayloadRequest",
    "PayloadResult",
    "PlayRequest",
    "PlayResult",
    "RecordRequest",
    "RecordResult",
    "SignalRequest",
    "ValidateRequest",
    "ValidateResult",
]

JobRequest = Annotated[
    PlayRequest
    | RecordRequest
    | ExciteRequest
    | IdentifyRequest
    | ValidateRequest
    | FeedforwardRequest
    | PayloadRequest
    | DriveGainsRequest
    | CalibrateSensorsRequest
    | LegDrivesRequest
    | LoadFeedforwardRequest
    | CalibrateRequest,
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
    | DriveGainsResult
    | CalibrateSensorsResult
    | LegDrivesResult
    | LoadFeedforwardResult
    | CalibrateResult,
    Field(discriminator="kind"),
]
