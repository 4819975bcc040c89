"""The AMS router's TCP port on an asyncio loop, and the PLC's task ticking beside it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from drivers.virtual.cycle_timer import CycleTimer
from drivers.virtual.ports import Ports
from drivers.virtual.twincat.ams import (
    PORT,
    AdsCommand,
    AdsErrorCode,
    AdsState,
    AmsViolation,
    FrameSplitter,
    Request,
    response,
)
from drivers.virtual.twincat.device import PlcDevice
from drivers.virtual.twincat.notifications import Subscriptions
from drivers.virtual.twincat.program import CYCLE, PlcProgram

RUNTIME_PORT = 851
SYSTEM_PORT = 10000
_SEND_BUFFER = 1 << 20
_log = logging.getLogger(__name__)


@dataclass
class Traffic:
    """What has gone over the wire, and the faults that are injected there."""

    connections: int = 0
    requests: int = 0
    notifications: int = 0
    notifications_dropped: int = 0
    """Not sent because the client was slow."""
    violations: int = 0
    routed: bool = True
    """False: the router knows no route to any client, and closes what they open."""
    config_mode: bool = False
    silent_until: float = 0.0
    clients: list[_AmsClient] = field(default_factory=list)


class _AmsClient(asyncio.Protocol):
    """One TCP link. A router keeps one per host: the newest replaces those before it."""

    def __init__(self, server: TwinCatServer) -> None:
        self._server = server
        self._traffic = server.traffic
        self._splitter = FrameSplitter()
        self._unanswered: list[bytes] = []
        self._slow = False
        self._transport: asyncio.Transport | None = None
        self.host = ""
        self.subscriptions = Subscriptions(server.device.symbols, CYCLE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("the router's port is a stream socket")
        self._transport = transport
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        transport.set_write_buffer_limits(high=_SEND_BUFFER)
        self.host = transport.get_extra_info("peername")[0]
        for other in [client for client in self._traffic.clients if client.host == self.host]:
            other.drop()
        self._traffic.connections += 1
        self._traffic.clients.append(self)
        if not self._traffic.routed:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        with contextlib.suppress(ValueError):
            self._traffic.clients.remove(self)

    def pause_writing(self) -> None:
        self._slow = True

    def resume_writing(self) -> None:
        self._slow = False

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            for request in self._splitter.feed(data):
                self._traffic.requests += 1
                self._unanswered.append(self._server.answer(request, self.subscriptions))
        except AmsViolation as violation:
            _log.warning("AMS client %s dropped: %s", self.host, violation)
            self._traffic.violations += 1
            self.drop()
            return
        if time.monotonic() >= self._traffic.silent_until:
            self.flush()

    def flush(self) -> None:
        """Send what was held back while the wire was stalled."""
        if self._transport is not None and self._unanswered:
            self._transport.write(b"".join(self._unanswered))
            self._unanswered.clear()

    def notify(self, cycle: int) -> None:
        """Send the notifications that are due, if the client keeps up."""
        for frame in self.subscriptions.due(cycle):
            if self._slow or self._transport is None:
                self._traffic.notifications_dropped += 1
            else:
                self._transport.write(frame)
                self._traffic.notifications += 1

    def drop(self) -> None:
        """Cut the link without notice."""
        if self._transport is not None:
            self._transport.abort()
        with contextlib.suppress(ValueError):
            self._traffic.clients.remove(self)


class TwinCatServer:
    """Runs one PLC program behind its router. Create it on a running loop, then ``start``.

    Parameters
    ----------
    program : the PLC's.
    net_id : AMS net id, 6 bytes; requests to any other are refused, as a router does.
    """

    def __init__(self, program: PlcProgram, net_id: bytes, bound: Ports) -> None:
        self.program = program
        self.traffic = Traffic()
        self.device = PlcDevice(program.symbols, self.set_state)
        self._net_id = net_id
        self._bound = bound
        self._server: asyncio.Server | None = None
        self._timer: CycleTimer | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception when the simulation breaks down."""

    async def start(self) -> None:
        """Listen and begin to tick.

        Raises
        ------
        PortUnavailable
            Another program took the port meanwhile.
        """
        self._bound.listen()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _AmsClient(self), sock=self._bound.sockets[PORT])
        self._timer = CycleTimer(CYCLE, self._tick)

    def close(self) -> None:
        """Stop ticking and listening, and drop every client."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None
        if self._server is not None:
            self._server.close()
        for client in list(self.traffic.clients):
            client.drop()

    def set_state(self, state: AdsState) -> None:
        """Start or stop the PLC; a stopped one runs no cycle, and its drives come to rest."""
        if state is AdsState.STOP and self.device.state is AdsState.RUN:
            self.program.lose_outputs()
        self.device.state = state

    def set_config_mode(self, on: bool) -> None:
        """Take TwinCAT to config mode, where there is no PLC, or back, where its program begins anew."""
        if self.traffic.config_mode and not on:
            self.program.download()
        self.traffic.config_mode = on

    def answer(self, request: Request, subscriptions: Subscriptions) -> bytes:
        """Return the framed response: the router's own refusals, the system service's, or the PLC's."""
        if request.target.net_id != self._net_id:
            return response(request, b"", AdsErrorCode.TARGET_MACHINE_NOT_FOUND)
        if request.target.port == SYSTEM_PORT and request.command == AdsCommand.READ_STATE:
            state = AdsState.CONFIG if self.traffic.config_mode else AdsState.RUN
            return response(request, struct.pack("<I2H", 0, state, 0))
        if request.target.port != RUNTIME_PORT or self.traffic.config_mode:
            return response(request, b"", AdsErrorCode.TARGET_PORT_NOT_FOUND)
        return response(request, self.device.answer(request, subscriptions))

    def statistics(self) -> dict[str, Any]:
        """Return counters for tests and measurements."""
        traffic, timer = self.traffic, self._timer
        return {
            "late_cycles": timer.late if timer else 0,
            "dropped_cycles": timer.dropped if timer else 0,
            "clients": len(traffic.clients),
            "connections": traffic.connections,
            "requests": traffic.requests,
            "reads": self.device.reads,
            "subscriptions": sum(len(client.subscriptions) for client in traffic.clients),
            "notifications": traffic.notifications,
            "notifications_dropped": traffic.notifications_dropped,
            "violations": traffic.violations,
            "ads_state": self.device.state.name,
            "cpu_seconds": time.process_time(),
            **self.program.statistics(),
        }

    def _tick(self) -> None:
        if self.failed.done():
            return
        try:
            self.program.run_cycle(running=self.device.state is AdsState.RUN and not self.traffic.config_mode)
        except ArithmeticError as error:
            self.failed.set_exception(error)
            return
        if time.monotonic() < self.traffic.silent_until:
            return
        for client in list(self.traffic.clients):
            client.flush()
            client.notify(self.program.cycle)
