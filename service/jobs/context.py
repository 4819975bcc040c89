"""What a kind of job is given to do its work with, and what a kind of job is."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from pydantic import BaseModel
from sqlalchemy.orm import Session

from core.errors import DynidError
from service.devices import DeviceSupervisor
from service.jobs.compute import GRACE_SECONDS
from service.jobs.live import LiveJob, StopCause, StopSignal
from service.jobs.models import JobKind
from service.jobs.worker import Task
from service.motion import MotionGuard
from service.settings import RobotSettings, Settings
from service.storage import Database

P = ParamSpec("P")
T = TypeVar("T")
RequestT = TypeVar("RequestT", bound=BaseModel)

Compute = Callable[[Path, Task, dict[str, Any], StopSignal, Callable[[float, str], None], float], Awaitable[Any]]


class JobFailedError(DynidError):
    """The job did its work, but what came of it is not what was asked for."""

    code = "job-failed"


def named_robot(session: Session, request: BaseModel) -> str:
    """Return the robot that a request names itself."""
    name: str = request.robot  # type: ignore[attr-defined]
    return name


@dataclass(frozen=True)
class Kind(Generic[RequestT]):
    """One kind of job.

    Attributes
    ----------
    request : what it takes.
    phases : its phases in order, each with its share of the whole job's progress.
    time_limit : s after which it is ended, unless it sets another limit itself.
    check : refuses, when it is submitted, a request that cannot succeed; what it returns is of no interest.
    run : does the work and returns the result.
    robot : the robot a request is about, by default the one it names; raises NotFoundError where what it names does
        not exist.
    computes : waits for a worker; such jobs are bounded in number.
    moves : needs the robot's permit, lease and one motion slot.
    occupies : moves nothing, but needs the lease and the motion slot all the same: nothing moves meanwhile.
    """

    name: JobKind
    request: type[RequestT]
    phases: Mapping[str, float]
    time_limit: float
    check: Callable[[Session, RequestT], object]
    run: Callable[[JobContext, RequestT], Awaitable[BaseModel]]
    robot: Callable[[Session, RequestT], str] = named_robot
    computes: bool = False
    moves: bool = False
    occupies: bool = False


@dataclass(frozen=True)
class Robot:
    """One robot as jobs see it."""

    settings: RobotSettings
    device: DeviceSupervisor
    guard: MotionGuard


class JobContext:
    """The surroundings of one running job.

    Attributes
    ----------
    job : its live state; ``job.stop`` says when to end.
    arming : number of the arming under which a motion was asked for; 0 for jobs that move nothing.
    """

    def __init__(
        self,
        job: LiveJob,
        phases: Mapping[str, float],
        *,
        settings: Settings,
        database: Database,
        robots: Mapping[str, Robot],
        compute: Compute,
        arming: int,
    ) -> None:
        self.job = job
        self.settings = settings
        self.database = database
        self.arming = arming
        self.folder = settings.runtime_path / "jobs" / job.id
        self._robots = robots
        self._compute = compute
        self._shares = phases
        self._total = sum(phases.values())
        self._computations = itertools.count(1)
        self._alarm: asyncio.TimerHandle | None = None

    def robot(self, name: str) -> Robot:
        """Return the robot; the engine has checked that there is one of that name."""
        return self._robots[name]

    def limit(self, seconds: float) -> None:
        """Ask the job to stop when it is not over ``seconds`` from now; replaces an earlier limit."""
        self.lift_limit()
        reason = f"not finished within {seconds:g} s"
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(seconds, self.job.stop.request, StopCause.TIMED_OUT, reason)

    @contextlib.contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Ask the job to stop when the block takes longer than ``seconds``, whatever limits there are inside it."""
        if seconds is None:
            yield
            return
        loop, reason = asyncio.get_running_loop(), f"not finished within {seconds:g} s"
        alarm = loop.call_later(seconds, self.job.stop.request, StopCause.TIMED_OUT, reason)
        try:
            yield
        finally:
            alarm.cancel()

    def lift_limit(self) -> None:
        """Let the job take any time."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def enter(self, phase: str) -> None:
        """Begin a phase, unless the job was asked to stop: then raise JobStoppedError."""
        self.job.stop.raise_if_requested()
        self.advance(phase)

    def advance(self, phase: str) -> None:
        """Begin a phase that has to be gone through, even when the job was asked to stop."""
        self.job.set(phase=phase, message="", progress=self._before(phase))
        self.job.log(phase)

    def report(self, fraction: float, message: str = "") -> None:
        """Tell how far the present phase is, 0..1."""
        share = self._shares[self.job.phase] / self._total
        progress = self._before(self.job.phase) + share * min(max(fraction, 0.0), 1.0)
        self.job.set(progress=min(progress, 1.0), message=message)

    async def compute(self, task: Task, *, grace: float = GRACE_SECONDS, **arguments: Any) -> Any:
        """Run ``task(channel, **arguments)`` in a worker process; its progress is that of the phase.

        ``grace`` (s) is how long it may take to end once the job was asked to stop; see ``service.jobs.compute``.
        """
        folder = self.folder / f"compute-{next(self._computations)}"
        return await self._compute(folder, task, arguments, self.job.stop, self.report, grace)

    async def read(self, function: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function(session, ...)`` in a view of the database, in a thread."""
        return await in_view(self.database, function, *args, **kwargs)

    async def write(self, function: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function(session, ...)`` in a transaction, in a thread."""
        return await in_transaction(self.database, function, *args, **kwargs)

    def _before(self, phase: str) -> float:
        names = list(self._shares)
        return sum(self._shares[name] for name in names[: names.index(phase)]) / self._total


async def in_transaction(
    database: Database, function: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call ``function(session, ...)`` in a transaction that may write, in a thread."""

    def work() -> T:
        with database.session() as session:
            return function(session, *args, **kwargs)

    return await asyncio.to_thread(work)


async def in_view(
    database: Database, function: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call ``function(session, ...)`` in a consistent view that takes no lock, in a thread."""

    def work() -> T:
        with database.reading() as session:
            return function(session, *args, **kwargs)

    return await asyncio.to_thread(work)
