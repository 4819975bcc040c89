"""Identification results, and which of them is in force."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.api.context import Context
from service.api.models import Page, ResultSummary, ResultView
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.storage import results
from service.storage.states import ResultState

router = APIRouter(tags=["results"])


@router.get("/results", summary="List results")
def list_results(
    context: Context,
    paging: Paging,
    robot: Annotated[str | None, Query(description="Only of this robot.")] = None,
    state: Annotated[ResultState | None, Query(description="Only in this state.")] = None,
) -> Page[ResultSummary]:
    """Results, newest first, without their numbers."""
    with context.database.reading() as session:
        return page_of(
            ResultSummary,
            paging,
            lambda limit, before: results.find(session, robot=robot, state=state, limit=limit, before=before),
        )


@router.get("/results/{result_id}", summary="Get a result", responses=problems(404))
def get_result(context: Context, result_id: str) -> ResultView:
    """One result with its numbers, settings, provenance and validation."""
    with context.database.reading() as session:
        return ResultView.model_validate(results.get(session, result_id))


@router.post("/results/{result_id}/promote", summary="Put a result in force", responses=problems(404, 409))
def promote_result(context: Context, result_id: str) -> ResultSummary:
    """Make a validated result the robot's active one; the one before is superseded, and kept."""
    with context.database.session() as session:
        return ResultSummary.model_validate(results.activate(session, result_id))


@router.post("/robots/{robot}/results/rollback", summary="Go back to the result before", responses=problems(404, 409))
def roll_back_result(context: Context, robot: str) -> ResultSummary:
    """Undo the last promotion: the result that the active one superseded is active again."""
    context.robot(robot)
    with context.database.session() as session:
        return ResultSummary.model_validate(results.roll_back(session, robot))
