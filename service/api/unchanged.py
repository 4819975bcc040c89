"""Conditional requests that come again and again, answered before anything is routed, parsed or looked up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access import Principal
from service.api.auth import PRINCIPAL
from service.errors import StorageError

MOST_REMEMBERED = 1000

StillTrue = Callable[[], Awaitable[bool]]

_SELECTING = (b"if-none-match", b"accept")
"""Headers that decide what is answered; a request with other preconditions, or one that waits, is left to its route."""
_UNUSUAL = frozenset({b"prefer", b"range", b"if-range", b"if-match", b"if-modified-since", b"if-unmodified-since"})

_Asked = tuple[object, ...]


class Unchanged:
    """What requests were answered 304, and how to find out whether that is still so."""

    def __init__(self) -> None:
        self._answers: OrderedDict[_Asked, tuple[Response, StillTrue]] = OrderedDict()

    def remember(self, request: Request, answer: Response, still_true: StillTrue) -> Response:
        """Return ``answer``, a 304, which the same request of the same key's kind gets again while ``still_true``."""
        asked = _asked(request.scope)
        if asked is not None:
            self._answers[asked] = answer, still_true
            if len(self._answers) > MOST_REMEMBERED:
                self._answers.popitem(last=False)
        return answer

    async def answer(self, scope: Scope) -> Response | None:
        """Return the 304 for a request that had one before, None where that is not so or not so any more."""
        asked = _asked(scope)
        found = None if asked is None else self._answers.get(asked)
        if asked is None or found is None:
            return None
        answer, still_true = found
        try:
            if await still_true():
                return answer
        except StorageError:  # its route says what is wrong
            return None
        self._answers.pop(asked, None)
        return None


class AnswerUnchanged:
    """ASGI middleware behind the authentication. ``unchanged`` is called for each request, as there is one service."""

    def __init__(self, app: ASGIApp, *, unchanged: Callable[[], Unchanged]) -> None:
        self._app = app
        self._unchanged = unchanged

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None
        if scope["type"] == "http" and scope["method"] == "GET":
            answer = await self._unchanged().answer(scope)
        await (self._app if answer is None else answer)(scope, receive, send)


def _asked(scope: Scope) -> _Asked | None:
    """Return all that the answer to a conditional request depends on; None for any other request."""
    principal: Principal | None = scope.get("state", {}).get(PRINCIPAL)
    selecting = [(name, value) for name, value in scope["headers"] if name in _SELECTING]
    unusual = any(name in _UNUSUAL for name, _ in scope["headers"])
    if principal is None or unusual or all(name != b"if-none-match" for name, _ in selecting):
        return None
    return scope["path"], scope["query_string"], principal.robots, *selecting
