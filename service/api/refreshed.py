"""A look-up that requests depend on, kept fresh beside them: none waits for it while what is known is young enough."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from service.errors import StorageError

T = TypeVar("T")

log = logging.getLogger(__name__)


class Refreshed(Generic[T]):
    """What ``look`` returned when it was last called, in a thread of its own: others may wait for a lock or the disk.

    Parameters
    ----------
    look : asks the database.
    after : age, s, at which it is asked again while what is known is still good.
    oldest : age, s, at which whoever asks waits for that.
    """

    def __init__(self, look: Callable[[], T], *, after: float, oldest: float) -> None:
        self._look = look
        self._after = after
        self._oldest = oldest
        self._known: tuple[T, float] | None = None  # with the time at which it was asked for
        self._outdated = -math.inf
        self._looking = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "refresh")
        self._refreshing: asyncio.Task[None] | None = None

    def outdate(self) -> None:
        """Have the next who asks wait for what is true from now on."""
        self._outdated = time.monotonic()

    async def value(self, oldest: float | None = None) -> T:
        """Return what is known, no older than ``oldest`` s; StorageError when that cannot be had."""
        limit = self._oldest if oldest is None else oldest
        if self._age() >= limit:
            async with self._looking:
                if self._age() >= limit:
                    await self._ask()
        elif self._age() >= self._after and not self._looking.locked():
            self._refreshing = asyncio.create_task(self._refresh(), name="refresh")
        assert self._known is not None  # noqa: S101 - its age would be infinite
        return self._known[0]

    def _age(self) -> float:
        if self._known is None or self._known[1] <= self._outdated:
            return math.inf
        return time.monotonic() - self._known[1]

    async def _refresh(self) -> None:
        async with self._looking:
            try:
                await self._ask()
            except StorageError as error:  # who asks when it is too old is told
                log.debug("not refreshed: %s", error.detail)

    async def _ask(self) -> None:
        began = time.monotonic()
        found = await asyncio.get_running_loop().run_in_executor(self._thread, self._look)
        self._known = found, began
