"""One drift monitor for each robot that has it switched on: started, followed, and started anew where it has to be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.devices import DeviceSupervisor
from service.monitoring.messages import JointTrip, MonitorOrder, MonitorReport
from service.settings import Settings
from service.storage import Database, ResultState, events, results

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_END_SECONDS = 5.0
_SILENT_SECONDS = 60.0
"""A monitor that says nothing for so long is ended; loading its compiled code takes a while the first time."""


@dataclass(frozen=True)
class DriftState:
    """How a robot's monitor stands.

    Attributes
    ----------
    result_id : the result in force that it compares with.
    learned, level : per joint, see `core.pipelines.drift_monitor.DriftMonitor`.
    tripped : joints, from 1, that have drifted since this monitor was started.
    trips : how often, since the service started.
    """

    result_id: str
    learned: tuple[float, ...]
    level: tuple[float, ...]
    tripped: tuple[int, ...]
    trips: int


class DriftWatch:
    """The monitor of one robot. ``state`` is None while there is nothing to compare, or no monitor."""

    def __init__(self, device: DeviceSupervisor, database: Database, folder: Path) -> None:
        self.state: DriftState | None = None
        self._device, self._database, self._folder = device, database, folder
        self._trips = 0

    @property
    def robot(self) -> str:
        return self._device.robot.name

    async def run(self) -> None:
        """Have a monitor while there is a stream and a result in force; for a task."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if await self._watched():
                    pause = _FIRST_PAUSE
            except Exception:  # whatever it is, the next try may do, and nothing else depends on this one
                log.exception("drift monitor of %s", self.robot)
            self.state = None
            await asyncio.sleep(pause)
            pause = min(2.0 * pause, _LONGEST_PAUSE) if self._in_stream else _FIRST_PAUSE

    @property
    def _in_stream(self) -> bool:
        return self._device.status.connection == "streaming" and self._device.status.ring_path is not None

    async def _watched(self) -> bool:
        """Start a monitor if it has anything to do, and follow it; return whether it said anything."""
        active = await asyncio.to_thread(self._active)
        if active is None or not self._in_stream:
            return False
        document = self._folder / f"{self.robot}.drift.json"
        await asyncio.to_thread(self._write, active, document)
        ring, rate = self._device.status.ring_path, self._device.robot.rate_hz
        assert ring is not None  # noqa: S101 - of _in_stream
        order = MonitorOrder(ring=ring, document=document, rate=rate)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "service.monitoring.monitor"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            assert process.stdin is not None and process.stdout is not None  # noqa: S101 - piped above
            process.stdin.write(order.model_dump_json().encode() + b"\n")
            return await self._followed(process.stdout, active)
        finally:
            await _ended(process)

    async def _followed(self, said: asyncio.StreamReader, result_id: str) -> bool:
        """Take reports in until the monitor ends, or another result is in force; return whether there was one."""
        tripped: set[int] = set()
        spoken = False
        while True:
            line = await asyncio.wait_for(said.readline(), _SILENT_SECONDS)
            if not line:
                return spoken
            report = MonitorReport.model_validate_json(line)
            spoken = True
            fresh = [trip for trip in report.trips if trip.joint not in tripped]
            if fresh:  # a joint that stays as it is trips again and again, and has been told of
                tripped |= {trip.joint for trip in fresh}
                self._trips += len(fresh)
                await asyncio.to_thread(self._tell, fresh, result_id)
            self.state = DriftState(
                result_id, tuple(report.learned), tuple(report.level), tuple(sorted(tripped)), self._trips
            )
            if await asyncio.to_thread(self._active) != result_id:
                return spoken

    def _active(self) -> str | None:
        with self._database.reading() as session:
            found = results.find(session, robot=self.robot, state=ResultState.ACTIVE, limit=1)
            return found[0].id if found else None

    def _write(self, result_id: str, file: Path) -> None:
        with self._database.reading() as session:
            file.write_text(json.dumps(results.get(session, result_id).document), encoding="utf-8")

    def _tell(self, trips: Sequence[JointTrip], result_id: str) -> None:
        joints = ", ".join(f"joint {t.joint} by {t.kind} ({t.torque:+.3g})" for t in trips)
        message = f"{self.robot} drifts from the result in force: {joints}; calibrate it"
        log.warning("%s", message)
        details = [trip.model_dump() for trip in trips]
        with self._database.session() as session:
            events.record(session, "drift.tripped", message, subject=result_id, robot=self.robot, trips=details)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Have the monitor end: its input ends, and if that is not enough it is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def open_watches(
    settings: Settings, devices: Mapping[str, DeviceSupervisor], database: Database
) -> AsyncIterator[Mapping[str, DriftWatch]]:
    """Watch the robots whose settings say so, until the end of the block."""
    watches = {
        name: DriftWatch(devices[name], database, settings.runtime_path)
        for name, robot in settings.robots.items()
        if robot.drift_monitor
    }
    tasks = [asyncio.create_task(watch.run(), name=f"drift of {name}") for name, watch in watches.items()]
    try:
        yield watches
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
