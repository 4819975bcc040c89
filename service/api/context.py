"""What the routes work on: everything the running service owns, opened and closed in one place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from core.errors import DynidError
from core.models import resolve
from service.access import in_sight
from service.api.auth import Keys, api_key
from service.api.folders import own_folders
from service.api.long_poll import LongPolls
from service.api.metrics import Metrics
from service.api.models import Check, Readiness, RobotStatus
from service.api.newest_tables import NewestTables
from service.api.readiness import WorkerProbe, check_database, check_modbus, check_robot
from service.api.result_exports import ResultExports
from service.api.robot_status import robot_status
from service.api.sse import Streams
from service.api.unchanged import Unchanged
from service.devices import DeviceSupervisor
from service.errors import NotFoundError
from service.jobs.engine import JobEngine
from service.jobs.pool import WorkerPool
from service.modbus import LimitedServer, open_modbus
from service.monitoring import DriftWatch, open_watches
from service.motion import MotionGuard, PermitState
from service.recording import salvage
from service.settings import ConfigurationError, RobotSettings, Settings
from service.storage import Database
from service.upkeep.retention import keep_removing

log = logging.getLogger(__name__)

API_PREFIX = "/api/v1"

MOVING = frozenset({PermitState.MOVING, PermitState.STOPPING})


@dataclass
class ServiceContext:
    """The running service. ``closing`` is set when it begins to end: streams then end by themselves."""

    settings: Settings
    keys: Keys
    database: Database
    devices: dict[str, DeviceSupervisor]
    engine: JobEngine
    metrics: Metrics
    workers: WorkerProbe
    exports: ResultExports
    executor: Executor
    modbus: LimitedServer | None = None
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: Streams = field(default_factory=Streams)
    unchanged: Unchanged = field(default_factory=Unchanged)
    drift: Mapping[str, DriftWatch] = field(default_factory=dict)
    newest_tables: NewestTables = field(init=False)
    long_polls: LongPolls = field(init=False)

    def __post_init__(self) -> None:
        self.newest_tables = NewestTables(self.database, self.settings.robots)
        self.long_polls = LongPolls(self.closing)

    def robot(self, name: str) -> RobotSettings:
        """Return the robot's settings, or raise NotFoundError ``robot-not-found``."""
        self._require_robot(name)
        return self.settings.robots[name]

    def guard(self, name: str) -> MotionGuard:
        """Return the robot's permit, lease and device, or raise NotFoundError ``robot-not-found``."""
        self._require_robot(name)
        return self.engine.guards[name]

    def status(self, name: str) -> RobotStatus:
        """Return what is known about a robot without reading a sample or the database; errors as of ``guard``."""
        return robot_status(self.guard(name), self.drift.get(name))

    async def readiness(self) -> Readiness:
        """Look at everything the service depends on."""
        checks = [await check_database(self.database), await self.workers.check()]
        checks += [check_robot(name, device) for name, device in self.devices.items()]
        if self.modbus is not None:
            checks.append(check_modbus(self.modbus))
        if self.closing.is_set():
            checks.append(Check(name="service", ready=False, reason="it is shutting down"))
        return Readiness(ready=all(check.ready for check in checks), checks=checks)

    def path(self, relative: str) -> str:
        """Return the path of something under the API's root, for Location headers."""
        return API_PREFIX + relative

    async def begin_close(self) -> None:
        """Stop what moves and let streams end: the first thing to do, while all else still runs. Idempotent."""
        if self.closing.is_set():
            return
        self.closing.set()
        await asyncio.gather(*(_stop_if_moving(guard) for guard in self.engine.guards.values()))

    def _require_robot(self, name: str) -> None:
        seen = [robot for robot in sorted(self.settings.robots) if in_sight(robot)]
        if name not in seen:
            known = ", ".join(seen) or "none is configured"
            raise NotFoundError(f"no robot {name!r}; known: {known}", code="robot-not-found", robot=name)


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[ServiceContext]:
    """Start everything, in the order in which the parts need each other; end it in the opposite one.

    Robots that cannot be reached do not keep the service from starting: their status says so.

    Raises
    ------
    DynidError
        A model, folder, key or database cannot be used; what was started before is ended again.
    """
    await asyncio.to_thread(_check_models, settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(own_folders(settings))
        key = api_key(settings)
        database = Database(settings.database)
        stack.callback(database.close)
        await asyncio.to_thread(database.create)
        await asyncio.to_thread(salvage, settings.data_dir, database)
        executor = WorkerPool(settings.workers + 1)
        stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        devices = {name: DeviceSupervisor(robot, settings.runtime_path) for name, robot in settings.robots.items()}
        engine = JobEngine(database, devices, settings, executor)
        for device in devices.values():
            stack.push_async_callback(device.close)
        stack.push_async_callback(engine.close)
        await engine.start()
        await asyncio.gather(*(device.start() for device in devices.values()))
        asked = WorkerProbe(executor), ResultExports(executor), executor
        context = ServiceContext(settings, Keys(key, database), database, devices, engine, Metrics(database), *asked)
        context.drift = await stack.enter_async_context(open_watches(settings, devices, database))
        stack.push_async_callback(context.begin_close)
        if settings.modbus is not None:
            served = open_modbus(settings.modbus, settings.robots, engine, context.drift, database)
            context.modbus = await stack.enter_async_context(served)
        if settings.keep_recordings_days is not None:
            keeping = keep_removing(settings.data_dir, database, settings.keep_recordings_days)
            removing = asyncio.create_task(keeping, name="retention")
            stack.callback(removing.cancel)
        yield context


def _check_models(settings: Settings) -> None:
    """Refuse a model that cannot be loaded now, rather than when somebody wants to move or identify."""
    for name, robot in settings.robots.items():
        try:
            model = resolve(robot.model)
        except DynidError as error:
            raise ConfigurationError(f"robots.{name}.model: {error.detail}", robot=name) from error
        if robot.drive_gains is not None and len(robot.drive_gains) != model.n_joints:
            raise ConfigurationError(
                f"robots.{name}.drive_gains: {len(robot.drive_gains)} numbers, {robot.model} has "
                f"{model.n_joints} joints; give one per joint",
                robot=name,
            )


async def _stop_if_moving(guard: MotionGuard) -> None:
    if guard.permit.state not in MOVING:
        return
    try:
        await guard.stop("the service is shutting down")
    except DynidError as error:  # the rest of the service has to be closed all the same; the host goes on trying
        log.error("%s may still move: %s", guard.robot, error.detail)  # noqa: TRY400


def _context(request: Request) -> ServiceContext:
    context: ServiceContext = request.app.state.context
    return context


Context = Annotated[ServiceContext, Depends(_context)]
