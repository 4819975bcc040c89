"""What the mailbox's commands do. Each is audited, with Modbus as the one who asked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping

from core.errors import DynidError
from service.jobs.calibration_profiles import calibrate_request
from service.jobs.context import in_view
from service.jobs.engine import JobEngine
from service.jobs.models import JobKind, JobUpdate
from service.modbus.mailbox import Handler
from service.modbus.register_map import Answer, Command
from service.motion import MotionGuard
from service.settings import ModbusSettings, RobotSettings
from service.storage import Database, audit, events, feedforward
from service.storage.identifiers import new_id

log = logging.getLogger(__name__)

PRINCIPAL = "modbus"
LEASE_SECONDS = 10.0


def handlers_of(
    settings: ModbusSettings, robot: RobotSettings, engine: JobEngine, database: Database
) -> Mapping[Command, Handler]:
    """Return what carries out the commands that the settings permit for a robot."""
    handlers: dict[Command, Handler] = {}
    if "acknowledge" in settings.commands:
        handlers[Command.ACKNOWLEDGE] = _acknowledge(database, robot.name)
    profile = settings.calibrations.get(robot.name)
    if "start_calibration" in settings.commands and profile is not None:
        handlers[Command.START_CALIBRATION] = _calibrate(engine, database, robot, profile)
    return handlers


def _acknowledge(database: Database, robot: str) -> Handler:
    def record(version: int) -> Answer:
        with database.session() as session:
            newest = feedforward.find(session, robot=robot, limit=1)
            known = bool(newest) and newest[0].version == version
            audit.record(
                session,
                principal=PRINCIPAL,
                action="acknowledge table over Modbus",
                robot=robot,
                request_id=new_id("mbs"),
                version=version,
                taken=known,
            )
            if known:
                events.record(
                    session,
                    "feedforward.acknowledged",
                    f"a Modbus client took over feedforward table version {version} of {robot}",
                    subject=newest[0].id,
                    robot=robot,
                )
            return Answer.DONE if known else Answer.REFUSED

    async def acknowledge(version: int) -> Answer:
        return await asyncio.to_thread(record, version)

    return acknowledge


def _calibrate(engine: JobEngine, database: Database, robot: RobotSettings, profile: str) -> Handler:
    guard = engine.guards[robot.name]

    def asked(request_id: str, **details: object) -> None:
        with database.session() as session:
            audit.record(
                session,
                principal=PRINCIPAL,
                action="start calibration over Modbus",
                robot=robot.name,
                request_id=request_id,
                profile=profile,
                **details,
            )

    async def calibrate(_: int) -> Answer:
        request_id = new_id("mbs")
        await asyncio.to_thread(asked, request_id, stage="asked")
        answer, job = Answer.REFUSED, None
        try:
            request = await in_view(database, calibrate_request, robot, profile)
            async with _lease(guard) as token:
                guard.arm(token)
                job = (await engine.submit(JobKind.CALIBRATE, request, lease_token=token)).id
                answer = Answer.FAILED
                answer = _verdict([update async for update in engine.subscribe(job)][-1])
        except DynidError as error:
            log.warning("calibration of %s over Modbus: %s", robot.name, error.detail)
        await asyncio.to_thread(asked, request_id, stage="done", answer=answer.name.lower(), job=job)
        return answer

    return calibrate


def _verdict(end: JobUpdate) -> Answer:
    if end.result is None:
        return Answer.FAILED
    return Answer.DONE if end.result["outcome"] == "accepted" else Answer.FLAGGED


@contextlib.asynccontextmanager
async def _lease(guard: MotionGuard) -> AsyncIterator[str]:
    """Hold the robot's lease as long as the block lasts."""
    grant = await guard.acquire_lease(PRINCIPAL, LEASE_SECONDS)

    async def keep() -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 4)
            guard.renew_lease(grant.token)

    keeping = asyncio.create_task(keep(), name=f"lease of {guard.robot} for Modbus")
    try:
        yield grant.token
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with contextlib.suppress(DynidError):  # it may have lapsed, or somebody stopped the robot
            await guard.release_lease(grant.token)
