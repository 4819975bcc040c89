"""Keys, and the audit of what was done with them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, status

from service.api.auditing import note
from service.api.auth import principal_of
from service.api.context import Context
from service.api.models import AuditCheck, AuditPage, AuditView, KeyBody, KeyGrant, KeyView, Page
from service.api.openapi import problems
from service.api.paging import Paging, page_of
from service.errors import ForbiddenError
from service.storage import api_keys, audit

LARGEST_ROW = 2**63 - 1
"""Of a row's number in a database."""

router = APIRouter(tags=["access"], responses=problems(403))


@router.get("/keys", summary="List keys")
def list_keys(context: Context, paging: Paging) -> Page[KeyView]:
    """Names, roles and robots of all keys, revoked ones included; never the keys themselves."""
    with context.database.reading() as session:
        return page_of(KeyView, paging, lambda limit, before: api_keys.find(session, limit=limit, before=before))


@router.post("/keys", summary="Make a key", status_code=status.HTTP_201_CREATED, responses=problems(404, 409))
def create_key(context: Context, request: Request, body: KeyBody) -> KeyGrant:
    """The answer holds the key, for the only time."""
    for robot in body.robots or ():
        context.robot(robot)
    _refuse_wider(request, body)
    note(request, key=body.name, role=str(body.role), robots=body.robots)
    with context.database.session() as session:
        row, key = api_keys.create(
            session, name=body.name, role=body.role, robots=body.robots, created_by=principal_of(request).name
        )
        grant = KeyGrant(**KeyView.model_validate(row).model_dump(), key=key)
    context.keys.changed()
    return grant


@router.delete("/keys/{key_id}", summary="Revoke a key", responses=problems(404))
def revoke_key(context: Context, request: Request, key_id: str) -> KeyView:
    """It is of no use from now on. Its name stays taken, as the audit names it."""
    with context.database.session() as session:
        row = api_keys.revoke(session, key_id)
    note(request, key=row.name)
    context.keys.changed()
    return KeyView.model_validate(row)


@router.get("/audit", summary="Read the audit")
def list_audit(
    context: Context,
    request: Request,
    robot: Annotated[str | None, Query(description="Only of this robot.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Largest number of rows.")] = 100,
    before: Annotated[
        int | None, Query(ge=1, le=LARGEST_ROW, description="`next` of the page before this one.")
    ] = None,
) -> AuditPage:
    """Who asked for what and what came of it, newest first."""
    _refuse_part(request)
    with context.database.reading() as session:
        rows = audit.find(session, robot=robot, limit=limit + 1, before=before)
    items = [AuditView.model_validate(row) for row in rows[:limit]]
    return AuditPage(items=items, next=items[-1].id if len(rows) > limit else None)


@router.get("/audit/check", summary="Check the audit")
def check_audit(context: Context, request: Request) -> AuditCheck:
    """Whether each row continues the one before. Keep the newest hash elsewhere: it seals all rows up to its own."""
    _refuse_part(request)
    with context.database.reading() as session:
        broken = audit.first_broken(session)
        number, chain = audit.newest(session)
    return AuditCheck(intact=broken is None, first_broken=broken, newest=number, chain=chain)


def _refuse_wider(request: Request, body: KeyBody) -> None:
    own = principal_of(request).robots
    if own is not None and (body.robots is None or not set(body.robots) <= own):
        raise ForbiddenError("a key that is for some robots makes none that is for others", code="robots-too-many")


def _refuse_part(request: Request) -> None:
    if principal_of(request).robots is not None:
        raise ForbiddenError(
            "the audit is of all robots; a key that is for some does not read it", code="robots-too-few"
        )
