"""Robots: what they are, what they do now, who may move them, and stop."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response, status
from fastapi.responses import StreamingResponse

from service.access import in_sight
from service.api.conditional import not_modified
from service.api.context import Context, ServiceContext
from service.api.live import LARGEST_RATE, Signal, latest_sample, live_events
from service.api.long_poll import WaitFor
from service.api.models import (
    ActiveResult,
    LatestTable,
    LeaseBody,
    LeaseGrantView,
    LeaseRenewal,
    PermitView,
    RobotState,
    RobotStatus,
    RobotView,
    StopBody,
    WrenchView,
)
from service.api.openapi import problems
from service.api.robot_status import permit_view, status_etag
from service.api.sse import EventStream
from service.api.wrench import LARGEST_RATE as MOST_WRENCHES
from service.api.wrench import WrenchEstimator, wrench_events
from service.errors import ConflictError
from service.jobs.context import in_view
from service.motion import LeaseGrant, MotionGuard
from service.storage import feedforward, results
from service.storage.states import ResultState

DEFAULT_SIGNALS = [Signal.Q, Signal.QD, Signal.CURRENT]

router = APIRouter(prefix="/robots", tags=["robots"], responses=problems(404))

SensorResult = Annotated[str, Query(description="Of the platform's sensors, in N; validated.")]
LeaseToken = Annotated[str | None, Header(alias="Lease-Token", description="The token that came with the lease.")]


@router.get("", summary="List robots")
def list_robots(context: Context) -> list[RobotView]:
    """All robots of the settings, reachable or not."""
    return [_robot(context, name) for name in context.settings.robots if in_sight(name)]


@router.get("/{robot}", summary="Get a robot")
def get_robot(context: Context, robot: str) -> RobotView:
    """One robot: how it is configured and whether it is there."""
    return _robot(context, robot)


@router.get(
    "/{robot}/status",
    summary="Get the status",
    response_model=RobotStatus,
    responses={
        200: {"headers": {"ETag": {"description": "Weak; the same while nothing but counters and ages differ."}}},
        304: {"description": "The client has it already."},
        **problems(429),
    },
)
async def get_status(
    context: Context,
    request: Request,
    robot: str,
    wait: WaitFor,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Connection, motion, permit and lease. With If-None-Match and `wait`, answered when one of them changes."""
    context.guard(robot)  # refused if it is unknown

    async def nothing_new() -> bool:
        return not_modified(status_etag(context.status(robot)), if_none_match) is not None

    await context.long_polls.wait(request, nothing_new, wait.seconds)
    found = context.status(robot)
    etag = status_etag(found)
    headers = {"ETag": etag, "Cache-Control": "no-cache", **wait.headers}
    if (unchanged := not_modified(etag, if_none_match)) is not None:
        unchanged.headers.update(headers)

        async def still_so() -> bool:
            return status_etag(context.status(robot)) == etag

        return unchanged if wait.seconds else context.unchanged.remember(request, unchanged, still_so)
    return Response(found.model_dump_json(), media_type="application/json", headers=headers)


@router.get("/{robot}/state", summary="Get the live state")
async def get_state(context: Context, robot: str) -> RobotState:
    """Newest sample, connection, permit, lease, and what is in force."""
    summary = context.status(robot)
    sample = await asyncio.to_thread(latest_sample, summary.device)
    active, table = await asyncio.to_thread(_in_force, context, robot)
    return RobotState(
        robot=robot,
        virtual=context.robot(robot).virtual,
        **dict(summary),
        sample=sample,
        active_result=active,
        latest_table=table,
    )


@router.get(
    "/{robot}/state/stream",
    summary="Follow the live state",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `samples` (a `Frame`: minimum and maximum per joint since the frame "
            "before) and, when it changes, `status` (a `RobotStatus`).",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **problems(429),
    },
)
def stream_state(
    context: Context,
    robot: str,
    rate: Annotated[float, Query(gt=0, le=LARGEST_RATE, description="Frames per second.")] = 25.0,
    signal: Annotated[list[Signal], Query(description="Which signals; may be repeated.")] = DEFAULT_SIGNALS,
) -> EventStream:
    """Live samples, thinned; ends when the client goes or the service stops. Not a record: see recordings."""
    context.guard(robot)  # refused if it is unknown
    events = live_events(lambda: context.status(robot), rate, signal)
    return EventStream(events, context.closing, context.streams)


@router.get(
    "/{robot}/wrench/stream",
    summary="Follow the wrench on a platform",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `wrench` (a `WrenchView`), or `problem` (code and detail) while there "
            "is none.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **problems(409, 429),
    },
)
async def stream_wrench(
    context: Context,
    robot: str,
    result_id: SensorResult,
    rate: Annotated[float, Query(gt=0, le=MOST_WRENCHES, description="Estimates per second.")] = 10.0,
) -> EventStream:
    """What acts on a 6-UPRU platform from outside, by its force sensors, until the client goes or the service stops."""
    estimator = await _wrench_estimator(context, robot, result_id)
    return EventStream(wrench_events(estimator, rate), context.closing, context.streams)


@router.get("/{robot}/wrench", summary="Get the wrench on a platform", responses=problems(409))
async def get_wrench(context: Context, robot: str, result_id: SensorResult) -> WrenchView:
    """The newest estimate. 409 `wrench-unknown` while samples are missing."""
    return await (await _wrench_estimator(context, robot, result_id)).now()


@router.post(
    "/{robot}/lease",
    summary="Take the lease",
    status_code=status.HTTP_201_CREATED,
    responses=problems(409),
    tags=["motion"],
)
async def acquire_lease(context: Context, robot: str, body: LeaseBody) -> LeaseGrantView:
    """Become the one who may move the robot, for a limited time. 409 `lease-held` while somebody else is."""
    guard = context.guard(robot)
    seconds = context.settings.lease_seconds if body.seconds is None else body.seconds
    return _grant(guard, await guard.acquire_lease(body.holder, seconds))


@router.put("/{robot}/lease", summary="Renew the lease", responses=problems(409), tags=["motion"])
async def renew_lease(
    context: Context, robot: str, body: LeaseRenewal, lease_token: LeaseToken = None
) -> LeaseGrantView:
    """Let the lease last longer, counted from now. A motion whose lease lapses is stopped."""
    guard = context.guard(robot)
    return _grant(guard, guard.renew_lease(lease_token, body.seconds))


@router.delete(
    "/{robot}/lease",
    summary="Release the lease",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=problems(409),
    tags=["motion"],
)
async def release_lease(context: Context, robot: str, lease_token: LeaseToken = None) -> None:
    """End the lease; what moves under it is stopped, what was armed is disarmed."""
    await context.guard(robot).release_lease(lease_token)


@router.post("/{robot}/permit", summary="Arm", responses=problems(409), tags=["motion"])
async def arm(context: Context, robot: str, lease_token: LeaseToken = None) -> PermitView:
    """Allow the holder of the lease one motion. Lapses when it is not used."""
    guard = context.guard(robot)
    guard.arm(lease_token)
    return permit_view(guard)


@router.delete("/{robot}/permit", summary="Disarm", responses=problems(409), tags=["motion"])
async def disarm(context: Context, robot: str) -> PermitView:
    """Take an unused arm back; needs no lease."""
    guard = context.guard(robot)
    guard.disarm("disarmed by request")
    return permit_view(guard)


@router.post("/{robot}/stop", summary="Stop", responses=problems(502, 503, 504), tags=["motion"])
async def stop(context: Context, robot: str, body: StopBody | None = None) -> RobotStatus:
    """Stop the robot, whoever moves it, in any state; answers once it is at rest. Needs no lease.

    This is not an emergency stop: use the robot's own.
    """
    guard = context.guard(robot)
    await guard.stop("stopped by request" if body is None or body.reason is None else body.reason)
    return context.status(robot)


@router.post("/{robot}/fault/reset", summary="Reset a fault", responses=problems(409, 502, 503, 504), tags=["motion"])
async def reset_fault(context: Context, robot: str, lease_token: LeaseToken = None) -> PermitView:
    """Leave FAULTED, once whoever asks has seen to the robot. Nothing moves by it."""
    guard = context.guard(robot)
    await guard.reset(lease_token)
    return permit_view(guard)


async def _wrench_estimator(context: ServiceContext, robot: str, result_id: str) -> WrenchEstimator:
    device = context.guard(robot).device
    result = await in_view(context.database, results.get, result_id)
    if result.robot != robot:
        raise ConflictError(
            f"result {result_id} is of {result.robot}, not of {robot}", code="result-of-other-robot", id=result_id
        )
    results.require_usable(result)
    return await WrenchEstimator.open(context.executor, result, device)


def _grant(guard: MotionGuard, grant: LeaseGrant) -> LeaseGrantView:
    return LeaseGrantView(
        holder=grant.holder,
        fencing=grant.fencing,
        seconds_left=guard.lease.seconds_left,
        token=grant.token,
    )


def _robot(context: ServiceContext, name: str) -> RobotView:
    settings = context.robot(name)
    return RobotView(**settings.model_dump(), status=context.guard(name).device.status)


def _in_force(context: ServiceContext, robot: str) -> tuple[ActiveResult | None, LatestTable | None]:
    with context.database.reading() as session:
        active = results.find(session, robot=robot, state=ResultState.ACTIVE, limit=1)
        tables = feedforward.find(session, robot=robot, limit=1)
        return (
            ActiveResult.model_validate(active[0]) if active else None,
            LatestTable.model_validate(tables[0]) if tables else None,
        )
