"""A robot whose protocol a file describes, under supervision: the same permit, watch and stops as any other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.streaming.ring import RingReader
from core.streaming.samples import STATUS_MOVING, STATUS_PROGRAM_RUNNING
from drivers.contract import MotionRefused
from drivers.virtual.process import VirtualComanR5
from service.devices import Approach, DeviceSupervisor, MotionFinished, MotionRequest
from service.settings import RobotSettings

HOME = np.array([0.0, 0.0, 1.2, 0.3, 0.9, 0.0])
PERIOD = 1.2


@contextlib.asynccontextmanager
async def supervised(robot: VirtualComanR5, folder: Path, **changes: Any) -> AsyncIterator[DeviceSupervisor]:
    values = {"rate_hz": 1000.0, "layout": "coman_r5", "virtual": True, "motion_enabled": True} | changes
    settings = RobotSettings(name="cell1", driver="vendor_socket", host=robot.host, model="coman_r5", **values)
    device = DeviceSupervisor(settings, folder / "run")
    await device.start()
    try:
        await device.wait_streaming(30.0)
        device.set_authority(time.monotonic() + 60.0)
        yield device
    finally:
        await device.close()


def sway(folder: Path, arming: int, slow: float = 1.0) -> MotionRequest:
    t = np.arange(0.0, slow * PERIOD + 1e-9, 0.004)
    w = 2 * np.pi / (slow * PERIOD)
    joints = np.array([1.0, 0.0, 0.5, 0.0, 0.0, 1.0]) * 0.15
    path = folder / "sway.npz"
    np.savez(path, t=t, q=HOME + joints * (1 - np.cos(w * t))[:, None], qd=joints * w * np.sin(w * t)[:, None])
    return MotionRequest(
        motion_id="sway",
        arming=arming,
        trajectory=path,
        approach=Approach(speed=1.0, acceleration=2.0),
        start_tolerance=0.01,
        tracking_limit=(0.1,) * 6,
        settle_time=0.1,
    )


async def play(
    device: DeviceSupervisor, motion: MotionRequest, during: Callable[[], object] = lambda: None
) -> MotionFinished:
    """Play to the end; ``during`` is called once, when it is under way."""
    device.set_arming(motion.arming)
    events = []
    async for event in device.play(motion):
        events.append(event)
        if len(events) == 4:
            during()
    assert isinstance(events[-1], MotionFinished)
    return events[-1]


def test_it_streams_plays_and_records_what_it_did(virtual_coman_r5: VirtualComanR5, tmp_path: Path) -> None:
    async def run() -> None:
        async with supervised(virtual_coman_r5, tmp_path) as device:
            status = device.status
            assert (status.n_joints, status.controller.model, status.controller.virtual) == (
                6,
                "COMAN R5 VIRTUAL",
                True,
            )
            assert status.ring_path is not None
            with RingReader.open(status.ring_path) as ring:
                begun = ring.head
                finish = await play(device, sway(tmp_path, arming=1))
                samples = ring.read(begun, 100_000).samples
                assert ring.lost == 0
            assert (finish.outcome, finish.code) == ("completed", None)
            assert max(finish.max_tracking_error) < 0.01
            np.testing.assert_allclose((samples["q"] - HOME).max(axis=0), [0.3, 0, 0.15, 0, 0, 0.3], atol=0.005)
            assert not samples["status"][-1] & (STATUS_MOVING | STATUS_PROGRAM_RUNNING)

    asyncio.run(run())


def test_a_stop_and_a_withdrawn_permit_end_it(virtual_coman_r5: VirtualComanR5, tmp_path: Path) -> None:
    async def run() -> None:
        async with supervised(virtual_coman_r5, tmp_path) as device:
            stopping: list[asyncio.Task[None]] = []
            finish = await play(
                device,
                sway(tmp_path, arming=1, slow=3.0),
                lambda: stopping.append(asyncio.create_task(device.stop("lunch"))),
            )
            await stopping[0]
            assert (finish.outcome, finish.reason) == ("stopped", "lunch")
            with pytest.raises(MotionRefused, match="used up"):
                await play(device, sway(tmp_path, arming=1))
            finish = await play(device, sway(tmp_path, arming=2, slow=3.0), lambda: device.set_arming(None))
            assert (finish.outcome, finish.code) == ("stopped", "permit-withdrawn")

    asyncio.run(run())


def test_a_host_that_is_killed_leaves_a_robot_at_rest(virtual_coman_r5: VirtualComanR5, tmp_path: Path) -> None:
    """kill -9: its motion process loses its parent and stops along the path."""

    async def run() -> None:
        async with supervised(virtual_coman_r5, tmp_path) as device:

            def kill() -> None:
                assert device.status.pid is not None
                os.kill(device.status.pid, signal.SIGKILL)

            finish = await play(device, sway(tmp_path, arming=1, slow=3.0), kill)
            assert finish.outcome == "faulted"
            deadline = time.monotonic() + 2.0
            while virtual_coman_r5.request("statistics")["mode"] != "ENABLED":
                assert time.monotonic() < deadline, "the robot is still moved"
                await asyncio.sleep(0.01)
            await device.wait_streaming(30.0)
            with pytest.raises(MotionRefused, match="reset the fault first"):
                await play(device, sway(tmp_path, arming=2))

    asyncio.run(run())


def test_a_rate_that_the_layout_has_not_is_said_with_its_remedy(
    virtual_coman_r5: VirtualComanR5, tmp_path: Path
) -> None:
    async def run() -> None:
        settings = RobotSettings(
            name="cell1", driver="vendor_socket", host=virtual_coman_r5.host, model="coman_r5", layout="coman_r5"
        )
        device = DeviceSupervisor(settings, tmp_path / "run")
        await device.start()
        try:
            deadline = time.monotonic() + 20.0
            while device.status.connection != "crashed":
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            assert device.status.reason is not None
            assert "write rate_hz = 1000" in device.status.reason
        finally:
            await device.close()

    asyncio.run(run())
