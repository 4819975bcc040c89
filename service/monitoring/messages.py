"""What the monitor process is told, and says: one JSON document a line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class MonitorOrder(BaseModel):
    """Which ring to read at which rate, and the document of the model in force to compare it with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ring: Path
    document: Path
    rate: float


class JointTrip(BaseModel):
    """A joint that has drifted, as `core.pipelines.drift_monitor.Trip`; joints count from 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    joint: int
    kind: Literal["offset", "friction"]
    torque: float


class MonitorReport(BaseModel):
    """How the monitor stands: joint by joint what is learned and how near to tripping, and what tripped just now."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    learned: list[float]
    level: list[float]
    trips: list[JointTrip] = Field(default_factory=list)
