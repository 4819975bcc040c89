"""An engine on a real database, real worker processes and a real ring; only the robot is played."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from core.streaming.ring import RingWriter
from core.streaming.samples import sample_dtype
from drivers.contract import DriverError, MotionRefused, StopUnconfirmed
from service.devices import (
    DeviceStatus,
    MotionEvent,
    MotionFinished,
    MotionProgress,
    MotionRequest,
    MotionStarted,
)
from service.jobs import JobEngine, WorkerPool
from service.jobs.models import JobUpdate
from service.settings import RobotSettings, Settings, load_settings
from service.storage import Database, JobRow, jobs

ROBOT = "r1"
N = 6
RATE = 500.0


class FakeDevice:
    """Has the supervisor's interface and writes to a real ring; moves by writing samples faster than life."""

    def __init__(self, folder: Path) -> None:
        self.ring = RingWriter.create(folder / f"{ROBOT}.ring", N, 20000)
        self.status = DeviceStatus(
            robot=ROBOT,
            connection="streaming",
            ring_path=self.ring.path,
            ring_epoch=self.ring.epoch,
            n_joints=N,
            rate_hz=RATE,
        )
        self.authority: float | None = None
        self.arming: int | None = None
        self.requests: list[MotionRequest] = []
        self.steps = 5
        self.step_seconds = 0.01
        self.refusal: MotionRefused | None = None
        self.ends: Callable[[], MotionFinished | None] = lambda: None  # asked before every step
        self.stop_confirmed = True
        self.takes_tables = True
        self.loaded: list[dict[str, NDArray[np.float64]]] = []
        """What the controller has: the arrays of a trajectory's file and of a table's, or nothing."""
        self._stop: str | None = None
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._written = 0
        self.produce(250)  # it has stood there for a while

    def produce(self, count: int, offset: float = 0.0) -> int:
        """Write samples of a robot at work; return the new head."""
        block = np.zeros(count, sample_dtype(N))
        k = self._written + np.arange(count)
        block["sequence"] = k + 1
        block["controller_time"] = (k + 1) / RATE
        block["receive_time"] = time.monotonic_ns()
        block["torque"] = np.nan
        block["q"] = np.sin(k / RATE)[:, None] + offset
        self._written += count
        head = self.ring.push(block)
        self.status = self.status.model_copy(update={"samples": head})
        return head

    def set_authority(self, valid_until_monotonic: float | None) -> None:
        self.authority = valid_until_monotonic

    def set_arming(self, number: int | None) -> None:
        self.arming = number

    async def wait_streaming(self, timeout: float) -> None:
        assert self.status.connection == "streaming"

    async def stop(self, reason: str) -> None:
        if not self.stop_confirmed:
            raise StopUnconfirmed("no answer")
        self._stop = reason
        await self._at_rest.wait()

    async def reset_fault(self) -> None:
        self.status = self.status.model_copy(update={"motion": "idle"})

    async def load_feedforward(self, trajectory: Path | None, table: Path | None) -> int | None:
        if not self.takes_tables:
            raise DriverError("this robot's controller takes no feedforward table", code="feedforward-unsupported")
        self.loaded = [dict(np.load(path)) for path in (trajectory, table) if path is not None]
        return 7 if self.loaded else None

    async def play(self, motion: MotionRequest) -> AsyncIterator[MotionEvent]:
        self.requests.append(motion)
        if self.refusal is not None:
            raise self.refusal
        assert self.authority is not None
        assert self.arming == motion.arming
        self._stop = None
        self._at_rest.clear()
        try:
            self.produce(100)  # the approach
            yield MotionStarted(motion_id=motion.motion_id, ring_position=self.ring.head)
            for step in range(self.steps):
                await asyncio.sleep(self.step_seconds)
                self.produce(50)
                end = self.ends()
                if end is not None:
                    yield end
                    return
                if self._stop is not None:
                    yield self.finished("stopped", self._stop, code="stopped")
                    return
                fraction = (step + 1) / self.steps
                yield MotionProgress(motion_id=motion.motion_id, fraction=fraction, time=fraction)
            yield self.finished("completed", "end of the trajectory")
        finally:
            self._at_rest.set()

    def finished(self, outcome: str, reason: str, code: str | None = None) -> MotionFinished:
        head = self.ring.head
        self.produce(30)  # life goes on after the motion
        return MotionFinished(
            motion_id=self.requests[-1].motion_id,
            outcome=outcome,  # type: ignore[arg-type]
            reason=reason,
            code=code,
            ring_position=head,
            cycles=250,
            late_cycles=1,
            max_tracking_error=(0.001,) * N,
        )

    def close(self) -> None:
        self.ring.close()


@dataclass
class Bench:
    """What a test works with."""

    engine: JobEngine
    database: Database
    settings: Settings
    device: FakeDevice
    token: str = ""
    updates: dict[str, list[JobUpdate]] = field(default_factory=dict)

    async def arm(self, seconds: float = 60.0) -> str:
        guard = self.engine.guards[ROBOT]
        if guard.lease.current is None:
            self.token = (await guard.acquire_lease("test", seconds)).token
        guard.arm(self.token)
        return self.token

    def row(self, job_id: str) -> JobRow:
        with self.database.reading() as session:
            return jobs.get(session, job_id)

    async def follow(self, job_id: str, seconds: float = 30.0) -> JobUpdate:
        """Follow the job to its end; return the last update, keep all."""
        seen = self.updates.setdefault(job_id, [])
        async with asyncio.timeout(seconds):
            async for update in self.engine.subscribe(job_id):
                seen.append(update)
        return seen[-1]

    async def until(self, job_id: str, condition: Callable[[JobUpdate], bool], seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            async for update in self.engine.subscribe(job_id):
                if condition(update):
                    return
        raise AssertionError("the job ended before that")


def settings_in(folder: Path, **changes: object) -> Settings:
    robot = RobotSettings(
        name=ROBOT,
        driver="universal_robots",
        host="127.0.0.1",
        model="ur10e",
        rate_hz=RATE,
        motion_enabled=True,
        virtual=True,
    )
    values = {"workers": 1, "queue_limit": 1, "robots": {ROBOT: robot.model_dump()}, **changes}
    return load_settings(data_dir=folder / "data", runtime_dir=folder / "run", **values)


@pytest.fixture(scope="session")
def workers() -> Iterator[WorkerPool]:
    """One pool for all tests of a process: what is compiled or imported in it stays warm."""
    pool = WorkerPool(2)
    yield pool
    pool.shutdown()


@pytest.fixture
def bench(tmp_path: Path, workers: WorkerPool) -> Callable[..., object]:
    """Return an async context manager that opens an engine; twice on one folder is a restart."""

    @asynccontextmanager
    async def opened(executor: Executor = workers, **changes: object) -> AsyncIterator[Bench]:
        settings = settings_in(tmp_path, **changes)
        settings.data_dir.mkdir(exist_ok=True)
        settings.runtime_path.mkdir(exist_ok=True)
        database = Database(settings.database)
        database.create()
        device = FakeDevice(settings.runtime_path)
        engine = JobEngine(database, {ROBOT: device}, settings, executor)  # type: ignore[dict-item]
        await engine.start()
        try:
            yield Bench(engine, database, settings, device)
        finally:
            await engine.close()
            device.close()
            database.close()

    return opened
