"""A supervised robot, a short motion for it, and an independent eye on what it really does."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.streaming.samples import STATUS_MOVING, STATUS_PROGRAM_RUNNING
from drivers.contract import ConnectionLost
from drivers.universal_robots.driver import UniversalRobotsDriver
from drivers.virtual.process import VirtualUR10e
from service.devices import Approach, DeviceSupervisor, MotionEvent, MotionRequest, MotionStarted
from service.settings import RobotSettings

HOME = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
PERIOD = 1.2
AUTHORITY = 60.0
ARMINGS = itertools.count(1)  # every arming is a new one, for a device that serves several tests too


class Eye:
    """Watches a robot over a connection of its own."""

    def __init__(self, host: str) -> None:
        self.driver = UniversalRobotsDriver(host, 500.0)
        self._seen: tuple[int, int] = (0, 0)  # receive time, status
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        source = self.driver.source()
        while not self._closing.is_set():
            with contextlib.suppress(ConnectionLost):
                source.connect()
                while not self._closing.is_set():
                    block = source.read(0.1)
                    if block is not None:
                        self._seen = int(block["receive_time"][-1]), int(block["status"][-1])
        source.close()

    async def until(self, *, moving: bool, seconds: float) -> float:
        """Wait until fresh samples show motion, or rest without a program; return how long that took, s."""
        begun = time.monotonic()
        while True:
            received, status = self._seen
            fresh = time.monotonic_ns() - received < 100_000_000
            if fresh and bool(status & (STATUS_MOVING if moving else STATUS_MOVING | STATUS_PROGRAM_RUNNING)) == moving:
                return time.monotonic() - begun
            if time.monotonic() - begun > seconds:
                pytest.fail(f"after {seconds} s the robot is not {'moving' if moving else 'at rest'}")
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()


@pytest.fixture
def eye(virtual_ur10e: VirtualUR10e) -> Iterator[Eye]:
    """Afterwards the robot is as the next test expects it: released, at rest, without a program."""
    with contextlib.closing(Eye(virtual_ur10e.host)) as eye:
        yield eye
        time.sleep(0.2)  # a protective stop cannot be released earlier
        eye.driver.recover()
        eye.driver.halt()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all tests of a file: a device may outlive the test that started it."""
    with asyncio.Runner() as runner:
        yield runner


class Devices:
    """Makes supervisors of one robot. One that a test leaves as good as new serves the next: starting takes seconds."""

    def __init__(self, robot: VirtualUR10e, folder: Path) -> None:
        self._robot = robot
        self._folders = (folder / str(number) for number in itertools.count())
        self._kept: DeviceSupervisor | None = None

    @contextlib.asynccontextmanager
    async def __call__(
        self, *, streaming: bool = True, fresh: bool = False, runtime: Path | None = None, **changes: Any
    ) -> AsyncIterator[DeviceSupervisor]:
        """Have a device, that by default streams and may move; a ``fresh`` one has never done so."""
        usual = streaming and not fresh and runtime is None and not changes
        kept, self._kept = self._kept, None
        if kept is not None and not usual:
            await kept.close()
            kept = None
        device = kept or await self._start(runtime or next(self._folders), changes)
        try:
            if streaming:
                await device.wait_streaming(30.0)
                device.set_authority(time.monotonic() + AUTHORITY)
            yield device
        finally:
            status = device.status
            if usual and (status.connection, status.motion, status.restarts) == ("streaming", "idle", 0):
                self._kept = device
            else:
                await device.close()

    async def close(self) -> None:
        if self._kept is not None:
            await self._kept.close()

    async def _start(self, runtime: Path, changes: dict[str, Any]) -> DeviceSupervisor:
        values = {"host": self._robot.host, "virtual": True, "motion_enabled": True, "ring_seconds": 30.0} | changes
        robot = RobotSettings(name="cell1", driver="universal_robots", model="ur10e", **values)
        device = DeviceSupervisor(robot, runtime)
        await device.start()
        return device


@pytest.fixture(scope="module")
def supervised(
    virtual_ur10e: VirtualUR10e, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Devices]:
    """Make a supervisor of the virtual robot, for use in this file's event loop."""
    devices = Devices(virtual_ur10e, tmp_path_factory.mktemp("devices"))
    yield devices
    runner.run(devices.close())


@pytest.fixture
def sway(tmp_path: Path) -> Callable[..., MotionRequest]:
    """Make a request for a sway of joints 1, 3 and 6 from the home pose and back, ``slow`` times slower."""

    def save(slow: float) -> Path:
        t = np.arange(0.0, slow * PERIOD + 1e-9, 0.002)
        w = 2 * np.pi / (slow * PERIOD)
        joints = np.array([1.0, 0.0, 0.5, 0.0, 0.0, 1.0]) * 0.15
        q = HOME + joints * (1 - np.cos(w * t))[:, None]
        path = tmp_path / f"sway-{slow:g}.npz"
        np.savez(path, t=t, q=q, qd=joints * w * np.sin(w * t)[:, None])
        return path

    def make(motion_id: str = "sway", slow: float = 1.0, **changes: Any) -> MotionRequest:
        values: dict[str, Any] = {
            "arming": next(ARMINGS),
            "trajectory": save(slow),
            "approach": Approach(speed=1.0, acceleration=2.0),
            "start_tolerance": 0.01,
            "tracking_limit": (0.1,) * 6,
            "settle_time": 0.1,
        }
        return MotionRequest(motion_id=motion_id, **values | changes)

    return make


@pytest.fixture
def follow() -> Callable[..., Any]:
    """Arm for a motion, play it to its end and return its events; ``during`` is called once, when it is under way."""

    async def follow(
        device: DeviceSupervisor, motion: MotionRequest, during: Callable[[], object] = lambda: None
    ) -> list[MotionEvent]:
        events: list[MotionEvent] = []
        device.set_arming(motion.arming)
        async for event in device.play(motion):
            events.append(event)
            if len(events) == 4:
                during()
        assert isinstance(events[0], MotionStarted)
        return events

    return follow
