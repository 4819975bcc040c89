"""Server-sent events: from an async iterator of events to a response that ends when it should."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from service.errors import ConflictError
from service.storage.documents import plain_json, to_json

MOST_STREAMS = 40
"""Open at once; each takes up to a hundredth of a core of the process that keeps the robots' heartbeat."""

HEARTBEAT_SECONDS = 5.0
"""Silence after which a comment is sent: it keeps proxies from closing, and notices clients that left."""


@dataclass(frozen=True)
class Event:
    """One event; ``data`` is sent as a line of JSON."""

    name: str
    data: BaseModel | dict[str, Any]

    def encode(self) -> bytes:
        data = self.data
        text = data.model_dump_json() if isinstance(data, BaseModel) else to_json(plain_json(data))
        return f"event: {self.name}\ndata: {text}\n\n".encode()


class Streams:
    """How many streams are open, and the limit to that."""

    def __init__(self, limit: int = MOST_STREAMS) -> None:
        self.limit = limit
        self.open = 0

    def require_room(self) -> None:
        """Raise ConflictError ``too-many-streams`` when no other stream may be opened."""
        if self.open >= self.limit:
            raise ConflictError(
                f"{self.open} event streams are open, more are not served; close some, or poll instead",
                code="too-many-streams",
            )


class EventStream(StreamingResponse):
    """Response that sends events until they end, the client leaves, or ``closing`` is set.

    ``events`` is closed in each case, so its own ``finally`` runs.

    Raises
    ------
    ConflictError
        Too many streams are open.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[Event],
        closing: asyncio.Event,
        streams: Streams,
        *,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        streams.require_room()
        super().__init__(
            _counted(_encoded(events, closing, heartbeat), streams),
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


async def _counted(chunks: AsyncGenerator[bytes], streams: Streams) -> AsyncIterator[bytes]:
    streams.open += 1
    try:
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                yield chunk
    finally:
        streams.open -= 1


async def _encoded(events: AsyncGenerator[Event], closing: asyncio.Event, heartbeat: float) -> AsyncGenerator[bytes]:
    closed = asyncio.create_task(closing.wait())
    following: asyncio.Task[Event | None] | None = None
    try:
        yield b": connected\n\n"
        while not closing.is_set():
            if following is None:
                following = asyncio.create_task(_next(events))
            await asyncio.wait({following, closed}, timeout=heartbeat, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                yield b": alive\n\n"
                continue
            event = following.result()
            following = None
            if event is None:
                return
            yield event.encode()
    finally:
        for task in (following, closed):
            if task is not None and not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await events.aclose()


async def _next(events: AsyncGenerator[Event]) -> Event | None:
    return await anext(events, None)
