"""Old recordings are deleted, if the settings say so: their rows stay, and say when and why."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.errors import StorageError
from service.storage import Database, RecordingState, recordings, utc_now
from service.storage.tables import RecordingRow, ResultRow

log = logging.getLogger(__name__)

EVERY_SECONDS = 3600.0
_FINISHED = (RecordingState.COMPLETE, RecordingState.SALVAGED)


def remove_old(data_dir: Path, database: Database, days: float) -> list[str]:
    """Delete the files of finished recordings older than ``days``; return their identifiers.

    Recordings that a result was estimated from or validated on are kept: they are its provenance. The row says
    ``removed`` before the file goes, so a service killed in between deletes the file the next time.
    """
    with database.session() as session:
        rows = _old(session, days)
        for row in rows:
            recordings.remove(session, row.id, f"older than {days:g} days and no result's")
    with database.reading() as session:
        removed = recordings.find(session, state=RecordingState.REMOVED, limit=None)
    for row in removed:
        recordings.file_of(data_dir, row).unlink(missing_ok=True)
    return [row.id for row in rows]


async def keep_removing(data_dir: Path, database: Database, days: float, every: float = EVERY_SECONDS) -> None:
    """Do so again and again, until cancelled."""
    while True:
        try:
            gone = await asyncio.to_thread(remove_old, data_dir, database, days)
            if gone:
                log.info("removed %d recordings older than %g days", len(gone), days)
        except (StorageError, OSError):
            log.exception("old recordings could not be removed; this is tried again")
        await asyncio.sleep(every)


def _old(session: Session, days: float) -> list[RecordingRow]:
    until = utc_now() - timedelta(days=days)
    needed = {identifier for ids in session.scalars(select(ResultRow.recording_ids)) for identifier in ids}
    query = select(RecordingRow).where(RecordingRow.state.in_(_FINISHED), RecordingRow.ended_at < until)
    return [row for row in session.scalars(query) if row.id not in needed]
