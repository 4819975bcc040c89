"""Calibrations: is a robot still the one that was identified? By a profile of the settings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response, status
from pydantic import BaseModel, ConfigDict, Field

from service.api.auditing import note
from service.api.context import Context
from service.api.models import JobView, Page
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.api.routes.jobs import IdempotencyKey
from service.api.routes.robots import LeaseToken
from service.jobs.calibration_profiles import calibrate_request
from service.jobs.context import in_view
from service.jobs.models import JobKind
from service.storage import jobs
from service.storage.states import JobState

router = APIRouter(prefix="/calibrations", tags=["calibrations"])


class CalibrationRequest(BaseModel):
    """Which robot, and by which profile of its settings."""

    model_config = ConfigDict(extra="forbid")

    robot: Annotated[str, Field(min_length=1, max_length=100)]
    profile: Annotated[str, Field(min_length=1, max_length=100, description="Under [robots.NAME.calibration].")]


@router.post(
    "",
    summary="Calibrate a robot",
    status_code=status.HTTP_202_ACCEPTED,
    responses={202: {"headers": {"Location": {"schema": {"type": "string"}}}}, **problems(404, 409, 429)},
)
async def start_calibration(
    context: Context,
    http: Request,
    response: Response,
    request: Annotated[CalibrationRequest, Body()],
    lease_token: LeaseToken = None,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """**The robot moves** along the profile's trajectory, and is compared, joint by joint, with its result in force.

    Needs the permit armed and the lease's token, like any motion. The job's result is `accepted` or `flagged`, and says
    what has changed: friction, payload or a sensor, and of which joint.
    """
    robot = context.robot(request.robot)
    note(http, robot=request.robot, profile=request.profile)
    asked = await in_view(context.database, calibrate_request, robot, request.profile)
    job = await context.engine.submit(
        JobKind.CALIBRATE, asked, idempotency_key=idempotency_key, lease_token=lease_token
    )
    note(http, job=job.id)
    response.headers["Location"] = context.path(f"/jobs/{job.id}")
    return JobView.model_validate(job)


@router.get("", summary="List calibrations")
def list_calibrations(
    context: Context,
    paging: Paging,
    robot: Annotated[str | None, Query(description="Only of this robot.")] = None,
    state: Annotated[list[JobState] | None, Query(description="Only in these states; may be repeated.")] = None,
) -> Page[JobView]:
    """The jobs that calibrated, newest first."""
    with context.database.reading() as session:
        return page_of(
            JobView,
            paging,
            lambda limit, before: jobs.find(
                session, robot=robot, kind=JobKind.CALIBRATE, states=state, limit=limit, before=before
            ),
        )
