"""Trajectories: motions by their definitions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response, status

from core.excitation import catalogue, trajectory_from_definition
from service.api.context import Context
from service.api.models import Page, TrajectoryBody, TrajectorySummary, TrajectoryView
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.storage import trajectories

router = APIRouter(prefix="/trajectories", tags=["trajectories"])


@router.get("", summary="List trajectories")
def list_trajectories(
    context: Context,
    paging: Paging,
    robot: Annotated[str | None, Query(description="Only those meant for this robot.")] = None,
    name: Annotated[str | None, Query(description="Only those of this name.")] = None,
) -> Page[TrajectorySummary]:
    """Trajectories, newest first."""
    with context.database.reading() as session:
        return page_of(
            TrajectorySummary,
            paging,
            lambda limit, before: trajectories.find(session, robot=robot, name=name, limit=limit, before=before),
        )


@router.post(
    "",
    summary="Store a trajectory",
    status_code=status.HTTP_201_CREATED,
    responses={201: {"headers": {"Location": {"schema": {"type": "string"}}}}, **problems(404)},
)
def create_trajectory(context: Context, body: TrajectoryBody, response: Response) -> TrajectoryView:
    """Store a motion after checking that its definition is one. Limits are checked when it is played."""
    if body.robot is not None:
        context.robot(body.robot)
    if body.ready_made is not None:
        motion = catalogue(body.ready_made)
    else:
        motion = trajectory_from_definition(body.definition or {})
    with context.database.session() as session:
        row = trajectories.create(
            session,
            name=body.name,
            robot=body.robot,
            definition=motion.definition(),
            n_joints=motion.n_joints,
            duration=motion.duration,
        )
    response.headers["Location"] = context.path(f"/trajectories/{row.id}")
    return TrajectoryView.model_validate(row)


@router.get("/{trajectory_id}", summary="Get a trajectory", responses=problems(404))
def get_trajectory(context: Context, trajectory_id: str) -> TrajectoryView:
    """One motion with its definition."""
    with context.database.reading() as session:
        return TrajectoryView.model_validate(trajectories.get(session, trajectory_id))
