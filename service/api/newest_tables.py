"""The newest feedforward table of each robot, in memory: the one thing that controllers ask for all the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.api.refreshed import Refreshed
from service.storage import Database, FeedforwardTableRow, feedforward

LOOK_SECONDS = 0.5
"""How long it may take until a table is seen that another process has put into the database."""
OLDEST_SECONDS = 5.0
"""Without the database, what is known is told for so long."""

Tables = Mapping[str, FeedforwardTableRow | None]


class NewestTables:
    """What this process puts into the database is seen at once.

    A table is never changed, so a robot's table is the same as long as it is the same object.
    """

    def __init__(self, database: Database, robots: Iterable[str]) -> None:
        self._database = database
        self._tables: Tables = dict.fromkeys(robots)
        self._added = database.added(FeedforwardTableRow)
        self._refreshed = Refreshed(self._look, after=LOOK_SECONDS, oldest=OLDEST_SECONDS)

    async def of(self, robot: str) -> FeedforwardTableRow | None:
        """Return the robot's newest table, None while there is none; StorageError when that cannot be told now."""
        added = self._database.added(FeedforwardTableRow)
        if added != self._added:
            self._added = added
            self._refreshed.outdate()
        return (await self._refreshed.value())[robot]

    def _look(self) -> Tables:
        with self._database.reading() as session:
            found = {}
            for robot, table in self._tables.items():
                same = feedforward.latest_id(session, robot) == (table and table.id)
                found[robot] = table if same else feedforward.latest(session, robot)
        self._tables = found
        return found
