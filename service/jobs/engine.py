"""The job engine: accepts, runs, follows and ends jobs. One per service, on its event loop.

Numerics run in the executor, database calls in threads; what remains here only waits. A motion is never
taken up again: whatever was unfinished when the service ended is INTERRUPTED when it starts.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from core.errors import DynidError, InputError
from service.devices import DeviceSupervisor
from service.errors import ConflictError, NotFoundError
from service.jobs.admission import create_job, parse_request
from service.jobs.compute import WorkerLostError, compute
from service.jobs.context import JobContext, Kind, Robot, in_transaction, in_view
from service.jobs.journal import Journal
from service.jobs.kinds import KINDS
from service.jobs.live import JobStoppedError, LiveJob, StopCause, StopSignal
from service.jobs.models import JobKind, JobProblem, JobUpdate
from service.logs import about
from service.motion import MotionGuard, PermitChange
from service.settings import Settings
from service.storage import Database, JobRow, JobState, counters, events
from service.storage import jobs as job_rows
from service.storage.documents import plain_json

log = logging.getLogger(__name__)

CLOSE_SECONDS = 15.0
"""How long running jobs may take to leave things in order when the service ends."""

STATE_OF_CAUSE: Mapping[StopCause, JobState] = {
    StopCause.CANCELLED: JobState.CANCELLED,
    StopCause.TIMED_OUT: JobState.FAILED,
    StopCause.SHUTTING_DOWN: JobState.INTERRUPTED,
}
CODE_OF_CAUSE: Mapping[StopCause, str] = {
    StopCause.CANCELLED: "job-cancelled",
    StopCause.TIMED_OUT: "job-timed-out",
    StopCause.SHUTTING_DOWN: "job-interrupted",
}


@dataclass(frozen=True)
class _End:
    """How a job ended."""

    state: JobState
    result: dict[str, Any] | None = None
    error: JobProblem | None = None


class JobEngine:
    """Runs jobs of all kinds.

    Parameters
    ----------
    database : where jobs and what they make are kept.
    devices : the robots, by name.
    settings : ``workers`` computations at once, ``queue_limit`` more may wait.
    executor : runs the computations; normally a `WorkerPool` of ``workers`` + 1 processes, so that the
        check before a motion never waits for a long estimation. Belongs to the caller.
    """

    def __init__(
        self,
        database: Database,
        devices: Mapping[str, DeviceSupervisor],
        settings: Settings,
        executor: Executor,
    ) -> None:
        self._database = database
        self._settings = settings
        self._executor = executor
        self._journal = Journal(database)
        self._robots = {name: self._make_robot(name, device) for name, device in devices.items()}
        self._jobs: dict[str, LiveJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._moving: dict[str, str] = {}  # robot -> what has its motion slot
        self._workers = asyncio.Semaphore(settings.workers)
        self._submitting = asyncio.Lock()
        self._closing = False

    @property
    def guards(self) -> Mapping[str, MotionGuard]:
        """Permit and lease of each robot."""
        return {name: robot.guard for name, robot in self._robots.items()}

    # --- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Settle what an earlier service left unfinished, then begin to work."""
        await self.recover()
        await self._journal.start()
        for robot in self._robots.values():
            await robot.guard.start()

    async def recover(self) -> list[str]:
        """Declare every unfinished job INTERRUPTED and return their identifiers. Nothing is resumed."""
        rows = await in_transaction(
            self._database,
            job_rows.interrupt_unfinished,
            "the service ended while this job was unfinished; what it recorded is salvaged, "
            "a motion is never resumed: submit it again if it is still wanted",
        )
        for row in rows:
            log.warning("job %s (%s) was unfinished when the service ended: interrupted", row.id, row.kind)
        await asyncio.to_thread(shutil.rmtree, self._runtime_folder, ignore_errors=True)
        return [row.id for row in rows]

    async def close(self) -> None:
        """End every job (INTERRUPTED, motions stopped) and all authority to move. Idempotent."""
        async with self._submitting:
            self._closing = True
        for job in self._jobs.values():
            job.stop.request(StopCause.SHUTTING_DOWN, "the service was shut down")
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
            for task in late:
                log.error("%s did not end within %g s", task.get_name(), CLOSE_SECONDS)
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for robot in self._robots.values():
            await robot.guard.close()
        await self._journal.close()

    # --- what callers do ----------------------------------------------------------------------------

    async def submit(
        self,
        kind: JobKind | str,
        request: BaseModel | Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        lease_token: str | None = None,
    ) -> JobRow:
        """Accept a job and return its row, or that of the job this key was used for with the same request.

        Raises
        ------
        InputError
            Unknown kind, or a request that is not valid (``request-invalid``).
        NotFoundError
            ``robot-not-found``.
        ConflictError
            ``robot-busy``, ``robot-disarmed``, ``lease-required``, ``lease-invalid``, ``queue-full``,
            ``service-closing``, what the kind itself has against it, or ``idempotency-key-reused``.
        """
        specification = _kind_named(kind)
        parsed = parse_request(specification, request)
        # Whoever asks may go away meanwhile: a job that has a row is also launched.
        return await asyncio.shield(self._accept(specification, parsed, idempotency_key, lease_token))

    async def cancel(self, job_id: str, reason: str = "cancelled on request") -> JobRow:
        """Ask a job to end and return its row. Ending takes a moment; a motion is stopped first.

        Raises
        ------
        NotFoundError
            No such job.
        ConflictError
            ``job-state-conflict``: it is over already.
        """
        row = await in_view(self._database, job_rows.get, job_id)
        job = await self._launched(job_id)
        if job is None:
            raise ConflictError(
                f"job {job_id} is {row.state}; only a queued or running job can be cancelled",
                code="job-state-conflict",
                id=job_id,
                state=row.state,
            )
        job.stop.request(StopCause.CANCELLED, reason)
        return row

    def live(self, job_id: str) -> JobUpdate | None:
        """The unfinished job as it stands this moment, without its log; None when it is over or unknown."""
        job = self._jobs.get(job_id)
        return None if job is None else job.snapshot([])

    async def subscribe(self, job_id: str) -> AsyncIterator[JobUpdate]:
        """Follow a job: its present state with the log so far, every change, and last how it ended.

        Raises
        ------
        NotFoundError
            No such job.
        """
        job = await self._launched(job_id)
        if job is None:
            yield await in_view(self._database, self._journal.finished, job_id)
            return
        async for update in job.updates():
            yield update

    async def _launched(self, job_id: str) -> LiveJob | None:
        """Return a job that is not over; one that has its row already is about to be launched."""
        if job_id not in self._jobs:
            async with self._submitting:
                pass
        return self._jobs.get(job_id)

    # --- admission ----------------------------------------------------------------------------------

    async def _accept(self, kind: Kind[Any], request: BaseModel, key: str | None, lease_token: str | None) -> JobRow:
        async with self._submitting:
            arming, refusal = self._admit(kind, request, lease_token)
            row, created = await in_transaction(self._database, create_job, kind, request, key, refusal)
            if created:
                self._launch(kind, request, row, arming)
        return row

    def _admit(self, kind: Kind[Any], request: BaseModel, lease_token: str | None) -> tuple[int, DynidError | None]:
        """Return the arming's number for a motion (else 0) and the refusal, if the job cannot be accepted now."""
        robot: str | None = getattr(request, "robot", None)
        try:
            if self._closing:
                raise ConflictError("the service is shutting down", code="service-closing")
            if robot is not None and robot not in self._robots:
                known = ", ".join(sorted(self._robots)) or "none is configured"
                raise NotFoundError(f"no robot {robot!r}; known: {known}", code="robot-not-found", robot=robot)
            if kind.computes:
                self._require_room()
            if robot is not None and (kind.moves or kind.occupies):
                self._require_slot(robot)
                guard = self._robots[robot].guard
                if kind.moves:
                    return guard.require_ready(lease_token), None
                guard.require_authority(lease_token)
        except DynidError as error:
            return 0, error
        return 0, None

    def _require_room(self) -> None:
        limit = self._settings.workers + self._settings.queue_limit
        present = sum(KINDS[job.kind].computes for job in self._jobs.values())
        if present >= limit:
            raise ConflictError(
                f"{present} computations are running or waiting, which is all this service takes "
                f"({self._settings.workers} workers, queue_limit {self._settings.queue_limit}); try again later",
                code="queue-full",
                limit=limit,
            )

    def _require_slot(self, robot: str) -> None:
        occupant = self._moving.get(robot)
        if occupant is not None:
            raise ConflictError(
                f"{robot} is busy with job {occupant}; wait for it, or cancel it",
                code="robot-busy",
                robot=robot,
                job=occupant,
            )

    def _launch(self, kind: Kind[Any], request: BaseModel, row: JobRow, arming: int) -> None:
        job = LiveJob(row)
        self._jobs[job.id] = job
        if job.robot is not None and (kind.moves or kind.occupies):
            self._moving[job.robot] = job.id
        context = JobContext(
            job,
            kind.phases,
            settings=self._settings,
            database=self._database,
            robots=self._robots,
            compute=self._compute,
            arming=arming,
        )
        task = asyncio.create_task(self._run(kind, request, context), name=f"{job.kind} job {job.id}")
        self._tasks[job.id] = task

    # --- running ------------------------------------------------------------------------------------

    async def _run(self, kind: Kind[Any], request: BaseModel, context: JobContext) -> None:
        with about(job=context.job.id, robot=context.job.robot):
            await self._run_to_end(kind, request, context)

    async def _run_to_end(self, kind: Kind[Any], request: BaseModel, context: JobContext) -> None:
        job = context.job
        self._journal.follow(job)
        try:
            end = await self._end_of(kind, request, context)
        except asyncio.CancelledError:
            detail = "the service was shut down before this job had ended"
            end = _End(JobState.INTERRUPTED, error=JobProblem(code="job-interrupted", detail=detail))
        finally:
            if job.robot is not None and self._moving.get(job.robot) == job.id:
                del self._moving[job.robot]
        if end.state is not JobState.SUCCEEDED and job.partial_result is not None:
            end = _End(end.state, job.partial_result, end.error)
        try:
            end = await self._store(job, end)
        finally:  # whatever became of that: here the job is over, and its followers learn it
            del self._jobs[job.id], self._tasks[job.id]
            shutil.rmtree(context.folder, ignore_errors=True)  # a few files in memory
            progress = 1.0 if end.state is JobState.SUCCEEDED else job.progress
            job.set(state=end.state, result=end.result, error=end.error, progress=progress)

    async def _store(self, job: LiveJob, end: _End) -> _End:
        """Store how the job ended; return how it has ended in the end."""
        try:
            await self._journal.finish(job, end.state, result=end.result, error=end.error)
        except Exception as error:
            log.exception("job %s ended %s, but that could not be stored", job.id, end.state)
            problem = _problem_of(error, job)
            await self._journal.finish_later(job, JobState.FAILED, problem)
            return _End(JobState.FAILED, error=problem)
        return end

    async def _end_of(self, kind: Kind[Any], request: BaseModel, context: JobContext) -> _End:
        """Run the job and say how it ended; nothing but cancellation of the task escapes."""
        job = context.job
        try:
            result = (await self._perform(kind, request, context)).model_dump(mode="json")
        except JobStoppedError as stopped:
            error = JobProblem(code=CODE_OF_CAUSE[stopped.cause], detail=stopped.reason)
            return _End(STATE_OF_CAUSE[stopped.cause], error=error)
        except WorkerLostError as lost:
            log.warning("job %s: %s", job.id, lost)
            return _End(JobState.INTERRUPTED, error=JobProblem(code="worker-lost", detail=str(lost)))
        except Exception as error:
            if not isinstance(error, DynidError):
                log.exception("job %s failed on an error nobody foresaw", job.id)
            return _End(JobState.FAILED, error=_problem_of(error, job))
        return _End(JobState.SUCCEEDED, result=result)

    async def _perform(self, kind: Kind[Any], request: BaseModel, context: JobContext) -> BaseModel:
        job = context.job
        if kind.computes:
            await job.stop.bound(self._workers.acquire())
        try:
            job.stop.raise_if_requested()
            await self._journal.begin(job)
            context.limit(kind.time_limit)
            return await kind.run(context, request)
        finally:
            context.lift_limit()
            if kind.computes:
                self._workers.release()

    async def _compute(
        self, folder: Path, task: Any, arguments: dict[str, Any], stop: StopSignal, on_progress: Any, grace: float
    ) -> Any:
        executor = self._executor
        return await compute(executor, folder, task, arguments, stop=stop, on_progress=on_progress, grace=grace)

    # --- robots -------------------------------------------------------------------------------------

    def _make_robot(self, name: str, device: DeviceSupervisor) -> Robot:
        settings = self._settings.robots[name]
        guard = MotionGuard(
            settings,
            device,
            next_fencing=partial(self._next_fencing, name),
            on_change=self._permit_changed,
        )
        return Robot(settings, device, guard)

    def _next_fencing(self, robot: str) -> int:
        with self._database.session() as session:
            return counters.next_value(session, f"lease/{robot}")

    def _permit_changed(self, change: PermitChange) -> None:
        self._journal.note(
            partial(
                events.record,
                kind=f"permit.{change.after}",
                message=f"{change.robot}: {change.before} -> {change.after} ({change.reason})",
                robot=change.robot,
            )
        )

    @property
    def _runtime_folder(self) -> Path:
        return self._settings.runtime_path / "jobs"


def _kind_named(kind: JobKind | str) -> Kind[Any]:
    try:
        return KINDS[JobKind(kind)]
    except ValueError:
        raise InputError(
            f"no kind of job is called {str(kind)!r}; known: {', '.join(JobKind)}", code="job-kind-unknown"
        ) from None


def _problem_of(error: Exception, job: LiveJob) -> JobProblem:
    if isinstance(error, DynidError):
        return JobProblem(code=error.code, detail=error.detail, context=plain_json(error.context))
    detail = f"an error nobody foresaw; the service's log has it under job {job.id}"
    return JobProblem(code="internal-error", detail=detail)
