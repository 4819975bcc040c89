"""What jobs leave in the database: state, progress and log, written behind the event loop's back.

Every commit waits for the disk, so progress and log lines are gathered and written a few times a second;
changes of state are written at once and in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from service.errors import StorageError, StorageRefusedError
from service.jobs.context import in_transaction
from service.jobs.live import LOG_LINES, LiveJob
from service.jobs.models import JobKind, JobProblem, JobUpdate, LogLine
from service.storage import Database, JobState, events
from service.storage import jobs as job_rows

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.5
LOG_EVENT = "job.log"

Note = Callable[[Session], object]


class Journal:
    """Writes for all jobs of one engine."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries: dict[str, _Entry] = {}
        self._notes: list[Note] = []
        self._writing = asyncio.Lock()  # one writer at a time keeps the order; SQLite has only one anyway
        self._flusher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._flusher = asyncio.create_task(self._flush_forever(), name="job journal")

    async def close(self) -> None:
        """Write what is left."""
        if self._flusher is not None:
            async with self._writing:  # a thread that writes would not be cancelled with the task
                self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
            self._flusher = None
        await self.flush()

    def note(self, note: Note) -> None:
        """Have ``note(session)`` called in one of the next transactions."""
        self._notes.append(note)

    def follow(self, job: LiveJob) -> None:
        """Write this job's progress and log from now on."""
        self._entries[job.id] = _Entry(job)

    async def begin(self, job: LiveJob) -> None:
        """QUEUED -> RUNNING."""
        async with self._writing:
            await in_transaction(self._database, job_rows.transition, job.id, JobState.RUNNING)
            job.set(state=JobState.RUNNING)

    async def finish(
        self,
        job: LiveJob,
        state: JobState,
        *,
        result: dict[str, Any] | None,
        error: JobProblem | None,
    ) -> None:
        """Write what is left of the job's log and progress, then how it ended."""
        async with self._writing:
            await self._write()
            await in_transaction(self._database, _transition(job.id, state, result, error))
            del self._entries[job.id]

    async def finish_later(self, job: LiveJob, state: JobState, error: JobProblem) -> None:
        """Write how a job ended that `finish` could not write: now if possible, else as soon as it is."""
        self._gather()
        del self._entries[job.id]
        self.note(_transition(job.id, state, None, error))
        await self.flush()

    def finished(self, session: Session, job_id: str) -> JobUpdate:
        """Return a job that is over as its followers would have seen it last."""
        row = job_rows.get(session, job_id)
        lines = events.find(session, kind=LOG_EVENT, subject=job_id, limit=LOG_LINES)
        return JobUpdate(
            id=row.id,
            kind=JobKind(row.kind),
            robot=row.robot,
            state=row.state,
            phase=row.phase or "",
            progress=row.progress,
            message="",
            log=[LogLine(time=e.details["time"], message=e.message) for e in lines],
            result=row.result,
            error=None if row.error is None else JobProblem.model_validate(row.error),
        )

    async def flush(self) -> None:
        """Write what is new; what cannot be written is kept for the next time."""
        try:
            async with self._writing:
                await self._write()
        except Exception:
            log.exception("the database cannot be written; %d entries wait for it", len(self._notes))

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    def _gather(self) -> None:
        for entry in self._entries.values():
            self._notes += entry.take()

    async def _write(self) -> None:
        """Write all notes in one transaction; those that the database refuses are dropped, one by one.

        Raises
        ------
        StorageError
            The database cannot be used now. What was not written is kept.
        """
        self._gather()
        count = len(self._notes)
        while notes := self._notes[:count]:
            try:
                await in_transaction(self._database, _all_of(notes))
            except Exception as error:
                if isinstance(error, StorageError) and not isinstance(error, StorageRefusedError):
                    raise
                if len(notes) > 1:
                    count = 1
                    continue
                log.exception("an entry is dropped, as the database will never take it")
            del self._notes[: len(notes)]


class _Entry:
    """What of one job has been written."""

    def __init__(self, job: LiveJob) -> None:
        self._job = job
        self._logged = 0
        self._progress: tuple[str, float] = ("", 0.0)

    def take(self) -> list[Note]:
        """Return how to write what is new since the last call."""
        job = self._job
        lines, self._logged = job.log_since(self._logged)
        notes: list[Note] = [_log_line(job, line) for line in lines]
        progress = (job.phase, job.progress)
        if job.state is JobState.RUNNING and progress != self._progress:
            self._progress = progress
            notes.append(_progress(job.id, *progress))
        return notes


def _all_of(notes: list[Note]) -> Note:
    return lambda session: [note(session) for note in notes]


def _transition(job_id: str, state: JobState, result: dict[str, Any] | None, error: JobProblem | None) -> Note:
    problem = None if error is None else error.model_dump(mode="json")
    return lambda session: job_rows.transition(session, job_id, state, result=result, error=problem)


def _log_line(job: LiveJob, line: LogLine) -> Note:
    return lambda session: events.record(
        session, LOG_EVENT, line.message, subject=job.id, robot=job.robot, time=line.time
    )


def _progress(job_id: str, phase: str, progress: float) -> Note:
    return lambda session: job_rows.set_progress(session, job_id, phase=phase, progress=progress)
