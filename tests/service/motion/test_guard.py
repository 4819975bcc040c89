import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from drivers.contract import MotionRefused, StopUnconfirmed
from service.devices import DeviceStatus
from service.devices.messages import ControllerStatus
from service.errors import ConflictError
from service.motion import MotionGuard, PermitState
from service.settings import RobotSettings


class Device:
    """Stands in for the supervisor: the guard's part of its interface."""

    def __init__(self) -> None:
        self.status = DeviceStatus(robot="r1", connection="streaming", rate_hz=500.0)
        self.authority: list[float | None] = []
        self.armings: list[int | None] = []
        self.stops: list[str] = []
        self.stoppable = True
        self.fault_clears = True

    def set_authority(self, valid_until_monotonic: float | None) -> None:
        self.authority.append(valid_until_monotonic)

    def set_arming(self, number: int | None) -> None:
        self.armings.append(number)

    async def stop(self, reason: str) -> None:
        self.stops.append(reason)
        if not self.stoppable:
            raise StopUnconfirmed("127.0.0.1:29999: no answer to stop")

    async def reset_fault(self) -> None:
        if self.fault_clears:
            self.set(motion="idle", reason=None)

    def set(self, **changes: object) -> None:
        self.status = self.status.model_copy(update=changes)


@asynccontextmanager
async def guarded(
    clock: Callable[[], float] = time.monotonic, *, enabled: bool = True
) -> AsyncIterator[tuple[MotionGuard, Device]]:
    robot = RobotSettings(name="r1", driver="universal_robots", host="h", model="ur10e", motion_enabled=enabled)
    device = Device()
    numbers = itertools.count(1)
    guard = MotionGuard(robot, device, next_fencing=lambda: next(numbers), clock=clock)  # type: ignore[arg-type]
    await guard.start()
    try:
        yield guard, device
    finally:
        await guard.close()


async def until(condition: Callable[[], bool], seconds: float = 3.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


async def moving(guard: MotionGuard, seconds: float = 30.0) -> str:
    grant = await guard.acquire_lease("bench", seconds)
    guard.arm(grant.token)
    guard.begin_motion(guard.require_ready(grant.token), "job 1")
    return grant.token


def test_arming_needs_setting_lease_and_samples() -> None:
    async def scenario() -> None:
        async with guarded(enabled=False) as (guard, _):
            grant = await guard.acquire_lease("bench", 30.0)
            with pytest.raises(ConflictError) as refused:
                guard.arm(grant.token)
            assert refused.value.code == "motion-disabled"
        async with guarded() as (guard, device):
            with pytest.raises(ConflictError) as refused:
                guard.arm(None)
            assert refused.value.code == "lease-required"
            grant = await guard.acquire_lease("bench", 30.0)
            device.set(connection="stale", reason="no sample for 0.5 s")
            with pytest.raises(ConflictError, match=r"stale \(no sample for 0.5 s\)") as refused:
                guard.arm(grant.token)
            assert refused.value.code == "robot-not-streaming"
            device.set(connection="streaming", reason=None)
            guard.arm(grant.token)
            assert guard.require_ready(grant.token) == 1
            assert device.authority == [grant.valid_until]

    asyncio.run(scenario())


def test_a_lease_that_lapses_stops_the_motion_and_takes_the_authority() -> None:
    async def scenario() -> None:
        async with guarded() as (guard, device):
            await moving(guard, seconds=1.0)
            await until(lambda: bool(device.stops))
            assert device.stops == ["the lease of r1 lapsed"]
            assert guard.permit.state is PermitState.STOPPING
            await until(lambda: device.authority[-1] is None)
            guard.end_motion("at rest")
            assert guard.permit.state is PermitState.DISARMED

    asyncio.run(scenario())


def test_releasing_the_lease_disarms_or_stops() -> None:
    async def scenario() -> None:
        async with guarded() as (guard, device):
            grant = await guard.acquire_lease("bench", 30.0)
            guard.arm(grant.token)
            await guard.release_lease(grant.token)
            assert guard.permit.state is PermitState.DISARMED
            assert device.stops == []
            token = await moving(guard)
            await guard.release_lease(token)
            assert device.stops == ["the lease of r1 was released"]
            assert guard.permit.state is PermitState.STOPPING
            assert device.authority[-1] is None

    asyncio.run(scenario())


def test_the_next_holder_inherits_neither_arm_nor_motion() -> None:
    async def scenario() -> None:
        now = [0.0]
        async with guarded(lambda: now[0]) as (guard, device):
            first = await guard.acquire_lease("first", 5.0)
            guard.arm(first.token)
            arming = guard.require_ready(first.token)
            now[0] += 5.0
            second = await guard.acquire_lease("second", 5.0)
            assert second.fencing > first.fencing
            assert guard.permit.state is PermitState.DISARMED
            guard.arm(second.token)
            with pytest.raises(ConflictError, match="armed again since") as refused:
                guard.begin_motion(arming, "the first one's motion")
            assert refused.value.code == "arming-ended"
            guard.begin_motion(guard.require_ready(second.token), "the second one's")
            now[0] += 5.0
            await guard.acquire_lease("third", 5.0)
            assert device.stops == ["the lease of r1 lapsed"]

    asyncio.run(scenario())


def test_a_motion_belongs_to_the_arming_under_which_it_was_asked_for() -> None:
    async def scenario() -> None:
        async with guarded() as (guard, device):
            token = (await guard.acquire_lease("bench", 30.0)).token
            guard.arm(token)
            first = guard.require_ready(token)
            ended: list[str] = []
            with guard.preparing(first, ended.append):
                await guard.stop("button")
                assert ended == ["button"]
                guard.arm(token)
                second = guard.require_ready(token)
                assert second > first
                with pytest.raises(ConflictError, match="armed again since") as ended_before:
                    guard.begin_motion(first, "job 1")
                assert ended_before.value.code == "arming-ended"
            with pytest.raises(ConflictError), guard.preparing(first, ended.append):
                pytest.fail("its arming has ended")
            with guard.preparing(second, ended.append):
                guard.begin_motion(second, "job 2")
            guard.require_moving(second)
            for arming in (first, second):
                if arming == second:
                    await guard.stop("button")
                with pytest.raises(MotionRefused, match="stopped before the motion began"):
                    guard.require_moving(arming)
            guard.end_motion("at rest")
            assert ended == ["button"]
            assert device.armings == [first, None, second, second, second, None]

    asyncio.run(scenario())


def test_stop_needs_no_lease_and_an_unconfirmed_one_latches() -> None:
    async def scenario() -> None:
        async with guarded() as (guard, device):
            await guard.stop("button")  # nothing moves: passed on all the same
            assert guard.permit.state is PermitState.DISARMED
            device.stoppable = False
            with pytest.raises(StopUnconfirmed):
                await guard.stop("button")
            assert guard.permit.state is PermitState.DISARMED  # this service moved nothing
            token = await moving(guard)
            with pytest.raises(StopUnconfirmed):
                await guard.stop("button")
            assert guard.permit.state is PermitState.FAULTED
            guard.end_motion("over")
            assert guard.permit.state is PermitState.FAULTED
            with pytest.raises(ConflictError):
                guard.arm(token)

    asyncio.run(scenario())


def test_a_device_fault_latches_until_the_device_has_recovered() -> None:
    async def scenario() -> None:
        async with guarded() as (guard, device):
            token = await moving(guard)
            device.set(motion="faulted", reason="protective stop")
            await until(lambda: guard.permit.state is PermitState.FAULTED)
            assert guard.permit.reason == "protective stop"
            with pytest.raises(ConflictError) as refused:
                await guard.reset(None)
            assert refused.value.code == "lease-required"
            await guard.reset(token)
            assert guard.permit.state is PermitState.DISARMED
            with pytest.raises(ConflictError, match="nothing to reset"):
                await guard.reset(token)

    asyncio.run(scenario())


def test_a_stop_of_the_controller_faults_the_permit_from_any_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.motion.guard.RESET_SECONDS", 0.2)
    stopped, free = ControllerStatus(stop="the controller reports an emergency stop"), ControllerStatus()

    async def scenario() -> None:
        async with guarded() as (guard, device):
            token = (await guard.acquire_lease("bench", 30.0)).token
            device.set(controller=stopped)
            with pytest.raises(ConflictError, match=r"emergency stop.*reset the fault first") as refused:
                guard.arm(token)  # before the guard has looked by itself
            assert refused.value.code == "permit-transition"
            assert guard.permit.state is PermitState.FAULTED
            with pytest.raises(ConflictError, match="emergency stop") as refused:
                await guard.reset(token)
            assert refused.value.code == "fault-persists"
            device.set(controller=free)
            assert guard.permit.state is PermitState.FAULTED  # until somebody has looked
            await guard.reset(token)
            for ready in (lambda: None, lambda: guard.arm(token)):
                ready()
                device.set(controller=stopped)
                await until(lambda: guard.permit.state is PermitState.FAULTED)
                device.set(controller=free)
                await guard.reset(token)

    asyncio.run(scenario())


def test_a_fault_that_persists_is_not_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.motion.guard.RESET_SECONDS", 0.2)

    async def scenario() -> None:
        async with guarded() as (guard, device):
            grant = await guard.acquire_lease("bench", 30.0)
            device.fault_clears = False
            device.set(motion="faulted", reason="emergency stop")
            await until(lambda: guard.permit.state is PermitState.FAULTED)
            with pytest.raises(ConflictError, match="emergency stop") as refused:
                await guard.reset(grant.token)
            assert refused.value.code == "fault-persists"
            assert guard.permit.state is PermitState.FAULTED

    asyncio.run(scenario())


def test_an_armed_robot_that_stops_streaming_is_disarmed() -> None:
    async def scenario() -> None:
        async with guarded() as (guard, device):
            guard.arm((await guard.acquire_lease("bench", 30.0)).token)
            device.set(connection="disconnected", reason="connection refused")
            await until(lambda: guard.permit.state is PermitState.DISARMED)
            assert "connection refused" in guard.permit.reason

    asyncio.run(scenario())
