"""What readiness says of robots and of Modbus."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from service.api.readiness import check_modbus, check_robot
from service.devices import DeviceStatus
from service.devices.messages import ControllerStatus
from service.modbus import LimitedServer, open_modbus
from service.motion import PermitState
from service.settings import ModbusSettings, RobotSettings
from service.storage import Database


@dataclass
class Device:
    status: DeviceStatus


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"connection": "streaming"}, None),
        ({"connection": "stale", "reason": "no sample"}, "stale: no sample"),
        ({"connection": "streaming", "reason": "its controller is virtual"}, "streaming: its controller is virtual"),
        ({"connection": "streaming", "controller": ControllerStatus(stop="a protective stop")}, "a protective stop"),
    ],
)
def test_a_robot_is_ready_that_can_be_used(status: dict[str, Any], reason: str | None) -> None:
    device: Any = Device(DeviceStatus(robot="cell", rate_hz=500.0, **status))
    check = check_robot("cell", device)
    assert check.ready is (reason is None)
    assert reason is None or reason in (check.reason or "")


def test_modbus_is_ready_while_it_is_served_with_what_is_true(tmp_path: Any) -> None:
    robot = RobotSettings(name="cell", driver="universal_robots", host="127.0.0.1", model="ur10e")
    device = Device(DeviceStatus(robot="cell", rate_hz=500.0))
    guard: Any = SimpleNamespace(device=device, permit=SimpleNamespace(state=PermitState.DISARMED))

    async def until(server: LimitedServer, ready: bool) -> str:
        async with asyncio.timeout(10.0):
            while (check := check_modbus(server)).ready is not ready:
                await asyncio.sleep(0.02)
        return check.reason or ""

    async def main() -> None:
        database = Database(f"sqlite:///{tmp_path / 'dynid.sqlite3'}")  # without tables yet
        settings = ModbusSettings(port=0, units={"cell": 1})
        engine: Any = SimpleNamespace(guards={"cell": guard})
        async with open_modbus(settings, {"cell": robot}, engine, {}, database) as server:
            assert "cannot be looked up" in await until(server, ready=False)
            database.create()
            await until(server, ready=True)
        assert "nothing listens" in await until(server, ready=False)
        database.close()

    asyncio.run(main())
