"""A job while it is in this process: its state in memory, who follows it, and how it is asked to stop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from enum import StrEnum
from typing import Any, TypeVar

from service.jobs.models import JobKind, JobProblem, JobUpdate, LogLine
from service.storage import JobRow, JobState, utc_now

log = logging.getLogger(__name__)

T = TypeVar("T")

LOG_LINES = 1000
"""Lines kept in memory per job; all of them are in the database's event log."""

FINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.INTERRUPTED})


class StopCause(StrEnum):
    """Why a job is asked to stop, which decides the state it ends in."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"
    SHUTTING_DOWN = "shutting-down"


class JobStoppedError(Exception):
    """The job ends because it was asked to. Kinds let it pass, after leaving things in order."""

    def __init__(self, cause: StopCause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


class StopSignal:
    """Asks one job to stop. The first cause counts."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._cause: StopCause | None = None
        self.reason = ""

    @property
    def requested(self) -> bool:
        return self._cause is not None

    def request(self, cause: StopCause, reason: str) -> None:
        if self._cause is None:
            self._cause, self.reason = cause, reason
            self._event.set()

    async def wait(self) -> None:
        """Return once the job is asked to stop."""
        await self._event.wait()

    def raise_if_requested(self) -> None:
        if self._cause is not None:
            raise JobStoppedError(self._cause, self.reason)

    async def bound(self, awaitable: Awaitable[T]) -> T:
        """Return what ``awaitable`` returns; cancel it and raise JobStoppedError once asked to stop."""
        task = asyncio.ensure_future(awaitable)
        stopping = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            self.raise_if_requested()
            raise AssertionError("woken by neither")  # pragma: no cover
        finally:
            stopping.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


class LiveJob:
    """A job that is queued or running here. Followers see its latest state and every log line."""

    def __init__(self, row: JobRow) -> None:
        self.id = row.id
        self.kind = JobKind(row.kind)
        self.robot = row.robot
        self.stop = StopSignal()
        self.state = JobState(row.state)
        self.phase = ""
        self.progress = 0.0
        self.message = ""
        self.result: dict[str, Any] | None = None
        self.error: JobProblem | None = None
        self.partial_result: dict[str, Any] | None = None  # what is left when it does not succeed
        self._log: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._logged = 0
        self._changed = asyncio.Event()

    def set(self, **changes: Any) -> None:
        """Change attributes and tell the followers."""
        for name, value in changes.items():
            setattr(self, name, value)
        self._notify()

    def log(self, message: str) -> None:
        """Add a line to the log."""
        self._log.append(LogLine(time=utc_now().isoformat(timespec="milliseconds"), message=message))
        self._logged += 1
        log.info("job %s: %s", self.id, message)
        self._notify()

    def log_since(self, count: int) -> tuple[list[LogLine], int]:
        """Return the lines after the first ``count`` ever logged, and how many there have been."""
        new = min(self._logged - count, len(self._log))
        return list(self._log)[len(self._log) - new :], self._logged

    async def updates(self) -> AsyncIterator[JobUpdate]:
        """Yield the present state, then every change, until the job is over. Slow followers skip states."""
        logged = 0
        while True:
            changed = self._changed
            lines, logged = self.log_since(logged)
            shown = self.snapshot(lines)
            yield shown
            if shown.state in FINAL_STATES:  # of what was shown: the job may have ended meanwhile
                return
            await changed.wait()

    def snapshot(self, log: list[LogLine]) -> JobUpdate:
        """The job as it stands."""
        return JobUpdate(
            id=self.id,
            kind=self.kind,
            robot=self.robot,
            state=self.state,
            phase=self.phase,
            progress=self.progress,
            message=self.message,
            log=log,
            result=self.result,
            error=self.error,
        )

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
