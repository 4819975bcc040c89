"""A job as its followers see it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from service.jobs.models.common import JobKind, JobModel


class JobProblem(JobModel):
    """Why a job did not succeed, in the form every error of the service has."""

    code: str
    detail: str
    context: dict[str, Any] = Field(default_factory=dict)


class LogLine(JobModel):
    """One line of a job's log."""

    time: str
    message: str


class JobUpdate(JobModel):
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
