"""A robot behind a PLC as the service has it: the same host, permit and guard as any other, and the PLC's watchdog."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.models import resolve
from core.models.six_upru import SixUPRU
from drivers.contract import DriverError, MotionRefused
from drivers.virtual.process import VirtualUpru6
from service.devices import Approach, DeviceSupervisor, MotionEvent, MotionFinished, MotionRequest, MotionStarted
from service.settings import RobotSettings

AUTHORITY = 60.0
DURATION = 1.0
SWAY = np.array([1.0, -1.0, 0.5, 0.5, -0.5, 0.2])


@contextlib.asynccontextmanager
async def supervised(robot: VirtualUpru6, folder: Path, **changes: Any) -> AsyncIterator[DeviceSupervisor]:
    values: dict[str, Any] = {"virtual": True, "motion_enabled": True, "ring_seconds": 30.0} | changes
    settings = RobotSettings(
        name="hexapod",
        driver="beckhoff_ads",
        model="upru6",
        host=robot.host,
        rate_hz=1000.0,
        ads={"ams_net_id": robot.net_id},
        **values,
    )
    device = DeviceSupervisor(settings, folder / "run")
    await device.start()
    try:
        await device.wait_streaming(60.0)
        device.set_authority(time.monotonic() + AUTHORITY)
        yield device
    finally:
        await device.close()


@pytest.fixture
def sway(tmp_path: Path) -> Callable[..., MotionRequest]:
    armings = itertools.count(1)
    model = resolve("upru6")
    assert isinstance(model, SixUPRU)
    home = model.leg_lengths(model.home)[0]
    t = np.arange(0.0, DURATION + 1e-9, 0.001)
    w = 2.0 * np.pi / DURATION
    path = tmp_path / "sway.npz"
    q = home + 0.01 * np.outer(1.0 - np.cos(w * t), SWAY)
    np.savez(path, t=t, q=q, qd=0.01 * w * np.outer(np.sin(w * t), SWAY))

    def make(**changes: Any) -> MotionRequest:
        values: dict[str, Any] = {
            "motion_id": "sway",
            "arming": next(armings),
            "trajectory": path,
            "approach": Approach(speed=0.2, acceleration=1.0),
            "start_tolerance": 0.01,
            "tracking_limit": (0.01,) * 6,
            "settle_time": 0.2,
        }
        return MotionRequest(**values | changes)

    return make


async def follow(
    device: DeviceSupervisor, motion: MotionRequest, during: Callable[[], object] = lambda: None
) -> list[MotionEvent]:
    events: list[MotionEvent] = []
    device.set_arming(motion.arming)
    async for event in device.play(motion):
        events.append(event)
        if len(events) == 4:
            during()
    return events


def finished(events: list[MotionEvent]) -> MotionFinished:
    assert isinstance(events[-1], MotionFinished)
    return events[-1]


async def until(condition: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def released(virtual_upru6: VirtualUpru6) -> Iterator[None]:
    yield
    virtual_upru6.request("download")  # the next test finds a PLC that remembers nothing


def test_motions_over_the_plc_and_what_is_told_of_them(
    virtual_upru6: VirtualUpru6, tmp_path: Path, sway: Callable[..., MotionRequest]
) -> None:
    async def run() -> None:
        async with supervised(virtual_upru6, tmp_path) as device:
            assert device.status.controller.model == "6-UPRU VIRTUAL"
            assert device.status.controller.virtual is True
            assert device.status.n_joints == 6
            with pytest.raises(MotionRefused) as refused:
                await follow(device, sway(tracking_limit=(0.01,)))
            assert refused.value.code == "input-invalid"
            events = await follow(device, sway())
            assert isinstance(events[0], MotionStarted)
            end = finished(events)
            assert (end.outcome, end.code) == ("completed", None), end
            assert 0.0 < max(end.max_tracking_error) < 0.005
            assert device.status.lost == 0

            table = tmp_path / "feedforward.npz"
            np.savez(table, period=0.1, current=np.full((11, 6), 0.3))
            version = await device.load_feedforward(sway().trajectory, table)
            assert version == virtual_upru6.request("statistics")["feedforward_version"] != 0
            assert await device.load_feedforward(None, None) is None
            assert virtual_upru6.request("statistics")["feedforward_version"] == 0
            table.write_bytes(b"no table")
            with pytest.raises(DriverError) as torn:
                await device.load_feedforward(sway().trajectory, table)
            assert torn.value.code == "trajectory-file-invalid"

            stops: list[asyncio.Task[None]] = []
            events = await follow(device, sway(), lambda: stops.append(asyncio.create_task(device.stop("enough"))))
            assert finished(events).outcome == "stopped"
            await stops[0]
            assert virtual_upru6.request("statistics")["end"] == "STOPPED"

            fault = {"leg": 4, "number": 0x8611}
            end = finished(await follow(device, sway(), lambda: virtual_upru6.request("drive-error", **fault)))
            assert end.outcome == "faulted"
            assert end.code in ("drive-fault", "protective-stop", "controller-fault")
            assert device.status.motion == "faulted"
            await device.reset_fault()
            assert device.status.motion == "idle"

    asyncio.run(run())


def test_a_host_that_is_killed_leaves_a_robot_that_the_plc_stops(
    virtual_upru6: VirtualUpru6, tmp_path: Path, sway: Callable[..., MotionRequest]
) -> None:
    async def run() -> None:
        async with supervised(virtual_upru6, tmp_path) as device:
            pid = device.status.pid
            assert pid is not None
            end = finished(await follow(device, sway(), lambda: os.kill(pid, signal.SIGKILL)))
            assert (end.outcome, end.code) == ("faulted", "device-host-gone")
            await until(lambda: virtual_upru6.request("statistics")["error"] == "HEARTBEAT_LOST", 2.0)
            await until(lambda: virtual_upru6.request("statistics")["mode"] == "FAULTED", 2.0)
            await device.wait_streaming(60.0)
            assert device.status.controller.stop is not None
            await device.reset_fault()
            assert virtual_upru6.request("statistics")["error"] == "NONE"

    asyncio.run(run())


def test_a_host_that_hangs_leaves_a_robot_that_the_plc_stops(
    virtual_upru6: VirtualUpru6, tmp_path: Path, sway: Callable[..., MotionRequest]
) -> None:
    """And a halt from the service's own process works, although the hung host has the link."""

    async def run() -> None:
        async with supervised(virtual_upru6, tmp_path) as device:
            pid = device.status.pid
            assert pid is not None
            end = finished(await follow(device, sway(), lambda: os.kill(pid, signal.SIGSTOP)))
            assert end.outcome == "faulted"
            await until(lambda: virtual_upru6.request("statistics")["mode"] == "FAULTED", 3.0)
            assert virtual_upru6.request("statistics")["error"] == "HEARTBEAT_LOST"

    asyncio.run(run())


def test_no_table_goes_to_a_robot_that_may_not_be_moved(
    virtual_upru6: VirtualUpru6, tmp_path: Path, sway: Callable[..., MotionRequest]
) -> None:
    async def run() -> None:
        async with supervised(virtual_upru6, tmp_path, motion_enabled=False) as device:
            table = tmp_path / "feedforward.npz"
            np.savez(table, period=0.1, current=np.full((11, 6), 0.3))
            with pytest.raises(DriverError) as refused:
                await device.load_feedforward(sway().trajectory, table)
            assert refused.value.code == "motion-disabled"
            assert virtual_upru6.request("statistics")["feedforward_version"] == 0

    asyncio.run(run())
