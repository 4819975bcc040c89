"""One robot under supervision: it streams without loss, plays, stops, refuses, and is found when it is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from core.streaming.ring import RingError, RingReader
from drivers.contract import ControllerInfo, DriverError, DriverUnreachable, MotionRefused, StopUnconfirmed
from drivers.universal_robots.driver import UniversalRobotsDriver
from drivers.virtual.process import VirtualUR10e
from service.devices import (
    DeviceStatus,
    DeviceSupervisor,
    MotionEvent,
    MotionFinished,
    MotionProgress,
    MotionRequest,
)
from service.devices.heat import JointHeat
from service.devices.motion_control import MotionControl
from service.devices.watch import SampleWatch

Supervised = Callable[..., AbstractAsyncContextManager[DeviceSupervisor]]
Sway = Callable[..., MotionRequest]
Follow = Callable[..., Any]


def finished(events: list[MotionEvent]) -> MotionFinished:
    assert isinstance(events[-1], MotionFinished)
    return events[-1]


def test_no_sample_is_lost_on_the_way_into_the_ring(
    runner: asyncio.Runner, supervised: Supervised, virtual_ur10e: VirtualUR10e
) -> None:
    async def run() -> None:
        async with supervised() as device:
            status = device.status
            assert status.ring_path is not None
            with RingReader.open(status.ring_path) as ring:
                begun = ring.head
                await asyncio.sleep(2.0)
                samples = ring.read(begun, 10_000).samples
                assert ring.epoch == status.ring_epoch
                assert ring.lost == 0
            assert samples.size > 900
            assert (np.diff(samples["sequence"].astype(np.int64)) == 1).all()
            status = device.status
            assert (status.connection, status.reason, status.motion) == ("streaming", None, "idle")
            assert (status.n_joints, status.rate_hz, status.lost, status.restarts) == (6, 500.0, 0, 0)
            assert status.samples > begun + 900
            assert status.sample_age_ms is not None
            assert status.sample_age_ms < 150.0
            assert status.realtime is not None
            controller = status.controller
            assert (controller.version, controller.serial) == ("5.25.1.0", virtual_ur10e.ready["serial"])
            assert (controller.model, controller.virtual) == ("UR10e VIRTUAL", True)
            assert (controller.mode, controller.safety, controller.program_running) == ("RUNNING", "NORMAL", False)

    runner.run(run())


def test_a_motion_from_approach_to_rest(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow
) -> None:
    async def run() -> None:
        async with supervised() as device:
            events = await follow(device, sway())
            started, end = events[0], finished(events)
            assert (end.outcome, end.code) == ("completed", None)
            progress = [event for event in events if isinstance(event, MotionProgress)]
            assert [event.fraction for event in progress] == sorted(event.fraction for event in progress)
            assert progress[-1].fraction == 1.0
            assert len(progress) == 13  # ten a second
            assert end.cycles > 600
            assert len(end.max_tracking_error) == 6
            assert 0.0 < max(end.max_tracking_error) < 0.01
            assert device.status.ring_path is not None
            with RingReader.open(device.status.ring_path) as ring:
                read = ring.read(started.ring_position, end.ring_position - started.ring_position)
                assert (ring.lost, read.lapped) == (0, 0)
            q = read.samples["q"][:, 0]
            assert abs(q[0]) < 0.01
            assert abs(q[-1]) < 0.01
            assert q.max() == pytest.approx(0.3, abs=0.01)
            assert device.status.motion == "idle"

    runner.run(run())


def test_stop_returns_when_the_robot_is_at_rest_and_may_be_repeated(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    async def run() -> None:
        async with supervised() as device:
            stops: list[asyncio.Task[None]] = []

            def stop() -> None:
                stops.extend(asyncio.create_task(device.stop("that will do")) for _ in range(2))

            end = finished(await follow(device, sway(), stop))
            assert (end.outcome, end.reason) == ("stopped", "that will do")
            await asyncio.gather(*stops)
            await eye.until(moving=False, seconds=0.3)
            await device.stop("of nothing")
            assert finished(await follow(device, sway("again"))).outcome == "completed"  # nothing is latched

    runner.run(run())


def test_a_motion_nobody_follows_is_stopped(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, eye: Any
) -> None:
    async def run() -> None:
        async with supervised() as device:
            followed, waiting_one = sway(), sway("waiting")
            device.set_arming(followed.arming)
            async with aclosing(device.play(followed)) as events:
                async for event in events:
                    if isinstance(event, MotionProgress):
                        break
            await eye.until(moving=False, seconds=1.0)
            device.set_arming(waiting_one.arming)
            waiting = asyncio.create_task(anext(device.play(waiting_one)))  # cut off before it is accepted
            await asyncio.sleep(0.05)
            waiting.cancel()
            while device.status.motion != "idle":
                await asyncio.sleep(0.01)
            await eye.until(moving=False, seconds=1.0)

    runner.run(run())


def test_motion_needs_authority_from_first_to_last(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    async def run() -> None:
        async with supervised() as device:
            device.set_authority(None)
            with pytest.raises(MotionRefused) as refused:
                await follow(device, sway())
            assert refused.value.code == "no-authority"
            device.set_authority(time.monotonic() + 60.0)
            end = finished(await follow(device, sway(), lambda: device.set_authority(time.monotonic() + 0.1)))
            assert (end.outcome, end.code) == ("stopped", "authority-lapsed")
            await eye.until(moving=False, seconds=0.3)

    runner.run(run())


def test_one_arming_is_good_for_one_motion_unless_a_stop_comes_first(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    """The host decides, so that a stop also prevents a motion that is on its way."""

    async def refusal(device: DeviceSupervisor, motion: MotionRequest) -> str:
        with pytest.raises(MotionRefused) as refused:
            await anext(device.play(motion))
        return refused.value.code

    async def run() -> None:
        async with supervised() as device:
            overtaken, played = sway(), sway()
            assert await refusal(device, overtaken) == "permit-withdrawn"  # nobody has armed
            device.set_arming(overtaken.arming)
            await device.stop("before it came")
            assert await refusal(device, overtaken) == "permit-withdrawn"
            assert finished(await follow(device, played)).outcome == "completed"
            assert await refusal(device, played) == "permit-withdrawn"
            assert await refusal(device, overtaken) == "permit-withdrawn"
            end = finished(await follow(device, sway(), lambda: device.set_arming(None)))
            assert (end.outcome, end.code) == ("stopped", "permit-withdrawn")
            await eye.until(moving=False, seconds=0.3)

    runner.run(run())


def test_refusals_say_why_and_move_nothing(
    runner: asyncio.Runner,
    supervised: Supervised,
    sway: Sway,
    follow: Follow,
    virtual_ur10e: VirtualUR10e,
    tmp_path: Path,
) -> None:
    async def refusal(device: DeviceSupervisor, motion: MotionRequest) -> str:
        with pytest.raises(MotionRefused) as refused:
            await follow(device, motion)
        return refused.value.code

    async def run() -> None:
        async with supervised() as device:
            far = tmp_path / "far.npz"
            with np.load(sway().trajectory) as file:
                np.savez(far, t=file["t"], q=file["q"] + 0.3, qd=file["qd"])
            assert await refusal(device, sway(trajectory=far, approach=None)) == "not-at-start"
            assert await refusal(device, sway(trajectory=tmp_path / "none.npz")) == "trajectory-file-invalid"
            assert await refusal(device, sway(tracking_limit=(0.1,))) == "input-invalid"
            virtual_ur10e.request("remote-control", on=False)
            assert await refusal(device, sway()) == "remote-control-off"
            virtual_ur10e.request("remote-control", on=True)
            motion = sway()
            device.set_arming(motion.arming)
            first = device.play(motion)
            await anext(first)
            assert await refusal(device, sway("second")) == "robot-busy"
            await device.stop("enough")
            await first.aclose()
        async with supervised(motion_enabled=False) as device:
            assert await refusal(device, sway()) == "motion-disabled"

    runner.run(run())


def test_a_virtual_controller_where_a_real_one_is_meant_is_told(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with supervised(virtual=False) as device:
            assert device.status.reason is not None
            assert "call this robot real, but its controller (UR10e VIRTUAL) is virtual" in device.status.reason
            assert finished(await follow(device, sway())).outcome == "completed"

    runner.run(run())
    assert sum("is virtual" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("info", [ControllerInfo("5.25.1.0", "1", "UR10", False), ControllerInfo("5.25.1.0", "1")])
def test_a_robot_that_should_be_virtual_and_is_not_does_not_move(info: ControllerInfo, sway: Sway) -> None:
    """No real robot is at hand, so what its acquisition would say is made up."""

    async def run() -> None:
        acquisition: Any = SimpleNamespace(connection="streaming", reason=None, info=info)
        driver, nothing, unused = UniversalRobotsDriver("127.0.0.1", 500.0), cast(Any, None), cast(Any, None)
        control = MotionControl(
            driver,
            nothing,
            SampleWatch(6),
            acquisition,
            unused,
            unused,
            JointHeat(driver.source(), None),
            motion_enabled=True,
            virtual=True,
        )
        motion = sway()
        control.heartbeat(time.monotonic() + 60.0, motion.arming)
        with pytest.raises(MotionRefused, match=f"model: {info.model}") as refused:
            await control.play(motion)
        assert refused.value.code == "not-virtual"

    asyncio.run(run())


def test_a_robot_that_is_away_is_a_status_until_it_comes(
    runner: asyncio.Runner, supervised: Supervised, loopback_host: str, sway: Sway, follow: Follow
) -> None:
    async def run() -> None:
        async with supervised(streaming=False, host=loopback_host) as device:
            while device.status.connection != "disconnected":
                await asyncio.sleep(0.01)
            with pytest.raises(DriverUnreachable, match=f"no samples within 0.2 s: {loopback_host}:30004: ") as away:
                await device.wait_streaming(0.2)
            assert away.value.code == "not-streaming"
            with pytest.raises(StopUnconfirmed, match=f"{loopback_host}:29999: "):
                await device.stop("to be sure")
            device.set_authority(time.monotonic() + 60.0)
            with pytest.raises(MotionRefused, match=f"not streaming: {loopback_host}:30004") as refused:
                await follow(device, sway())
            assert refused.value.code == "not-streaming"
            with VirtualUR10e(loopback_host, seed=2):
                await device.wait_streaming(15.0)
                assert device.status.reason is None
            while device.status.connection != "disconnected":
                await asyncio.sleep(0.01)

    runner.run(run())


def test_a_dropped_connection_is_taken_up_again_with_its_gap(
    runner: asyncio.Runner, supervised: Supervised, virtual_ur10e: VirtualUR10e
) -> None:
    async def run() -> None:
        async with supervised() as device:
            assert device.status.ring_path is not None
            with RingReader.open(device.status.ring_path) as ring:
                virtual_ur10e.request("drop")
                while ring.lost == 0:
                    await asyncio.sleep(0.01)
                virtual_ur10e.request("stall", seconds=0.5)
                while device.status.connection != "stale":
                    await asyncio.sleep(0.01)
                assert "no sample for more than 0.2 s" in (device.status.reason or "")
                await device.wait_streaming(2.0)
                await asyncio.sleep(0.1)
                samples = ring.read(0, 10_000).samples
                missing = np.diff(samples["sequence"].astype(np.int64)) - 1
                np.testing.assert_array_equal(missing, samples["lost"][1:])
                assert np.count_nonzero(missing) == 2
                assert ring.lost == missing.sum() > 200
            assert device.status.restarts == 0

    runner.run(run())


def test_nothing_is_left_behind(virtual_ur10e: VirtualUR10e, tmp_path: Path) -> None:
    from service.settings import RobotSettings

    async def run() -> None:
        seen: list[DeviceStatus] = []
        robot = RobotSettings(name="cell1", driver="universal_robots", model="ur10e", host=virtual_ur10e.host)
        device = DeviceSupervisor(robot, tmp_path / "run", seen.append)
        with pytest.raises(DriverError, match="cell1"):
            await device.reset_fault()  # before it was started
        await device.start()
        await device.wait_streaming(30.0)
        assert seen[0].connection == "starting"
        assert seen[-1] == device.status
        pid = device.status.pid
        await device.close()
        await device.close()
        assert not Path(f"/proc/{pid}").exists()
        assert list((tmp_path / "run").iterdir()) == []
        with pytest.raises(RingError, match="there is no ring"):
            RingReader.open(tmp_path / "run" / "cell1.ring")
        never_started = DeviceSupervisor(robot, tmp_path / "run")
        await never_started.close()

    asyncio.run(run())
