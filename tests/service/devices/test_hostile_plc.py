"""Something that is no PLC answers what is no ADS; the vendor's library does not survive everything."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.devices import DeviceSupervisor
from service.settings import RobotSettings

TCP_HEADER, AMS_HEADER = struct.Struct("<HI"), struct.Struct("<8s8sHHIII")
ANSWER = 5  # of the flags
PATIENCE = 60.0  # s


def nonsense(request: bytes) -> bytes:
    """Answer with a body of bytes that is announced as none."""
    target, source, command, _, _, _, invoke = AMS_HEADER.unpack_from(request, TCP_HEADER.size)
    ams = AMS_HEADER.pack(source, target, command, ANSWER, 0, 0, invoke) + bytes(range(59))
    return TCP_HEADER.pack(0, len(ams)) + ams


@pytest.fixture
def stranger(loopback_host: str) -> Iterator[str]:
    with socket.create_server((loopback_host, 48898)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(ConnectionError):
                        while len(request := connection.recv(4096)) >= TCP_HEADER.size + AMS_HEADER.size:
                            connection.sendall(nonsense(request))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield loopback_host
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10.0)


def test_only_the_host_of_that_robot_ends_and_is_started_again(tmp_path: Path, stranger: str) -> None:
    """The process that speaks to this robot: the service says so and tries again."""

    async def main() -> None:
        ads = {"ams_net_id": f"{stranger}.1.1"}
        robot = RobotSettings.model_validate(
            {"name": "plc", "driver": "beckhoff_ads", "host": stranger, "model": "upru6", "rate_hz": 1000, "ads": ads}
        )
        device = DeviceSupervisor(robot, tmp_path)
        await device.start()
        seen: set[tuple[str, str | None]] = set()
        async with asyncio.timeout(PATIENCE):
            while device.status.restarts == 0:
                seen.add((device.status.connection, device.status.reason))
                await asyncio.sleep(0.01)
        seen.add((device.status.connection, device.status.reason))
        await device.close()
        assert "streaming" not in {connection for connection, _ in seen}
        assert any("ended by signal" in (reason or "") for connection, reason in seen if connection == "crashed")

    asyncio.run(main())
