"""Modbus as part of the running service: one unit per robot, kept up to date from permit, device and database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence

from core.errors import DynidError
from core.models import resolve
from service.jobs.engine import JobEngine
from service.modbus.commands import handlers_of
from service.modbus.in_force import look_up
from service.modbus.mailbox import Mailbox
from service.modbus.register_map import MOST_JOINTS
from service.modbus.server import LimitedServer
from service.modbus.unit import Unit
from service.monitoring import DriftWatch
from service.motion import MotionGuard
from service.settings import ConfigurationError, ModbusSettings, RobotSettings
from service.storage import Database

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.1
LOOK_SECONDS = 0.5
"""How often the database is asked for another result or table."""


@contextlib.asynccontextmanager
async def open_modbus(
    settings: ModbusSettings,
    robots: Mapping[str, RobotSettings],
    engine: JobEngine,
    watches: Mapping[str, DriftWatch],
    database: Database,
) -> AsyncIterator[LimitedServer]:
    """Serve the robots that have a unit, until the end of the block.

    Raises
    ------
    ConfigurationError
        A robot has more joints than the map.
    ModbusBindError
        The address cannot be listened on.
    """
    units, mailboxes, guards = [], [], engine.guards
    for robot, number in settings.units.items():
        joints = await asyncio.to_thread(_joints, robots[robot])
        mailbox = Mailbox(handlers_of(settings, robots[robot], engine, database))
        unit = Unit(number, robots[robot], joints, mailbox)
        unit.refresh(guards[robot].device.status, guards[robot].permit.state)
        units.append(unit)
        mailboxes.append(mailbox)
    server = LimitedServer(
        [unit.device for unit in units],
        settings.host,
        settings.port,
        limit=settings.max_connections,
        idle=settings.idle_seconds,
    )
    await server.start()
    upkeep = asyncio.create_task(_keep_up(server, units, guards, watches, database), name="modbus")
    try:
        yield server
    finally:
        upkeep.cancel()
        await asyncio.gather(upkeep, return_exceptions=True)
        await server.shutdown()  # type: ignore[no-untyped-call]
        await asyncio.gather(*(mailbox.close() for mailbox in mailboxes))


async def _keep_up(
    server: LimitedServer,
    units: Sequence[Unit],
    guards: Mapping[str, MotionGuard],
    watches: Mapping[str, DriftWatch],
    database: Database,
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_beat(server, units, guards, watches))
            group.create_task(_follow(server, units, database))
    except Exception:
        server.stale = "registers are no longer kept up to date; the log says why"
        log.exception("Modbus registers are no longer kept up to date; their heartbeat stands still")
        raise


async def _beat(
    server: LimitedServer,
    units: Sequence[Unit],
    guards: Mapping[str, MotionGuard],
    watches: Mapping[str, DriftWatch],
) -> None:
    while True:
        for unit in units:
            guard, watch = guards[unit.robot.name], watches.get(unit.robot.name)
            drift = () if watch is None or watch.state is None else watch.state.level
            unit.refresh(guard.device.status, guard.permit.state, drift)
        server.close_idle()
        await asyncio.sleep(BEAT_SECONDS)


async def _follow(server: LimitedServer, units: Sequence[Unit], database: Database) -> None:
    while True:
        try:
            for unit in units:
                unit.in_force = await asyncio.to_thread(look_up, database, unit.robot.name, unit.in_force)
            server.stale = None
        except DynidError as error:  # what was last known stays, and its age grows
            if server.stale is None:
                log.error("Modbus cannot look up results and tables: %s", error.detail)  # noqa: TRY400
            server.stale = f"results and tables cannot be looked up: {error.detail}"
        await asyncio.sleep(LOOK_SECONDS)


def _joints(robot: RobotSettings) -> int:
    joints = resolve(robot.model).n_joints
    if joints > MOST_JOINTS:
        raise ConfigurationError(
            f"modbus.units.{robot.name}: {robot.model} has {joints} joints, the register map holds {MOST_JOINTS}; "
            "leave the robot out",
            robot=robot.name,
        )
    return joints
