"""Sockets for the controller: RTDE, dashboard and script ports on one asyncio loop, ticking every 2 ms."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from drivers.virtual.cycle_timer import CycleTimer
from drivers.virtual.plant import CONTROL_PERIOD
from drivers.virtual.ports import Ports
from drivers.virtual.ur_controller import port_numbers
from drivers.virtual.ur_controller.controller import Controller
from drivers.virtual.ur_controller.dashboard import BANNER, Dashboard
from drivers.virtual.ur_controller.script_text import ProgramTooLong, ScriptSplitter
from drivers.virtual.ur_controller.session import RtdeSession

_log = logging.getLogger(__name__)

_SEND_BUFFER = 1 << 16  # a client that does not read is skipped after a tenth of a second or so
_MAX_LINE = 4096
_STOP_COMMANDS = ("stopj", "stopl", "halt")


@dataclass
class Traffic:
    """What has gone over the RTDE port, and the faults that are injected there."""

    connections: int = 0
    sent: int = 0
    skipped: int = 0
    """Packages not sent because the client was slow, as a real controller does, or by an injected fault."""
    inputs_received: int = 0
    inputs_rejected: int = 0
    violations: int = 0
    skip_packages: int = 0
    silent_until: float = 0.0
    clients: list[_RtdeClient] = field(default_factory=list)


class _RtdeClient(asyncio.Protocol):
    def __init__(self, controller: Controller, traffic: Traffic) -> None:
        self._session = RtdeSession(controller.state)
        self._traffic = traffic
        self._slow = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _configured(transport)
        self._transport.set_write_buffer_limits(high=_SEND_BUFFER // 4)
        self._traffic.connections += 1
        self._traffic.clients.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.close()
        self._traffic.clients.remove(self)

    def pause_writing(self) -> None:
        self._slow = True

    def resume_writing(self) -> None:
        self._slow = False

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        session, traffic = self._session, self._traffic
        received, rejected = session.inputs_received, session.inputs_rejected
        reply = session.receive(data)
        traffic.inputs_received += session.inputs_received - received
        traffic.inputs_rejected += session.inputs_rejected - rejected
        if reply:
            self._transport.write(reply)
        if session.violation is not None:
            _log.warning("RTDE client dropped: %s", session.violation)
            traffic.violations += 1
            self._transport.close()

    def publish(self, silent: bool) -> None:
        """Send this cycle's package if one is due and the client keeps up."""
        data = self._session.data_package()
        if data is None or self._transport is None:
            return
        if silent or self._slow:
            self._traffic.skipped += 1
        else:
            self._transport.write(data)
            self._traffic.sent += 1

    def drop(self) -> None:
        """Cut the connection without notice."""
        if self._transport is not None:
            self._transport.abort()


class _DashboardClient(asyncio.Protocol):
    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _configured(transport)
        self._transport.write(f"{BANNER}\n".encode())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            command = line.decode("ascii", errors="replace")
            self._transport.write(f"{self._dashboard.answer(command)}\n".encode())
            if command.strip().lower() == "quit":
                self._transport.close()
                return
        if len(self._buffer) > _MAX_LINE:
            _log.warning("dashboard client dropped: a line of more than %d bytes", _MAX_LINE)
            self._transport.close()


class _ScriptClient(asyncio.Protocol):
    """Takes programs; unlike a real controller it streams no robot state on these ports."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._splitter = ScriptSplitter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _configured(transport)

    def data_received(self, data: bytes) -> None:
        try:
            for text in self._splitter.feed(data):
                self._take(text)
        except ProgramTooLong as error:
            _log.warning("script client dropped: %s", error)
            self._transport.close()

    def _take(self, text: str) -> None:
        if text.startswith("def "):
            self._controller.start_program(text)
        elif text.startswith(_STOP_COMMANDS):
            if self._controller.remote_control:
                self._controller.stop_program(f"script command {text.strip()!r}")
        elif text.strip() != "end":
            _log.warning("script command not emulated: %.80r", text)


def _configured(transport: asyncio.BaseTransport) -> asyncio.Transport:
    if not isinstance(transport, asyncio.Transport):
        raise TypeError("the controller's ports are stream sockets")
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    return transport


class ControllerServer:
    """Runs one controller on its bound ports. Create it on a running loop, then ``start``."""

    def __init__(self, controller: Controller, bound: Ports) -> None:
        self.controller = controller
        self.traffic = Traffic()
        self._bound = bound
        self._servers: list[asyncio.Server] = []
        self._timer: CycleTimer | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception when the simulation breaks down."""

    async def start(self) -> None:
        """Listen and begin to tick.

        Raises
        ------
        PortUnavailable
            Another program took a port meanwhile.
        """
        self._bound.listen()
        dashboard = Dashboard(self.controller)
        factories: dict[int, Callable[[], asyncio.Protocol]] = {
            port_numbers.RTDE: lambda: _RtdeClient(self.controller, self.traffic),
            port_numbers.DASHBOARD: lambda: _DashboardClient(dashboard),
        }
        loop = asyncio.get_running_loop()
        for port, bound in self._bound.sockets.items():
            factory = factories.get(port, lambda: _ScriptClient(self.controller))
            self._servers.append(await loop.create_server(factory, sock=bound))
        self._timer = CycleTimer(CONTROL_PERIOD, self._tick)

    def close(self) -> None:
        """Stop ticking and listening, and drop every client."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None
        for server in self._servers:
            server.close()
        for client in list(self.traffic.clients):
            client.drop()

    def statistics(self) -> dict[str, Any]:
        """Return counters for tests and measurements."""
        controller, traffic, timer = self.controller, self.traffic, self._timer
        return {
            "cycles": controller.cycle,
            "late_cycles": timer.late if timer else 0,
            "dropped_cycles": timer.dropped if timer else 0,
            "clients": len(traffic.clients),
            "connections": traffic.connections,
            "packages_sent": traffic.sent,
            "packages_skipped": traffic.skipped,
            "inputs_received": traffic.inputs_received,
            "inputs_rejected": traffic.inputs_rejected,
            "violations": traffic.violations,
            "scripts_started": controller.scripts_started,
            "servo_cycles": controller.servo_cycles,
            "runtime": controller.runtime.name,
            "safety": controller.safety.name,
            "stop_reason": controller.stop_reason,
            "cpu_seconds": time.process_time(),
        }

    def _tick(self) -> None:
        if self.failed.done():
            return
        try:
            self.controller.run_cycle()
        except ArithmeticError as error:
            self.failed.set_exception(error)
            return
        silent = time.monotonic() < self.traffic.silent_until
        if self.traffic.skip_packages > 0:
            self.traffic.skip_packages -= 1
            silent = True
        for client in self.traffic.clients:
            client.publish(silent)
