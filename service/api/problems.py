"""Errors as RFC 9457 problem documents, and the one table that says which status each error has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from core.errors import (
    DynidError,
    IdentificationError,
    InputError,
    KinematicsError,
    ModelError,
    MotionLimitError,
    RecordingError,
)
from drivers.contract import (
    ConnectionLost,
    ControllerNotReady,
    DriverError,
    DriverTimeout,
    DriverUnreachable,
    MotionRefused,
    ProtectiveStop,
)
from service.errors import ConflictError, ForbiddenError, NotFoundError, StorageError, StorageRefusedError
from service.storage.documents import plain_json

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:dynid:problem:"
REQUEST_ID = "request_id"

STATUS_OF_CODE: Mapping[str, int] = {
    "queue-full": 429,
    "too-many-streams": 429,
    "too-many-waiting": 429,
    "disk-full": 507,
    "body-too-large": 413,
    "text-invalid": 400,
    "protective-stop": 409,
    "fault-persists": 409,
}
"""Codes whose status is not that of their class."""

STATUS_OF_CLASS: Mapping[type[DynidError], int] = {
    NotFoundError: 404,
    ConflictError: 409,
    InputError: 422,
    ModelError: 422,
    KinematicsError: 422,
    RecordingError: 422,
    MotionLimitError: 422,
    IdentificationError: 422,
    DriverError: 502,
    DriverUnreachable: 503,
    ConnectionLost: 503,
    DriverTimeout: 504,
    ControllerNotReady: 409,
    ProtectiveStop: 409,
    MotionRefused: 409,
    ForbiddenError: 403,
    StorageError: 503,
    StorageRefusedError: 500,
}
"""By the nearest class in the error's ancestry; anything else is a 500."""

CODE_OF_STATUS: Mapping[int, str] = {
    400: "request-malformed",
    404: "path-unknown",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "body-too-large",
    415: "media-type-unsupported",
    416: "range-not-satisfiable",
}
"""Codes for what the web framework refuses by itself."""


class FieldProblem(BaseModel):
    """One thing wrong with a request."""

    location: Annotated[str, Field(examples=["body"], description="body, query, path or header.")]
    pointer: Annotated[
        str,
        Field(examples=["#/approach/speed"], description="JSON pointer into the body, or the parameter's name."),
    ]
    detail: Annotated[str, Field(examples=["Input should be greater than 0"])]


class Problem(BaseModel):
    """RFC 9457 problem document. Programs should look at ``code``; it never changes its meaning."""

    type: Annotated[str, Field(examples=["urn:dynid:problem:robot-busy"])]
    title: Annotated[str, Field(examples=["Robot busy"])]
    status: Annotated[int, Field(examples=[409])]
    detail: Annotated[str, Field(description="For a person: what, where, what to do.")]
    code: Annotated[str, Field(examples=["robot-busy"])]
    instance: Annotated[str, Field(examples=["/api/v1/jobs"], description="The path that was asked for.")]
    request_id: Annotated[str, Field(description="The same as in the header X-Request-ID and in the log.")]
    context: Annotated[dict[str, Any], Field(description="Facts a program may need.")]
    errors: Annotated[list[FieldProblem] | None, Field(description="Of a request that is not valid.")] = None


def problem_response(
    request: Request,
    *,
    status: int,
    code: str,
    detail: str,
    context: Mapping[str, Any] | None = None,
    errors: Sequence[FieldProblem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the problem document as a response to ``request``."""
    problem = Problem(
        type=TYPE_PREFIX + code,
        title=code.replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        instance=request.url.path,
        request_id=getattr(request.state, REQUEST_ID, ""),
        context=plain_json(context or {}),
        errors=None if errors is None else list(errors),
    )
    text = json.dumps(problem.model_dump(exclude_none=True))  # ASCII: it may quote what UTF-8 cannot say
    return Response(text, status_code=status, headers=headers, media_type=MEDIA_TYPE)


def status_of(error: DynidError) -> int:
    """Return the HTTP status of an error."""
    if error.code in STATUS_OF_CODE:
        return STATUS_OF_CODE[error.code]
    return next((STATUS_OF_CLASS[kind] for kind in type(error).__mro__ if kind in STATUS_OF_CLASS), 500)


def install_problem_handlers(app: FastAPI) -> None:
    """Make the app answer every error that its routes raise with a problem document."""
    app.add_exception_handler(DynidError, _on_dynid_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(UnicodeEncodeError, _on_text_beyond_unicode)


async def _on_dynid_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DynidError)  # noqa: S101 - narrows what the framework's signature widened
    return problem_response(
        request, status=status_of(error), code=error.code, detail=error.detail, context=error.context
    )


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    code = CODE_OF_STATUS.get(error.status_code, HTTPStatus(error.status_code).phrase.lower().replace(" ", "-"))
    detail = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"there is nothing at {request.url.path}; /docs lists what there is"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{request.url.path} does not take {request.method}, but {allowed}"
    return problem_response(request, status=error.status_code, code=code, detail=detail, headers=error.headers)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    raw = error.errors()
    if isinstance(error.body, bytes):  # FastAPI reads JSON only if it is said to be JSON
        return problem_response(
            request,
            status=415,
            code=CODE_OF_STATUS[415],
            detail="send the body as JSON, with the header 'Content-Type: application/json'",
        )
    if any(item["type"] == "json_invalid" for item in raw):
        reason = next(item for item in raw if item["type"] == "json_invalid").get("ctx", {}).get("error", "")
        return problem_response(
            request, status=400, code="body-not-json", detail=f"the request body is not valid JSON: {reason}"
        )
    problems = [
        FieldProblem(location=str(item["loc"][0]), pointer=_pointer(item["loc"], error.body), detail=str(item["msg"]))
        for item in raw
    ]
    detail = "; ".join(f"{p.location} {p.pointer}: {p.detail}" for p in problems)
    return problem_response(request, status=422, code="request-invalid", detail=detail, errors=problems)


async def _on_text_beyond_unicode(request: Request, error: Exception) -> Response:
    """JSON can spell half a surrogate pair, which no database and no file name takes."""
    return problem_response(
        request, status=400, code="text-invalid", detail=f"a text in the request is not valid Unicode: {error}"
    )


def _pointer(location: Sequence[str | int], body: Any) -> str:
    """Turn pydantic's location into a JSON pointer into ``body``.

    The location also names the branch of a union that was tried; such parts are not in the body and are
    left out, the last part excepted: that is a key that is missing.
    """
    if location[0] != "body":
        return ".".join(str(part) for part in location[1:])
    pointer, here = "#", body
    for index, part in enumerate(location[1:], start=1):
        if isinstance(here, dict):
            if part not in here and index < len(location) - 1:
                continue
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            continue
        pointer += "/" + str(part).replace("~", "~0").replace("/", "~1")
    return pointer
