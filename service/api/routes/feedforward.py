"""Feedforward tables, for people, spreadsheets and controllers that poll."""

from __future__ import annotations

import zlib
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from service.api.conditional import not_modified
from service.api.context import Context
from service.api.models import Page, TableSummary, TableView
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.api.representations import (
    MEDIA_TYPES,
    TableFormat,
    TableQuantity,
    choose_format,
    encode,
    etag_of,
)
from service.storage import feedforward

router = APIRouter(prefix="/feedforward-tables", tags=["feedforward tables"])

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


@router.get("", summary="List feedforward tables")
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


@router.get("/{table_id}", summary="Get a feedforward table", response_model=TableView, responses=_RESPONSES)
def get_table(
    context: Context,
    table_id: str,
    format: Annotated[TableFormat | None, Query(description="Takes precedence over the Accept header.")] = None,
    quantity: Annotated[TableQuantity, Query(description="What the bare array holds.")] = TableQuantity.TORQUE,
    accept: Annotated[str, Header()] = "*/*",
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """One table as JSON, CSV or bare float32. Send its ETag as If-None-Match to be told that nothing changed."""
    form = choose_format(format, accept)
    with context.database.reading() as session:
        table = feedforward.get(session, table_id)
    etag = etag_of(table, form, quantity)
    if (unchanged := not_modified(etag, if_none_match)) is not None:
        return unchanged
    described = TableSummary.model_validate(table).model_dump(mode="json")
    body = encode(table, described, form, quantity)
    return Response(
        body,
        media_type=MEDIA_TYPES[form],
        headers={
            "ETag": etag,
            "Vary": "Accept",
            "Cache-Control": "no-cache",
            "Dynid-Shape": f"{table.samples},{table.n_joints}",
            "Dynid-Cycle-Time": f"{table.cycle_time:.9g}",
            "Dynid-Version": str(table.version),
            "Dynid-CRC32": str(zlib.crc32(body) if form is TableFormat.BINARY else table.crc32),
        },
    )
