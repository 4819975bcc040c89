"""What a hostile or broken client can do to the Modbus server: nothing that others notice."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
import struct
import time
from typing import Any

import pytest
from pymodbus.client import AsyncModbusTcpClient, ModbusTcpClient
from pymodbus.exceptions import ModbusException

from service.devices import DeviceStatus
from service.modbus.mailbox import Mailbox
from service.modbus.register_map import MAILBOX, RESULTS, Answer, Command
from service.modbus.server import LimitedServer, ModbusBindError
from service.modbus.unit import Unit
from service.motion import PermitState
from service.settings import RobotSettings

UNIT = 1
FRAMES = 3000
ROBOT = RobotSettings(name="cell", driver="universal_robots", host="127.0.0.1", model="ur10e")


async def _refuse(_argument: int) -> Answer:
    return Answer.REFUSED


def make_server(
    *, port: int = 0, limit: int = 8, idle: float = 60.0, permitted: frozenset[Command] = frozenset()
) -> LimitedServer:
    unit = Unit(UNIT, ROBOT, 6, Mailbox(dict.fromkeys(permitted, _refuse)))
    return LimitedServer([unit.device], "127.0.0.1", port, limit=limit, idle=idle)


@contextlib.asynccontextmanager
async def running(server: LimitedServer) -> Any:
    await server.start()
    try:
        yield server.address
    finally:
        await server.shutdown()


async def ask(host: str, port: int) -> bool:
    """Whether a client that is new gets an answer."""
    async with AsyncModbusTcpClient(host, port=port, timeout=5.0, retries=0) as client:
        answer = await client.read_input_registers(0, count=RESULTS.registers, device_id=UNIT)
        return not answer.isError()


def _malformed(chance: random.Random) -> bytes:
    """A frame that is valid, cut, long, of another protocol, of any function, or noise."""
    body = bytes([chance.choice([UNIT, 0, 2, 255]), chance.randrange(256)]) + chance.randbytes(chance.randrange(12))
    length = chance.choice([len(body), len(body), len(body), 0, 1, 0xFFFF, chance.randrange(300)])
    protocol = chance.choice([0, 0, 0, 0, 0, 0, 0, 1])
    frame = struct.pack(">HHH", chance.randrange(0x10000), protocol, length) + body
    return chance.choice([frame, frame, frame, frame[: chance.randrange(1, len(frame))], chance.randbytes(40)])


def test_malformed_frames_harm_nobody() -> None:
    """Thousands of them on hundreds of connections; the event loop is told of no exception."""
    chance = random.Random(4)  # noqa: S311 - the same frames each time

    async def main() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        permitted = frozenset({Command.START_CALIBRATION})
        async with running(make_server(permitted=permitted)) as (host, port):
            connections = 0
            sent = 0
            while sent < FRAMES:
                reader, writer = await asyncio.open_connection(host, port)
                connections += 1
                with contextlib.suppress(ConnectionError):
                    for _ in range(chance.choice([1, 10])):
                        writer.write(_malformed(chance))
                        sent += 1
                        await asyncio.sleep(0)  # or the server would get all of them as one
                    writer.write_eof()
                    await reader.read()
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            assert connections >= 300
            assert await ask(host, port)
        assert problems == []

    asyncio.run(main())


def test_a_connection_that_speaks_another_protocol_is_closed() -> None:
    async def main() -> None:
        async with running(make_server()) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(5.0):
                assert await reader.read() == b""
            writer.close()
            assert await ask(host, port)

    asyncio.run(main())


def test_connections_are_limited_and_silent_ones_closed() -> None:
    async def main() -> None:
        server = make_server(limit=3, idle=0.0)
        async with running(server) as (host, port):
            held = [await asyncio.open_connection(host, port) for _ in range(3)]
            reader, writer = await asyncio.open_connection(host, port)
            async with asyncio.timeout(5.0):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            writer.close()
            server.close_idle()
            async with asyncio.timeout(5.0):
                for held_reader, held_writer in held:
                    assert await held_reader.read() == b""
                    held_writer.close()
            assert await ask(host, port)

    asyncio.run(main())


def test_who_takes_no_answers_is_dropped() -> None:
    async def main() -> None:
        async with running(make_server()) as (host, port):
            request = struct.pack(">HHHBBHH", 1, 0, 6, UNIT, 4, 0, RESULTS.registers)
            loop = asyncio.get_running_loop()
            with socket.socket() as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.setblocking(False)
                await loop.sock_connect(deaf, (host, port))
                with pytest.raises(ConnectionError):
                    async with asyncio.timeout(30.0):
                        while True:
                            await loop.sock_sendall(deaf, request)
                            await asyncio.sleep(0)
            assert await ask(host, port)

    asyncio.run(main())


@pytest.mark.parametrize("permitted", [frozenset(), frozenset({Command.START_CALIBRATION})])
def test_the_mailbox_is_closed_unless_permitted(permitted: frozenset[Command]) -> None:
    async def main() -> None:
        async with (
            running(make_server(permitted=permitted)) as (host, port),
            AsyncModbusTcpClient(host, port=port, timeout=5.0, retries=0) as client,
        ):
            words = MAILBOX.encode({"command": Command.START_CALIBRATION, "argument": 0, "request": 1})
            answer = await client.write_registers(MAILBOX.start, words, device_id=UNIT)
            seen = await client.read_holding_registers(MAILBOX.start, count=MAILBOX.registers, device_id=UNIT)
            said = MAILBOX.decode(seen.registers, "answer")
            if permitted:
                assert not answer.isError()
                assert said in (Answer.PENDING, Answer.REFUSED)
            else:
                assert answer.exception_code == 2
                assert said == Answer.NONE

    asyncio.run(main())


def test_commands_that_come_too_fast_are_refused_as_busy() -> None:
    async def main() -> None:
        async with (
            running(make_server(permitted=frozenset({Command.START_CALIBRATION}))) as (host, port),
            AsyncModbusTcpClient(host, port=port, timeout=5.0, retries=0) as client,
        ):
            answers = []
            for request in range(1, 30):
                answers.append(await client.write_register(MAILBOX.address("request"), request, device_id=UNIT))
                await asyncio.sleep(0)  # what was begun ends
            assert not any(answer.isError() for answer in answers[:10])
            assert answers[-1].exception_code == 6

    asyncio.run(main())


def test_drift_is_shown_where_it_is_watched() -> None:
    unit = Unit(UNIT, ROBOT, 6, Mailbox({}))
    for drift, shown in (((), [math.nan] * 6), ((0.1, 0.2, 0.3, 0.4, 0.5, 1.5), [0.1, 0.2, 0.3, 0.4, 0.5, 1.5])):
        unit.refresh(DeviceStatus(robot="cell", rate_hz=500.0), PermitState.DISARMED, drift)
        registers = RESULTS.decode(unit._results, "drift")
        assert isinstance(registers, tuple)
        assert registers[:6] == pytest.approx(shown, nan_ok=True)
        assert all(map(math.isnan, registers[6:]))


def test_a_taken_port_is_said() -> None:
    async def main() -> None:
        async with running(make_server()) as (_, port):
            with pytest.raises(ModbusBindError, match=str(port)):
                await make_server(port=port).start()

    asyncio.run(main())


def test_the_running_service_outlives_hundreds_of_connections(served: Any) -> None:
    """More than ten times as many as are allowed come and go; then a client is served as before."""
    clients = [ModbusTcpClient(served.host, port=served.port, timeout=5.0, retries=0) for _ in range(300)]
    try:
        assert sum(client.connect() for client in clients) == 300
    finally:
        for client in clients:
            client.close()
    deadline = time.monotonic() + 15.0
    while not _answers(served):  # until the service has seen that they are gone
        assert time.monotonic() < deadline
    assert served.process.poll() is None


def _answers(served: Any) -> bool:
    with ModbusTcpClient(served.host, port=served.port, timeout=5.0, retries=0) as client:
        try:
            return not client.read_input_registers(0, count=1, device_id=UNIT).isError()
        except (ModbusException, ConnectionError):  # closed at once, as there are too many
            return False
