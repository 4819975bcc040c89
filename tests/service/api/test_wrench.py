"""The wrench on a platform as clients follow it: from a ring of samples, by a stored result of its sensors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest

from core.errors import InputError
from core.models import SixUPRU, resolve
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.pipelines.leg_drives import identify_drives
from core.recordings import Recording
from core.streaming.ring import RingWriter
from core.streaming.samples import STATUS_SENSOR_SATURATED, sample_dtype
from service.api.models import WrenchView
from service.api.wrench import WrenchEstimator, wrench_events
from service.devices import DeviceStatus
from service.errors import ConflictError
from service.storage import ResultRow

RATE = 1000.0
TARE = np.array([5.0, -3.0, 2.0, 0.0, -7.0, 4.0])
GAIN = np.array([1.01, 0.99, 1.0, 1.005, 0.995, 1.0])
PUSH = np.array([40.0, -25.0, -60.0, 3.0, 2.0, -4.0])


@dataclass
class Device:
    """What is asked of a device: its status."""

    status: DeviceStatus


@pytest.fixture(scope="module")
def platform() -> SixUPRU:
    model = resolve("upru6")
    assert isinstance(model, SixUPRU)
    return model


@pytest.fixture(scope="module")
def run(platform: SixUPRU) -> Recording:
    """Exact forces and currents along a motion that excites everything a little."""
    t = np.arange(1001) * 0.01
    rates = 2.0 * np.pi * np.array([[0.1, 0.2], [0.2, 0.3], [0.3, 0.1], [0.1, 0.4], [0.4, 0.2], [0.3, 0.5]])
    phases = rates[None] * t[:, None, None] + np.arange(12.0).reshape(6, 2)
    size = np.array([0.03, 0.03, 0.03, 0.08, 0.08, 0.08])[:, None]
    q = platform.home + (size * np.sin(phases)).sum(axis=2)
    qd = (size * rates * np.cos(phases)).sum(axis=2)
    qdd = (-size * rates**2 * np.sin(phases)).sum(axis=2)
    lengths, speeds, _ = platform.joint_motion(q, qd, qdd)
    force = platform.inverse_dynamics(q, qd, qdd)
    return Recording("run", t, lengths, speeds, torque=force, current=platform.motor_force(q, qd, qdd) / 250.0)


@pytest.fixture(scope="module")
def forces(platform: SixUPRU, run: Recording) -> Identification:
    return identify(platform, [run], friction="none", without=["Ia1", "Ia2+Ia3+Ia4"])


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def row(result: Identification) -> ResultRow:
    sensors = {"tare": TARE.tolist(), "gain": GAIN.tolist(), "gravity": result.model.gravity.tolist()}
    return ResultRow(id="res_1", robot="hexapod", document=result.to_document(), settings={"sensors": sensors})


def test_a_push_shows_as_a_wrench(
    tmp_path: Path, platform: SixUPRU, forces: Identification, executor: Executor
) -> None:
    still = np.zeros((1, 6))
    force = platform.inverse_dynamics(platform.home, still, still, PUSH)[0]
    block = np.zeros(300, sample_dtype(6))
    block["sequence"] = 1 + np.arange(300)
    block["controller_time"] = block["sequence"] / RATE
    block["q"], block["torque"] = platform.leg_lengths(platform.home), TARE + GAIN * force

    async def scenario() -> None:
        with RingWriter.create(tmp_path / "ring", 6, 1000) as ring:
            status = DeviceStatus(
                robot="hexapod", connection="streaming", rate_hz=RATE, ring_path=ring.path, ring_epoch=ring.epoch
            )
            device = Device(status)
            estimator = await WrenchEstimator.open(executor, row(forces), device)  # type: ignore[arg-type]
            with pytest.raises(ConflictError) as nothing:
                await estimator.now()
            assert nothing.value.code == "wrench-unknown"
            ring.push(block)
            found = await estimator.now()
            assert found.wrench == pytest.approx(PUSH.tolist(), abs=0.2)
            assert (found.controller_time, found.delay) == pytest.approx((0.25, 0.05))
            assert all(0.0 <= std < 1.0 for std in found.std)

            events = wrench_events(estimator, 25.0)
            first = await anext(events)
            assert first.name == "wrench"
            assert isinstance(first.data, WrenchView)
            block["sequence"] += 300
            block["status"][-1] = STATUS_SENSOR_SATURATED
            ring.push(block)
            with pytest.raises(InputError, match="a force sensor is at its limit"):
                await estimator.now()
            device.status = status.model_copy(update={"connection": "disconnected"})
            second = await anext(events)
            assert (second.name, second.data["code"]) == ("problem", "wrench-unknown")  # type: ignore[index]
            await events.aclose()

    asyncio.run(scenario())


def test_currents_tell_no_wrench(forces: Identification, run: Recording, executor: Executor) -> None:
    drives = identify_drives(forces, [run], friction="none")
    device = Device(DeviceStatus(robot="hexapod", rate_hz=RATE))

    async def scenario() -> None:
        with pytest.raises(InputError) as refused:
            await WrenchEstimator.open(executor, row(drives), device)  # type: ignore[arg-type]
        assert refused.value.code == "sensors-needed"

    asyncio.run(scenario())


def test_wrenches_are_asked_for_by_robot_and_result(client: httpx.Client, expect_problem: object) -> None:
    for path in ("wrench", "wrench/stream"):
        assert client.get(f"/api/v1/robots/cell/{path}").status_code == 422
        unknown = client.get(f"/api/v1/robots/cell/{path}", params={"result_id": "res_x"})
        expect_problem(unknown, 404, "result-not-found")  # type: ignore[operator]
