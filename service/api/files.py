"""A file, whole or in ranges."""

from __future__ import annotations

from fastapi.responses import FileResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from service.api.problems import problem_response


class RangedFile(FileResponse):
    """Starlette's file response, with problem documents for ranges that cannot be had."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused: Message | None = None

        async def send_unless_refused(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] >= 400:
                refused = message
            if refused is None:
                await send(message)

        await super().__call__(scope, receive, send_unless_refused)
        if refused is not None:
            await _range_problem(scope, refused)(scope, receive, send)


def _range_problem(scope: Scope, refused: Message) -> Response:
    size = next((value.decode() for name, value in refused["headers"] if name == b"content-range"), None)
    asked = Request(scope).headers.get("range", "")
    if size is None:
        return problem_response(
            Request(scope),
            status=refused["status"],
            code="range-malformed",
            detail=f"the header 'Range: {asked}' cannot be read; write 'Range: bytes=FIRST-LAST'",
        )
    return problem_response(
        Request(scope),
        status=refused["status"],
        code="range-not-satisfiable",
        detail=f"the file has {size.rpartition('/')[2]} bytes, 'Range: {asked}' lies outside",
        headers={"Content-Range": size},
    )
