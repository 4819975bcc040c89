"""What surrounds every request: an id, a size limit, and the last net for errors nobody foresaw."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable

from fastapi import HTTPException
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import REQUEST_ID, problem_response
from service.logs import about

log = logging.getLogger(__name__)

REQUEST_ID_HEADER = "X-Request-ID"
_ROBOT = re.compile(r"/api/v\d+/robots/([a-z0-9_-]{1,63})(?:/|$)")
_ACCEPTED_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")


class RequestContext:
    """Give each request an id (the client's own if it sent a plain one) and answer what escaped with a 500.

    All that is logged for it bears the id and the robot in its path, tracebacks too; the client gets the id and nothing
    else. ``count`` is told method and status of every answer.
    """

    def __init__(self, app: ASGIApp, *, count: Callable[[str, int], None]) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})[REQUEST_ID] = request_id
        robot = _ROBOT.match(scope["path"])
        with about(request=request_id, robot=robot and robot[1]):
            await self._answer(scope, receive, send, request_id)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._count(scope["method"], message["status"])
                log.debug("%s %s: %d", scope["method"], scope["path"], message["status"])
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            log.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if started:
                raise  # half an answer is out: only closing the connection tells the client
            response = problem_response(
                Request(scope),
                status=500,
                code="internal-error",
                detail=f"an error nobody foresaw; the service's log has it under request id {request_id}",
            )
            await response(scope, receive, send_with_id)


class BodyLimit:
    """Refuse a request body larger than ``limit`` bytes, by its announced length or while it arrives."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise BodyTooLargeError(self._limit)
            return message

        if announced.isdigit() and int(announced) > self._limit:
            error = BodyTooLargeError(self._limit)
            response = problem_response(Request(scope), status=error.status_code, code=error.code, detail=error.detail)
            await response(scope, receive, send)
            return
        await self._app(scope, receive_limited, send)


class BodyTooLargeError(HTTPException):
    """Raised where FastAPI reads the body; of its own kind, because it turns any other into a 400."""

    code = "body-too-large"

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the request body is larger than the {limit} bytes this service accepts")


def _request_id(scope: Scope) -> str:
    wanted = REQUEST_ID_HEADER.lower().encode()
    given: bytes = next((value for name, value in scope["headers"] if name == wanted), b"")
    if _ACCEPTED_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{random.getrandbits(128):032x}"
