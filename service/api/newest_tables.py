"""The newest feedforward table of each robot, in memory: the one thing that controllers ask for all the time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable

from service.storage import Database, FeedforwardTableRow, feedforward

LOOK_SECONDS = 0.5
"""How long it may take until a table is seen that another process has put into the database."""


class NewestTables:
    """Looks tables up when this process has written to the database, and otherwise every `LOOK_SECONDS`.

    However many ask, one looks: the rest wait for it. A table is never changed, so a robot's table is the same as long
    as it is the same object.
    """

    def __init__(self, database: Database, robots: Iterable[str]) -> None:
        self._database = database
        self._tables: dict[str, FeedforwardTableRow | None] = dict.fromkeys(robots)
        self._writes = -1
        self._looked_up = -math.inf
        self._looking = asyncio.Lock()

    async def of(self, robot: str) -> FeedforwardTableRow | None:
        """Return the robot's newest table, None while there is none; StorageError when that cannot be told now."""
        if not self._known():
            async with self._looking:
                if not self._known():
                    await asyncio.to_thread(self._look)
        return self._tables[robot]

    def _known(self) -> bool:
        return self._writes == self._database.writes and time.monotonic() - self._looked_up < LOOK_SECONDS

    def _look(self) -> None:
        writes, now = self._database.writes, time.monotonic()  # before looking: what is written meanwhile counts
        with self._database.reading() as session:
            for robot, table in self._tables.items():
                newest = feedforward.latest_id(session, robot)
                if newest != (table and table.id):
                    self._tables[robot] = feedforward.latest(session, robot)
        self._writes, self._looked_up = writes, now
