from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest

from core.streaming.ring import RingWriter
from core.streaming.samples import JOINT_FIELDS, STATUS_FAULT, STATUS_MOVING, SampleBlock, sample_dtype
from service.api.live import Signal, latest_sample, live_events
from service.api.models import Frame, PermitView, RobotStatus
from service.api.sse import Event
from service.devices import DeviceStatus
from service.motion import PermitState

N = 2


def samples(first: int, count: int, *, lost: int = 0) -> SampleBlock:
    block = np.zeros(count, sample_dtype(N))
    block["sequence"] = np.arange(first, first + count)
    block["controller_time"] = block["sequence"] * 0.002
    block["q"] = block["sequence"][:, None] * [1.0, -1.0]
    block["torque"] = np.nan
    block["lost"][0] = lost
    block["status"][count // 2] = STATUS_MOVING
    return block


def status_of(ring: RingWriter | None, *, connection: str = "streaming") -> RobotStatus:
    device = DeviceStatus(
        robot="arm",
        rate_hz=500.0,
        connection=connection,
        ring_path=None if ring is None else ring.path,
        ring_epoch=None if ring is None else ring.epoch,
    )
    return RobotStatus(
        device=device,
        permit=PermitView(state=PermitState.DISARMED, reason="test", armed_seconds_left=None),
        lease=None,
    )


def test_signals_are_those_of_a_sample() -> None:
    assert tuple(Signal) == JOINT_FIELDS


def test_latest_sample(tmp_path: Path) -> None:
    with RingWriter.create(tmp_path / "arm.ring", N, 16) as ring:
        status = status_of(ring).device
        assert latest_sample(status) is None
        block = samples(0, 3)
        block["status"][2] = STATUS_FAULT
        ring.push(block)
        sample = latest_sample(status)
    assert sample is not None
    assert sample.sequence == 2
    assert sample.flags == ["fault"]
    assert sample.signals["q"] == [2.0, -2.0]
    assert sample.signals["torque"] == [None, None]


def test_robot_without_ring_has_no_sample(tmp_path: Path) -> None:
    assert latest_sample(status_of(None).device) is None
    gone = status_of(None).device.model_copy(update={"ring_path": tmp_path / "gone", "ring_epoch": 1})
    assert latest_sample(gone) is None


async def _frame(events: AsyncGenerator[Event]) -> Frame:
    async with asyncio.timeout(5.0):
        async for event in events:
            if event.name == "samples":
                assert isinstance(event.data, Frame)
                return event.data
    raise AssertionError("the stream ended")


async def _quiet(events: AsyncGenerator[Event], seconds: float) -> None:
    """Let the stream run while it has nothing to say."""
    following = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait({following}, timeout=seconds)
    assert not done
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


def test_frames_keep_extremes_losses_and_lapped(tmp_path: Path) -> None:
    async def run() -> None:
        with RingWriter.create(tmp_path / "arm.ring", N, 16) as ring:
            ring.push(samples(0, 5))  # before the stream starts: not in it
            status = status_of(ring)
            events = live_events(lambda: status, 50.0, [Signal.Q, Signal.TORQUE])
            first = await anext(events)
            assert first.name == "status"
            following = asyncio.create_task(_frame(events))
            await asyncio.sleep(0.1)
            ring.push(samples(7, 8, lost=2))
            frame = await following
            assert (frame.sequence, frame.samples, frame.lost, frame.lapped) == (14, 8, 2, 0)
            assert frame.flags == ["moving"]
            assert frame.signals["q"].minimum == [7.0, -14.0]
            assert frame.signals["q"].maximum == [14.0, -7.0]
            assert frame.signals["torque"].maximum == [None, None]
            for start in (15, 25):
                ring.push(samples(start, 10))
            frame = await _frame(events)
            assert (frame.samples, frame.lapped) == (16, 4)
            await events.aclose()

    asyncio.run(run())


def test_stream_tells_changes_and_goes_over_to_a_new_ring(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "arm.ring"
        old = RingWriter.create(path, N, 16)
        shown = [status_of(old)]
        events = live_events(lambda: shown[0], 50.0, [Signal.Q])
        assert (await anext(events)).name == "status"
        shown[0] = status_of(None, connection="crashed")
        event = await asyncio.wait_for(anext(events), 5.0)
        assert isinstance(event.data, RobotStatus)
        assert event.data.device.connection == "crashed"
        old.close()
        with RingWriter.create(path, N, 16) as new:
            shown[0] = status_of(new)
            event = await asyncio.wait_for(anext(events), 5.0)
            assert event.name == "status"
            following = asyncio.create_task(_frame(events))
            await asyncio.sleep(0.1)
            new.push(samples(0, 3))
            assert (await following).sequence == 2
            await events.aclose()

    asyncio.run(run())


def test_what_runs_on_all_the_time_is_no_change() -> None:
    async def run() -> None:
        calls = 0

        def look() -> RobotStatus:
            nonlocal calls
            calls += 1
            status = status_of(None)
            device = status.device.model_copy(update={"samples": calls, "sample_age_ms": float(calls)})
            return status.model_copy(update={"device": device})

        events = live_events(look, 50.0, [Signal.Q])
        assert (await anext(events)).name == "status"
        await _quiet(events, 0.1)
        assert calls > 2

    asyncio.run(run())
