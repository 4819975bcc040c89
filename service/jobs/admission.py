"""From what somebody asks for to the row of a job that will be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from sqlalchemy.orm import Session

from core.errors import DynidError, InputError
from service.jobs.context import Kind
from service.storage import JobRow, jobs


def parse_request(kind: Kind[Any], request: BaseModel | Mapping[str, Any]) -> BaseModel:
    """Return the request as the kind takes it.

    Raises
    ------
    InputError
        ``request-invalid``, with all that is wrong.
    """
    given = request.model_dump() if isinstance(request, BaseModel) else dict(request)
    try:
        parsed: BaseModel = kind.request.model_validate({"kind": kind.name, **given})
    except ValidationError as error:
        problems = [
            {"field": ".".join(str(part) for part in item["loc"]), "message": item["msg"]}
            for item in error.errors(include_url=False)
        ]
        text = "; ".join(f"{p['field']}: {p['message']}" for p in problems)
        raise InputError(f"{kind.name} request: {text}", code="request-invalid", problems=problems) from error
    return parsed


def create_job(
    session: Session, kind: Kind[Any], request: BaseModel, key: str | None, refusal: DynidError | None
) -> tuple[JobRow, bool]:
    """Add the job and return it and True; or the one that was accepted under this key before, and False.

    Raises
    ------
    DynidError
        ``refusal``, or what the kind itself has against the request: then nothing is added.
    """
    row, created = jobs.create(
        session,
        kind=kind.name.value,
        request=request.model_dump(mode="json"),
        robot=kind.robot(session, request),
        idempotency_key=key,
    )
    if created:  # raising takes the row back
        if refusal is not None:
            raise refusal
        kind.check(session, request)
    return row, created
