"""A robot with its guard: what its controller, its lease or its pendant does reaches permit and motion."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from drivers.contract import DriverError, MotionRefused
from drivers.virtual.process import VirtualUR10e
from service.devices import DeviceSupervisor, MotionEvent, MotionFinished, MotionRequest
from service.errors import ConflictError
from service.motion import MotionGuard, PermitState

Supervised = Callable[..., AbstractAsyncContextManager[DeviceSupervisor]]
Sway = Callable[..., MotionRequest]
Follow = Callable[..., Any]
FENCING = itertools.count(1)
SLOW = 5.0  # times the usual sway, so that there is time to interfere


@contextlib.asynccontextmanager
async def guarded(device: DeviceSupervisor) -> AsyncIterator[MotionGuard]:
    guard = MotionGuard(device.robot, device, next_fencing=lambda: next(FENCING))
    await guard.start()
    try:
        yield guard
    finally:
        await guard.close()


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def released(guard: MotionGuard, token: str) -> None:
    """Reset the fault as soon as the controller lets it be: it locks a protective stop for a while."""
    async with asyncio.timeout(5.0):
        while guard.permit.state is PermitState.FAULTED:
            try:
                await guard.reset(token)
            except DriverError as locked:
                assert locked.code == "protective-stop"
                await asyncio.sleep(0.05)


def test_a_protective_stop_at_rest_faults_the_permit_until_it_is_reset(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any, virtual_ur10e: VirtualUR10e
) -> None:
    """Also for a service that starts afterwards, which has no memory of it."""

    async def run() -> None:
        async with supervised(fresh=True) as device, guarded(device) as guard:
            assert device.status.controller.stop is None
            virtual_ur10e.request("protective-stop")
            await until(lambda: guard.permit.state is PermitState.FAULTED)
            assert guard.permit.reason == "the controller reports a protective stop"
        async with supervised(fresh=True) as device, guarded(device) as guard:
            await until(lambda: guard.permit.state is PermitState.FAULTED)
            token = (await guard.acquire_lease("test", 60.0)).token
            with pytest.raises(ConflictError, match=r"protective stop.*reset the fault first"):
                guard.arm(token)
            await released(guard, token)
            assert device.status.controller.stop is None
            guard.arm(token)
            assert guard.permit.state is PermitState.ARMED

    runner.run(run())


def test_a_fault_is_not_reset_while_the_emergency_stop_is_pressed(
    runner: asyncio.Runner, supervised: Supervised, loopback_host: str, sway: Sway, follow: Follow
) -> None:
    async def run() -> None:
        with VirtualUR10e(loopback_host, seed=3) as robot:
            async with supervised(host=loopback_host) as device, guarded(device) as guard:
                token = (await guard.acquire_lease("test", 60.0)).token
                events: list[MotionEvent] = await follow(device, sway(), lambda: robot.request("emergency-stop"))
                assert isinstance(events[-1], MotionFinished)
                assert events[-1].outcome == "faulted"
                await until(lambda: guard.permit.state is PermitState.FAULTED)
                with pytest.raises(DriverError, match="EMERGENCY_STOP, which only somebody at the robot") as refused:
                    await guard.reset(token)
                assert refused.value.code == "fault-persists"
                assert guard.permit.state is PermitState.FAULTED
                assert device.status.motion == "faulted"

    runner.run(run())


def test_a_joint_that_gets_too_hot_ends_the_motion_in_order_and_lets_none_begin(
    runner: asyncio.Runner, supervised: Supervised, virtual_ur10e: VirtualUR10e, sway: Sway, follow: Follow, eye: Any
) -> None:
    def heat(celsius: float) -> None:
        virtual_ur10e.request("temperature", joint=3, celsius=celsius)

    async def run() -> None:
        async with supervised(temperature_limit=70.0) as device:
            try:
                events: list[MotionEvent] = await follow(device, sway(slow=3.0), lambda: heat(81.5))
                end = events[-1]
                assert isinstance(end, MotionFinished)
                assert (end.outcome, end.code) == ("stopped", "joint-too-hot")
                assert "joint 3 is at 81.5 °C, allowed are 70 °C" in end.reason
                await eye.until(moving=False, seconds=0.5)
                await until(lambda: device.status.controller.joint_temperatures == (30.0, 30.0, 81.5, 30.0, 30.0, 30.0))
                with pytest.raises(MotionRefused, match="let it cool") as refused:
                    await follow(device, sway())
                assert refused.value.code == "joint-too-hot"
            finally:
                heat(30.0)
            await until(lambda: device.status.controller.joint_temperatures == (30.0,) * 6)
            events = await follow(device, sway())
            assert isinstance(events[-1], MotionFinished)
            assert events[-1].outcome == "completed"

    runner.run(run())


@pytest.mark.parametrize(
    ("ending", "reason"), [("lapse", "the lease .*lapsed"), ("release", "the lease of cell1 was released")]
)
def test_a_motion_does_not_outlive_its_lease(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, eye: Any, ending: str, reason: str
) -> None:
    async def run() -> None:
        async with supervised(fresh=True) as device, guarded(device) as guard:
            token = (await guard.acquire_lease("test", 60.0)).token
            guard.arm(token)
            arming = guard.require_ready(token)
            guard.begin_motion(arming, "test")
            events: list[MotionEvent] = []
            ended: asyncio.Task[None] | None = None
            async for event in device.play(sway(slow=SLOW, arming=arming)):
                events.append(event)
                if len(events) == 4 and ending == "lapse":
                    guard.renew_lease(token, 1.0)
                elif len(events) == 4:
                    ended = asyncio.create_task(guard.release_lease(token))
            await eye.until(moving=False, seconds=0.5)
            end = events[-1]
            assert isinstance(end, MotionFinished)
            assert end.outcome == "stopped"
            assert re.search(reason, end.reason), end.reason
            if ended is not None:
                await ended
            guard.end_motion(end.reason)  # as the job does
            assert guard.permit.state is PermitState.DISARMED

    runner.run(run())


def test_remote_control_switched_off_while_the_robot_moves(
    runner: asyncio.Runner, supervised: Supervised, sway: Sway, follow: Follow, eye: Any, virtual_ur10e: VirtualUR10e
) -> None:
    """Whoever does it stands at the pendant: the motion may go on or end, but is always accounted for."""

    async def run() -> None:
        async with supervised(fresh=True) as device:
            try:
                events = await follow(device, sway(), lambda: virtual_ur10e.request("remote-control", on=False))
                end = events[-1]
                assert isinstance(end, MotionFinished)
                assert end.outcome in ("completed", "faulted")
                await eye.until(moving=False, seconds=0.5)
            finally:
                virtual_ur10e.request("remote-control", on=True)
            if end.outcome == "faulted":
                await device.reset_fault()
            assert (await follow(device, sway("again")))[-1].outcome == "completed"

    runner.run(run())
