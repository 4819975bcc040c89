"""Every write is audited: that it was asked for, before anything happens, and what came of it."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access import Principal
from service.api.auth import PRINCIPAL
from service.api.permissions import READING
from service.api.problems import REQUEST_ID, problem_response
from service.api.rate_limit import RateLimit
from service.errors import StorageError
from service.storage import Database, audit

log = logging.getLogger(__name__)

NOTES = "audit"
"""Where a request's state keeps what its route adds to the audit."""
_ROBOT = re.compile(r"^/api/v\d+/robots/([^/]+)/")
_STOP = re.compile(r"^/api/v\d+/robots/[^/]+/stop$")
_WRITES_PER_SECOND, _WRITES_AT_ONCE = 20.0, 100


class Auditing:
    """ASGI middleware: two rows for each request that may change something, one before and one after it.

    What cannot be audited is not done, except to stop a robot. Writes of one principal that come too fast are refused;
    reading never is. ``database`` is called for each request: it is known only once the service has started.
    """

    def __init__(self, app: ASGIApp, *, database: Callable[[], Database]) -> None:
        self._app = app
        self._database = database
        self._writes = RateLimit(per_second=_WRITES_PER_SECOND, burst=_WRITES_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get("state", {}).get(PRINCIPAL)
        if scope["type"] != "http" or scope["method"] in READING or principal is None:
            await self._app(scope, receive, send)
            return
        stopping = _STOP.match(scope["path"]) is not None
        if not stopping and not self._writes.allows(principal.name):
            await problem_response(
                Request(scope),
                status=429,
                code="too-many-writes",
                detail=f"the key {principal.name!r} writes more than {_WRITES_PER_SECOND:g} times a second; slow down",
                headers={"Retry-After": "1"},
            )(scope, receive, send)
            return
        notes: dict[str, Any] = {}
        scope["state"][NOTES] = notes
        if not stopping:
            try:
                await self._record(scope, principal, stage="asked")
            except StorageError as error:
                await problem_response(
                    Request(scope),
                    status=503,
                    code="audit-unusable",
                    detail=f"nothing is done that cannot be audited: {error.detail}",
                )(scope, receive, send)
                return
        status, started = 500, time.monotonic()

        async def send_and_look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                await self._record_end(scope, principal, status, time.monotonic() - started, notes)
            await send(message)

        try:
            await self._app(scope, receive, send_and_look)
        except Exception:
            await self._record_end(scope, principal, 500, time.monotonic() - started, notes)
            raise

    async def _record_end(
        self, scope: Scope, principal: Principal, status: int, seconds: float, notes: dict[str, Any]
    ) -> None:
        try:
            await self._record(scope, principal, stage="done", status=status, seconds=round(seconds, 3), **notes)
        except StorageError:
            log.exception("request %s by %s was done but not audited", scope["state"][REQUEST_ID], principal.name)

    async def _record(self, scope: Scope, principal: Principal, **details: Any) -> None:
        await asyncio.to_thread(self._write, scope, principal, details)

    def _write(self, scope: Scope, principal: Principal, details: dict[str, Any]) -> None:
        path = scope["path"][:200]
        match = _ROBOT.match(path)
        robot = details.pop("robot", match.group(1) if match else None)
        with self._database().session() as session:
            audit.record(
                session,
                principal=principal.name,
                action=f"{scope['method']} {path}",
                robot=robot,
                request_id=scope["state"][REQUEST_ID],
                **details,
            )


def note(request: Request, **details: Any) -> None:
    """Add to what the audit says of a request."""
    notes: dict[str, Any] | None = getattr(request.state, NOTES, None)
    if notes is not None:
        notes.update(details)
