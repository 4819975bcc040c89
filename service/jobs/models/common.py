"""What requests and results of all kinds are made of."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
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


class JobModel(BaseModel):
    """Refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
