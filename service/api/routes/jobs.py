"""Jobs: ask for work, watch it, cancel it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Body, Header, Query, Request, Response, status
from fastapi.responses import StreamingResponse

from service.access import Role
from service.api.auditing import note
from service.api.auth import principal_of
from service.api.context import Context
from service.api.models import JobView, Page
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.api.permissions import OPERATORS_JOBS
from service.api.routes.robots import LeaseToken
from service.api.sse import Event, EventStream
from service.jobs.context import in_view
from service.jobs.models import JobKind, JobRequest, JobUpdate
from service.storage import jobs
from service.storage.states import JobState

router = APIRouter(prefix="/jobs", tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(min_length=1, max_length=255, description="The same key again returns the job made with it, not another."),
]


@router.post(
    "",
    summary="Submit a job",
    status_code=status.HTTP_202_ACCEPTED,
    responses={202: {"headers": {"Location": {"schema": {"type": "string"}}}}, **problems(404, 409, 429)},
)
async def submit_job(
    context: Context,
    http: Request,
    response: Response,
    request: Annotated[JobRequest, Body()],
    lease_token: LeaseToken = None,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Start work that takes longer than a request: `play`, `record`, `excite`, `identify`, `validate`, `feedforward`,
    `load_feedforward`, `payload`, `drive_gains`, and for parallel robots `calibrate_sensors`, `leg_drives`.

    Motion needs the permit armed and the lease's token, `load_feedforward` the lease's. 409 says what is in the way,
    429 that too much waits.
    """
    if request.kind not in OPERATORS_JOBS:
        principal_of(http).require(Role.ENGINEER, f"a job of the kind {request.kind}")
    robot = getattr(request, "robot", None)
    if robot is not None:
        context.robot(robot)
    note(http, kind=str(request.kind), robot=robot)
    job = await context.engine.submit(request.kind, request, idempotency_key=idempotency_key, lease_token=lease_token)
    note(http, job=job.id)
    response.headers["Location"] = context.path(f"/jobs/{job.id}")
    return JobView.model_validate(job)


@router.get("", summary="List jobs")
def list_jobs(
    context: Context,
    paging: Paging,
    robot: Annotated[str | None, Query(description="Only of this robot.")] = None,
    kind: Annotated[JobKind | None, Query(description="Only of this kind.")] = None,
    state: Annotated[list[JobState] | None, Query(description="Only in these states; may be repeated.")] = None,
) -> Page[JobView]:
    """Jobs, newest first."""
    with context.database.reading() as session:
        return page_of(
            JobView,
            paging,
            lambda limit, before: jobs.find(session, robot=robot, kind=kind, states=state, limit=limit, before=before),
        )


@router.get("/{job_id}", summary="Get a job", responses=problems(404))
async def get_job(context: Context, job_id: str) -> JobView:
    """How far a job is, and its result or error once it has ended."""
    live = context.engine.live(job_id)
    row = await in_view(context.database, jobs.get, job_id)
    view = JobView.model_validate(row)
    if live is None or row.ended_at is not None:
        return view
    # What is stored lags a little behind what is going on.
    present = {"state": JobState(live.state), "phase": live.phase, "progress": live.progress}
    return view.model_copy(update=present)


@router.post("/{job_id}/cancel", summary="Cancel a job", responses=problems(404, 409))
async def cancel_job(context: Context, job_id: str) -> JobView:
    """Ask a job to end. A motion is stopped; what it recorded so far is kept."""
    return JobView.model_validate(await context.engine.cancel(job_id))


@router.get(
    "/{job_id}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `job` (a `JobUpdate`) now and on every change. Ends with the job.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **problems(404, 429),
    },
)
def stream_job(context: Context, job_id: str) -> EventStream:
    """Progress as it happens."""
    with context.database.reading() as session:
        jobs.get(session, job_id)
    return EventStream(_updates(context, job_id), context.closing, context.streams)


async def _updates(context: Context, job_id: str) -> AsyncGenerator[Event]:
    update: JobUpdate
    async for update in context.engine.subscribe(job_id):
        yield Event("job", update)
