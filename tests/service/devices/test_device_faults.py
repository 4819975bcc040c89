"""Whatever dies, hangs or goes wrong while the robot moves: it comes to rest, and everybody is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from core.streaming.ring import RingReader
from drivers.contract import (
    KEEP_ALIVE_PERIOD,
    ApproachSpeed,
    MotionFinish,
    MotionPlayer,
    MotionRefused,
    StopUnconfirmed,
)
from drivers.virtual.process import VirtualUR10e
from service.devices import DeviceSupervisor, MotionEvent, MotionFinished, MotionRequest

Supervised = Callable[..., AbstractAsyncContextManager[DeviceSupervisor]]
Sway = Callable[..., MotionRequest]
Follow = Callable[..., Any]


def finished(events: list[MotionEvent]) -> MotionFinished:
    assert isinstance(events[-1], MotionFinished)
    return events[-1]


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def host_of(device: DeviceSupervisor) -> int:
    assert device.status.pid is not None
    return device.status.pid


async def gone(pid: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, f"process {pid} is still there after {seconds} s"
        await asyncio.sleep(0.01)


def test_the_device_host_is_killed(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    """Noticed at once, the robot rests, a new host streams, and nothing moves before the fault is reset."""

    async def run() -> None:
        async with supervised() as device:
            host = host_of(device)
            killed: list[float] = []

            def kill() -> None:
                os.kill(host, signal.SIGKILL)
                killed.append(time.monotonic())

            assert device.status.ring_path is not None
            with RingReader.open(device.status.ring_path) as ring:
                end = finished(await follow(device, sway(), kill))
                assert time.monotonic() - killed[0] < 0.5
                assert (end.outcome, end.code) == ("faulted", "device-host-gone")
                assert "ended by signal SIGKILL while the robot moved" in end.reason
                assert end.ring_position == ring.head
                assert device.status.connection == "crashed"
                await eye.until(moving=False, seconds=1.5)
                await device.wait_streaming(15.0)
                assert ring.superseded
            assert (device.status.restarts, device.status.motion) == (1, "faulted")
            assert device.status.pid != host
            with pytest.raises(MotionRefused, match="reset the fault first") as refused:
                await follow(device, sway())
            assert refused.value.code == "device-faulted"
            await device.reset_fault()
            assert device.status.motion == "idle"
            assert finished(await follow(device, sway())).outcome == "completed"

    runner.run(run())


def test_the_motion_process_is_killed(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    async def run() -> None:
        async with supervised() as device:
            host = host_of(device)
            end = finished(await follow(device, sway(), lambda: os.kill(*children(host), signal.SIGKILL)))
            assert (end.outcome, end.code) == ("faulted", "motion-process-died")
            await eye.until(moving=False, seconds=0.5)
            assert (device.status.pid, device.status.lost) == (host, 0)  # acquisition did not even notice

    runner.run(run())


def test_the_motion_process_hangs_and_the_robot_is_stopped(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    async def run() -> None:
        async with supervised() as device:
            host = host_of(device)
            stops: list[asyncio.Task[None]] = []

            def hang() -> None:
                os.kill(*children(host), signal.SIGSTOP)
                stops.append(asyncio.create_task(device.stop("it hangs")))

            end = finished(await follow(device, sway(), hang))
            await stops[0]
            assert (end.outcome, end.reason) == ("stopped", "it hangs")
            assert children(host) == []
            await eye.until(moving=False, seconds=0.5)

    runner.run(run())


SERVICE = """
    import asyncio, sys, time
    from pathlib import Path
    from service.devices import Approach, DeviceSupervisor, MotionFinished, MotionProgress, MotionRequest
    from service.settings import RobotSettings

    async def main(host, runtime, trajectory):
        robot = RobotSettings(
            name="cell1", driver="universal_robots", model="ur10e", host=host, motion_enabled=True
        )
        device = DeviceSupervisor(robot, Path(runtime))
        await device.start()
        await device.wait_streaming(30.0)
        device.set_authority(time.monotonic() + 60.0)
        device.set_arming(1)
        motion = MotionRequest(
            motion_id="sway", arming=1, trajectory=trajectory, approach=Approach(speed=1.0, acceleration=2.0),
            start_tolerance=0.01, tracking_limit=(0.1,) * 6,
        )
        async for event in device.play(motion):
            if isinstance(event, MotionProgress) and 0.2 < event.time < 0.35:
                print(device.status.pid, flush=True)
            elif isinstance(event, MotionFinished):
                print("finished", event.outcome, event.code, device.status.pid, flush=True)

    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_the_service_is_killed_or_hangs(
    blow: signal.Signals, virtual_ur10e: VirtualUR10e, sway: Sway, eye: Any, tmp_path: Path
) -> None:
    async def run() -> None:
        arguments = [virtual_ur10e.host, str(tmp_path / "run"), str(sway(slow=3.0).trajectory)]
        command = [sys.executable, "-c", textwrap.dedent(SERVICE), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            try:
                assert service.stdout is not None
                host = int(await asyncio.to_thread(service.stdout.readline))
                service.send_signal(blow)
                await eye.until(moving=False, seconds=1.5)
                service.kill()
                await gone(host, 5.0)
            finally:
                service.kill()
        assert not (tmp_path / "run" / "cell1.ring").exists()

    asyncio.run(run())


def test_a_service_that_was_held_up_hears_what_its_host_said_meanwhile(
    virtual_ur10e: VirtualUR10e, sway: Sway, eye: Any, tmp_path: Path
) -> None:
    """The host has stopped the robot and is well; it is not to be condemned for the silence of the service."""

    async def run() -> None:
        arguments = [virtual_ur10e.host, str(tmp_path / "run"), str(sway(slow=3.0).trajectory)]
        command = [sys.executable, "-c", textwrap.dedent(SERVICE), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            try:
                assert service.stdout is not None
                host = (await asyncio.to_thread(service.stdout.readline)).strip()
                service.send_signal(signal.SIGSTOP)
                await asyncio.sleep(2.5)  # longer than a host may be silent
                service.send_signal(signal.SIGCONT)
                said = await asyncio.to_thread(service.stdout.read)
                assert said.splitlines()[-1] == f"finished faulted heartbeat-lost {host}"
                await gone(int(host), 5.0)
            finally:
                service.kill()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        ({"do": "protective-stop"}, {"protective-stop"}),
        ({"do": "stall", "seconds": 1.0}, {"samples-stale"}),
        ({"do": "drop"}, {"samples-stale", "connection-lost", "motion-process-died", "program-stopped"}),
    ],
    ids=lambda value: value.get("do") if isinstance(value, dict) else "",
)
def test_faults_of_the_controller(
    runner: asyncio.Runner,
    supervised: Supervised,
    sway: Sway,
    follow: Follow,
    eye: Any,
    virtual_ur10e: VirtualUR10e,
    fault: dict[str, Any],
    codes: set[str],
) -> None:
    async def run() -> None:
        async with supervised() as device:
            end = finished(await follow(device, sway(), lambda: virtual_ur10e.request(**fault)))
            assert end.outcome == "faulted"
            assert end.code in codes
            await eye.until(moving=False, seconds=2.0)
            assert device.status.motion == "faulted"
            await asyncio.sleep(0.2)  # the controller's own lock time after a protective stop
            await device.reset_fault()
            await device.wait_streaming(15.0)
            assert device.status.motion == "idle"
            while device.status.controller.safety != "NORMAL":
                await asyncio.sleep(0.01)

    runner.run(run())


def test_a_robot_that_leaves_its_target(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    """No controller follows to a tenth of a microradian."""

    async def run() -> None:
        async with supervised() as device:
            request = sway(tracking_limit=(0.1, 0.1, 1e-7, 0.1, 0.1, 0.1))
            device.set_arming(request.arming)
            events = [event async for event in device.play(request)]
            end = finished(events)
            assert (end.outcome, end.code) == ("faulted", "tracking-error")
            assert "joint 3 is 0.0" in end.reason
            await eye.until(moving=False, seconds=0.5)

    runner.run(run())


def test_a_stop_does_not_wait_for_a_host_that_hangs(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    """The motion process goes on by itself, and the service has not yet given the host up."""

    async def run() -> None:
        async with supervised() as device:
            stops: list[asyncio.Task[None]] = []

            def hang() -> None:
                os.kill(host_of(device), signal.SIGSTOP)
                stops.append(asyncio.create_task(device.stop("it hangs")))

            end = finished(await follow(device, sway(slow=5.0), hang))
            assert (end.outcome, end.code) == ("faulted", "device-host-gone")
            with pytest.raises(StopUnconfirmed, match="the controller was told to stop"):
                await stops[0]
            await eye.until(moving=False, seconds=0.5)

    runner.run(run())


def test_a_host_that_hangs_does_not_leave_the_robot_to_itself(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any
) -> None:
    """Its motion process stops by itself, long before the service gives the host up."""

    async def run() -> None:
        async with supervised() as device:
            host = host_of(device)

            def hang() -> None:
                os.kill(host, signal.SIGSTOP)
                rest.append(asyncio.create_task(eye.until(moving=False, seconds=1.0)))

            rest: list[asyncio.Task[float]] = []
            events = asyncio.create_task(follow(device, sway(slow=5.0), hang))
            while not rest:
                await asyncio.sleep(0.01)
            await rest[0]
            os.kill(host, signal.SIGCONT)
            end = finished(await events)
            assert (end.outcome, end.code) == ("faulted", "device-host-silent")
            assert device.status.pid == host

    runner.run(run())


class Proceeding:
    """Lets a motion that no device host knows of begin, and says when it is under way and when it is over."""

    def __init__(self, player: MotionPlayer) -> None:
        self.under_way, self.over = threading.Event(), threading.Event()
        self._player = player

    def accepted(self) -> None: ...

    def at_start(self) -> None:
        self._player.proceed()

    def progress(self, time: float) -> None:
        self.under_way.set()

    def finished(self, finish: MotionFinish) -> None:
        self.over.set()

    async def watch(self) -> None:
        while not self.over.is_set():
            self._player.keep_alive()
            await asyncio.sleep(KEEP_ALIVE_PERIOD)


def test_a_stop_does_not_wait_for_a_host_that_starts(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, eye: Any
) -> None:
    """Somebody else moves the robot; a host takes seconds to start."""

    async def run() -> None:
        player = eye.driver.player(sway(slow=10.0).trajectory, ApproachSpeed(1.0, 2.0), settle_time=0.0)
        foreign = Proceeding(player)
        player.start(foreign)
        watching = asyncio.create_task(foreign.watch())
        assert await asyncio.to_thread(foreign.under_way.wait, 30.0)
        async with supervised(streaming=False) as device:
            stopping = asyncio.create_task(device.stop("at once"))
            await asyncio.to_thread(foreign.over.wait, 30.0)
            assert device.status.reason == "the device host is starting"
            await eye.until(moving=False, seconds=2.0)
            with contextlib.suppress(StopUnconfirmed):  # the host may take longer than a stop waits for it
                await stopping
        await watching

    runner.run(run())


def test_a_device_host_that_hangs_is_replaced(runner: asyncio.Runner, supervised: Supervised) -> None:
    async def run() -> None:
        async with supervised() as device:
            host = host_of(device)
            os.kill(host, signal.SIGSTOP)
            while device.status.connection != "crashed":
                await asyncio.sleep(0.01)
            assert device.status.reason == "the device host said nothing for 1.5 s and was ended"
            await device.wait_streaming(15.0)
            assert device.status.pid != host
            assert device.status.motion == "idle"

    runner.run(run())


def test_a_device_host_that_cannot_work_says_why(
    runner: asyncio.Runner, supervised: Supervised, tmp_path: Path
) -> None:
    """Something that is not a ring lies where the ring should be."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "cell1.ring").write_text("precious")

    async def run() -> None:
        async with supervised(streaming=False, runtime=tmp_path / "run") as device:
            while device.status.restarts < 2:
                await asyncio.sleep(0.01)
            assert device.status.connection in ("crashed", "starting")
            assert "exit code 2: " in (device.status.reason or "")
            assert "not a ring lies there; remove it first" in (device.status.reason or "")

    runner.run(run())
