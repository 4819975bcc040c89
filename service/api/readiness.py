"""Is everything that was configured usable? Looked at when asked, never remembered."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import BrokenExecutor, Executor, Future

from core.errors import DynidError
from service.api.models import Check
from service.devices import DeviceSupervisor
from service.modbus import LimitedServer
from service.storage import Database

WORKER_SECONDS = 5.0
"""How long a worker may take to answer; the first one has to be started."""


class WorkerProbe:
    """Asks the workers for a sign of life. One question is out at a time, however many ask for readiness.

    The pool has one process more than there may be computations, so an answer never waits for one.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._asked: Future[int] | None = None

    async def check(self) -> Check:
        """Return whether a worker answers within `WORKER_SECONDS`."""
        if self._asked is None or self._asked.done():
            try:
                self._asked = self._executor.submit(os.getpid)
            except RuntimeError as error:
                return Check(name="workers", ready=False, reason=str(error))
        answer = asyncio.wrap_future(self._asked)
        done, _ = await asyncio.wait({answer}, timeout=WORKER_SECONDS)
        if not done:
            return Check(name="workers", ready=False, reason=f"none answered within {WORKER_SECONDS:g} s")
        if isinstance(answer.exception(), BrokenExecutor):
            return Check(name="workers", ready=False, reason="a worker ended abruptly; it is being replaced")
        return Check(name="workers", ready=True)


async def check_database(database: Database) -> Check:
    """Return whether the database can be read."""
    try:
        await asyncio.to_thread(database.verify)
    except DynidError as error:
        return Check(name="database", ready=False, reason=error.detail)
    return Check(name="database", ready=True)


def check_robot(name: str, device: DeviceSupervisor) -> Check:
    """Return whether the robot's samples arrive, it is the one that is meant, and nothing keeps it stopped."""
    status = device.status
    hindrance = status.controller.stop or status.reason
    if status.connection == "streaming" and hindrance is None:
        return Check(name=f"robot {name}", ready=True)
    reason = f"{status.connection}: {hindrance or 'no reason given'}"
    return Check(name=f"robot {name}", ready=False, reason=reason)


def check_modbus(server: LimitedServer) -> Check:
    """Return whether Modbus is served, and with what is true now."""
    problem = server.problem
    return Check(name="modbus", ready=problem is None, reason=problem)
