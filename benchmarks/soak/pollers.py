"""Clients that poll, in a process of their own: what they wait for is what a client waits for.

Plain sockets: the clients share two processors with what they measure, and a client library would take most of them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from service.modbus.register_map import RESULTS

SETTLE = 1.0
"""s from the start that do not count: connections are made, and what is asked for comes into memory."""


@dataclass(frozen=True)
class Load:
    """Who polls what, how often [Hz], for how long [s]; a rate of 0 stands for as fast as answers come."""

    http: tuple[str, int]
    path: str
    key: str
    http_clients: int
    http_rate: float
    modbus: tuple[str, int] | None = None
    unit: int = 1
    modbus_clients: int = 0
    modbus_rate: float = 50.0
    seconds: float = 60.0


@dataclass
class Heard:
    """What one kind of clients saw: latencies of good answers, s; how many others; how long it went on, s."""

    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    seconds: float = 0.0

    def percentile(self, q: float) -> float:
        """Latency in ms that ``q`` per cent of the answers were within."""
        return 1e3 * float(np.percentile(self.latencies, q))

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds


def poll(load: Load) -> dict[str, Heard]:
    """Poll from a process of its own, and return what HTTP and Modbus clients saw."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(_poll, (load,))


def _poll(load: Load) -> dict[str, Heard]:
    return asyncio.run(_poll_all(load))


async def _poll_all(load: Load) -> dict[str, Heard]:
    http, modbus = Heard(), Heard()
    start, seconds = time.monotonic(), load.seconds
    clients = []
    for k in range(load.http_clients):
        phase = k / load.http_clients
        clients.append(_client(load.http, _HttpPoll(load).ask, load.http_rate, phase, start, seconds, http))
    for k in range(load.modbus_clients):
        assert load.modbus is not None
        phase = (k + 0.5) / load.modbus_clients  # between polls over HTTP, which would begin at the very same moments
        ask = _ModbusPoll(load.unit).ask
        clients.append(_client(load.modbus, ask, load.modbus_rate, phase, start, seconds, modbus))
    await asyncio.gather(*clients)
    return {"http": http, "modbus": modbus}


Ask = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


async def _client(
    address: tuple[str, int], ask: Ask, rate: float, phase: float, start: float, seconds: float, heard: Heard
) -> None:
    """Poll ``rate`` times a second, clients one after the other; a late answer does not move the next poll."""
    reader, writer = await asyncio.open_connection(*address)
    period = 1.0 / rate if rate else 0.0
    due, counted, end = start + phase * period, start + SETTLE, start + SETTLE + seconds
    while due < end:
        if (early := due - time.monotonic()) > 0.0:
            await asyncio.sleep(early)
        asked = time.perf_counter()
        good = await ask(reader, writer)
        latency = time.perf_counter() - asked
        now = time.monotonic()
        if not good:
            heard.wrong += 1
        elif counted <= now < end:
            heard.latencies.append(latency)
        due = max(due + period, now) if period else now
    heard.seconds = seconds
    writer.close()


class _HttpPoll:
    """GET with the ETag of the answer before: 200 at first, then 304."""

    def __init__(self, load: Load) -> None:
        self._head = (
            f"GET {load.path} HTTP/1.1\r\nHost: {load.http[0]}\r\nAuthorization: Bearer {load.key}\r\n".encode()
        )
        self._have = b""

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(self._head + self._have + b"\r\n")
        head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in head[1:] if line)
        if head[0].startswith(b"HTTP/1.1 304 "):
            return True
        await reader.readexactly(int(fields.get(b"content-length", b"0")))
        self._have = b"If-None-Match: " + fields[b"etag"] + b"\r\n"
        return head[0].startswith(b"HTTP/1.1 200 ")


class _ModbusPoll:
    """Read the results block."""

    def __init__(self, unit: int) -> None:
        self._unit = unit
        self._transaction = 0

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self._transaction = (self._transaction + 1) & 0xFFFF
        writer.write(struct.pack(">HHHBBHH", self._transaction, 0, 6, self._unit, 4, RESULTS.start, RESULTS.registers))
        transaction, _, length = struct.unpack(">HHH", await reader.readexactly(6))
        answer = await reader.readexactly(length)
        return transaction == self._transaction and answer[1] == 4 and len(answer) == 3 + 2 * RESULTS.registers
