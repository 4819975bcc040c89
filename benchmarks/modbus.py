"""A poll of the results block beside the same poll of a bare pymodbus server, each server in a process of its own.

The two are asked in turn, one request each, so that what disturbs the machine disturbs both.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import quantiles

import pymodbus
from pymodbus.client import ModbusTcpClient
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice
from rich.table import Table

from service.devices import DeviceStatus
from service.modbus.mailbox import Mailbox
from service.modbus.register_map import RESULTS
from service.modbus.server import LimitedServer
from service.modbus.unit import Unit
from service.motion import PermitState
from service.settings import RobotSettings

POLLS, WARM_UP = 3000, 200
UNIT = 1
BEAT = 0.1  # s


def run() -> Table:
    """Return p50 and p99 of both, and how often either answers in a second."""
    spent: dict[str, list[float]] = {"dynid": [], "bare pymodbus": []}
    with _serving(_ours) as ours, _serving(_bare) as bare:
        clients = dict(zip(spent, (ours, bare), strict=True))
        for poll in range(WARM_UP + POLLS):
            for name, client in clients.items():
                start = time.perf_counter()
                answer = client.read_input_registers(RESULTS.start, count=RESULTS.registers, device_id=UNIT)
                end = time.perf_counter()
                assert not answer.isError()
                if poll >= WARM_UP:
                    spent[name].append(end - start)
    table = Table(title=f"Modbus TCP: {RESULTS.registers} registers, {POLLS} polls (pymodbus {pymodbus.__version__})")
    for heading in ("server", "p50 [ms]", "p99 [ms]", "polls per second"):
        table.add_column(heading, justify="left" if heading == "server" else "right")
    for name, seconds in spent.items():
        percentiles = quantiles(seconds, n=100)
        rate = len(seconds) / sum(seconds)
        table.add_row(name, f"{1e3 * percentiles[49]:.3f}", f"{1e3 * percentiles[98]:.3f}", f"{rate:.0f}")
    return table


async def _nothing(_version: int) -> bool:
    return False


async def _ours(port: Connection) -> None:
    robot = RobotSettings(name="cell", driver="universal_robots", host="127.0.0.1", model="ur10e")
    unit = Unit(UNIT, robot, 6, Mailbox(frozenset(), _nothing))
    server = LimitedServer([unit.device], "127.0.0.1", 0, limit=32, idle=300.0)
    await server.start()
    port.send(server.address[1])
    while True:
        unit.refresh(DeviceStatus(robot="cell", rate_hz=500.0), PermitState.DISARMED)
        await asyncio.sleep(BEAT)


async def _bare(port: Connection) -> None:
    data = [SimData(0, values=[0] * RESULTS.registers, datatype=DataType.REGISTERS)]
    server = ModbusTcpServer(SimDevice(UNIT, data), address=("127.0.0.1", 0))
    await server.serve_forever(background=True)
    assert isinstance(server.transport, asyncio.Server)
    port.send(server.transport.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


def _serve(server: Callable[[Connection], Coroutine[object, object, None]], port: Connection) -> None:
    asyncio.run(server(port))


@contextmanager
def _serving(server: Callable[[Connection], Coroutine[object, object, None]]) -> Iterator[ModbusTcpClient]:
    """Run the server in a process of its own and return a client of it."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(server, there), daemon=True)
    process.start()
    try:
        with ModbusTcpClient("127.0.0.1", port=here.recv(), timeout=5.0) as client:
            yield client
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    from rich.console import Console

    Console().print(run())
