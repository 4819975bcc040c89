"""Identification results, and which of them is in force."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from service.api.conditional import not_modified
from service.api.context import Context
from service.api.models import Page, ResultSummary, ResultView
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.api.result_exports import MEDIA_TYPES, ExportFormat, etag_of, file_name
from service.jobs.context import in_view
from service.storage import results
from service.storage.states import ResultState

router = APIRouter(tags=["results"])

_EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {media: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()},
        "headers": {
            "ETag": {"description": "Strong; differs between results and formats.", "schema": {"type": "string"}},
            "Content-Disposition": {"description": "A name for the file.", "schema": {"type": "string"}},
        },
    },
    304: {"description": "The client has it already."},
    **problems(404),
}


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


@router.get(
    "/results/{result_id}/export",
    summary="Export a result",
    response_class=Response,
    responses=_EXPORTED,
)
async def export_result(
    context: Context,
    result_id: str,
    format: Annotated[
        ExportFormat,
        Query(
            description="`urdf` and `toml` (model file): the robot with inertials that bodies can have; `c`: a header "
            "with the torque function; `csv`: the parameters; `json`: the whole document."
        ),
    ],
    allow_deviation: Annotated[
        float | None,
        Query(
            ge=0,
            allow_inf_nan=False,
            description="Of `urdf` and `toml`: N·m (N) RMS that the torque of a joint may differ by from what was "
            "identified, where no bodies have the identified parameters. Absent: the joint's residual. Estimates by "
            "`consistent` never differ.",
        ),
    ] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """A result as a file for another program. 422 `deviation-too-large` says by how much it would differ."""
    result = await in_view(context.database, results.get, result_id)
    etag = etag_of(result_id, format, allow_deviation)
    if (unchanged := not_modified(etag, if_none_match)) is not None:
        return unchanged
    return Response(
        await context.exports.text(result.document, format, allow_deviation),
        media_type=MEDIA_TYPES[format],
        headers={
            "ETag": etag,
            "Cache-Control": "no-cache",
            "Content-Disposition": f'attachment; filename="{file_name(result_id, format)}"',
        },
    )


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
