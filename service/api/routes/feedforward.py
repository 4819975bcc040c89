"""Feedforward tables, for people, spreadsheets and controllers that poll."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from service.api.context import Context
from service.api.long_poll import WaitFor
from service.api.models import Page, TableSummary, TableView
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.api.representations import MEDIA_TYPES, TableFormat, Wanted
from service.errors import NotFoundError
from service.storage import feedforward

TABLES = "/feedforward-tables"

router = APIRouter(tags=["feedforward tables"])

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The table. JSON and CSV have everything; the bare array is float32, little endian, one row "
        "per controller cycle, its shape in the header Dynid-Shape.",
        "content": {
            MEDIA_TYPES[TableFormat.CSV]: {
                "schema": {"type": "string"},
                "example": "time [s],torque 1 [N.m],torque 2 [N.m]\r\n0,1.25,-70.5\r\n",
            },
            MEDIA_TYPES[TableFormat.BINARY]: {"schema": {"type": "string", "format": "binary"}},
        },
        "headers": {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in {
                "ETag": "Strong; differs between tables and between representations.",
                "Dynid-Shape": "Rows and columns, as in `5000,6`.",
                "Dynid-Cycle-Time": "Time between rows, s.",
                "Dynid-Version": "The table's version number.",
                "Dynid-CRC32": "Of the bare array sent, as a decimal number; else `crc32` of the table.",
            }.items()
        },
    },
    304: {"description": "The client has it already."},
    **problems(404, 406),
}


@router.get(TABLES, summary="List feedforward tables")
def list_tables(
    context: Context,
    paging: Paging,
    robot: Annotated[str | None, Query(description="Only of this robot.")] = None,
    result_id: Annotated[str | None, Query(description="Only those built from this result.")] = None,
    trajectory_id: Annotated[str | None, Query(description="Only those for this trajectory.")] = None,
) -> Page[TableSummary]:
    """Tables, newest first, without their numbers."""
    with context.database.reading() as session:
        return page_of(
            TableSummary,
            paging,
            lambda limit, before: feedforward.find(
                session,
                robot=robot,
                result_id=result_id,
                trajectory_id=trajectory_id,
                limit=limit,
                before=before,
            ),
        )


@router.get(f"{TABLES}/{{table_id}}", summary="Get a feedforward table", response_model=TableView, responses=_RESPONSES)
def get_table(context: Context, request: Request, table_id: str, wanted: Wanted) -> Response:
    """One table as JSON, CSV or bare float32. Send its ETag as If-None-Match to be told that nothing changed."""
    with context.database.reading() as session:
        table = feedforward.get(session, table_id)
    if (unchanged := wanted.not_modified(table)) is not None:
        return context.unchanged.remember(request, unchanged, _for_ever)
    return wanted.represent(table)


@router.get(
    "/robots/{robot}/feedforward-table",
    summary="Get a robot's newest feedforward table",
    response_model=TableView,
    responses={**_RESPONSES, **problems(404, 406, 429)},
)
async def get_newest_table(context: Context, request: Request, robot: str, wanted: Wanted, wait: WaitFor) -> Response:
    """What to poll: with If-None-Match it is 304 until there is another table, and with `wait` that answer comes then.

    Asked for without If-None-Match, a table comes at once; `wait` is for the first one then.
    """
    context.robot(robot)
    newest = context.newest_tables

    async def nothing_new() -> bool:
        table = await newest.of(robot)
        return table is None or wanted.not_modified(table) is not None

    await context.long_polls.wait(request, nothing_new, wait.seconds)
    table = await newest.of(robot)
    if table is None:
        raise NotFoundError(
            f"{robot} has no feedforward table yet; a job of the kind 'feedforward' makes one",
            code="feedforward-table-not-found",
            robot=robot,
        )
    if (unchanged := wanted.not_modified(table)) is not None:
        unchanged.headers.update(wait.headers)

        async def still_newest() -> bool:
            return await newest.of(robot) is table

        return unchanged if wait.seconds else context.unchanged.remember(request, unchanged, still_newest)
    answer = await asyncio.to_thread(wanted.represent, table)
    answer.headers.update(wait.headers)
    return answer


async def _for_ever() -> bool:
    """A table is never changed and never deleted."""
    return True
