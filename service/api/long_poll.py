"""Requests that wait until there is something new, for pollers that want it soon and seldom ask."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Query, Request

from service.errors import ConflictError

LONGEST_WAIT = 60.0
"""s; idle connections live longer than that in most proxies."""
LOOK_SECONDS = 0.05
"""How often a request that waits looks whether there is something new: a look is a few comparisons in memory."""
GONE_SECONDS = 1.0
"""How often it looks whether its client is still there."""
MOST_WAITING = 100

_PREFERRED = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?\s*(?:$|[,;])", re.IGNORECASE)


@dataclass(frozen=True)
class Wait:
    """How long a request may wait, s; ``headers`` say so to a client that has it as a preference."""

    seconds: float
    headers: Mapping[str, str]


def _wait(
    wait: Annotated[
        float | None,
        Query(ge=0, le=LONGEST_WAIT, description="s to wait for something new before a 304 is the answer."),
    ] = None,
    prefer: Annotated[str | None, Header(description="`wait=N` (RFC 7240), s, stands for `wait` in the query.")] = None,
) -> Wait:
    preferred = None if prefer is None else _PREFERRED.search(prefer)
    if wait is not None or preferred is None:
        return Wait(wait or 0.0, {})
    seconds = min(float(preferred[1]), LONGEST_WAIT)
    return Wait(seconds, {"Preference-Applied": f"wait={seconds:.0f}"})


WaitFor = Annotated[Wait, Depends(_wait)]


class LongPolls:
    """How many requests wait, and the limit to that. ``closing`` ends all of them."""

    def __init__(self, closing: asyncio.Event, limit: int = MOST_WAITING) -> None:
        self._closing = closing
        self._limit = limit
        self.waiting = 0

    async def wait(self, request: Request, unchanged: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Return once ``unchanged`` is false, ``seconds`` are over, the client has left or the service ends.

        Raises
        ------
        ConflictError
            ``too-many-waiting`` requests.
        """
        if seconds <= 0.0 or not await unchanged():
            return
        if self.waiting >= self._limit:
            raise ConflictError(
                f"{self.waiting} requests wait for something new, more may not; ask without wait",
                code="too-many-waiting",
            )
        self.waiting += 1
        try:
            await self._wait(request, unchanged, seconds)
        finally:
            self.waiting -= 1

    async def _wait(self, request: Request, unchanged: Callable[[], Awaitable[bool]], seconds: float) -> None:
        now = time.monotonic()
        end, gone = now + seconds, now + GONE_SECONDS
        while now < end and not self._closing.is_set():
            await asyncio.sleep(min(LOOK_SECONDS, end - now))
            if not await unchanged():
                return
            now = time.monotonic()
            if now >= gone:
                if await request.is_disconnected():
                    return
                gone = now + GONE_SECONDS
