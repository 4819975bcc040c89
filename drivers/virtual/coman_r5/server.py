"""Sockets for the controller: feedback and command port on one asyncio loop, ticking every millisecond."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Any

import numpy as np

from drivers.virtual.coman_r5 import wire
from drivers.virtual.coman_r5.commands import Commands, Traffic
from drivers.virtual.coman_r5.controller import Controller
from drivers.virtual.coman_r5.robot import PERIOD
from drivers.virtual.cycle_timer import CycleTimer
from drivers.virtual.ports import Ports

FEEDBACK_PORT, COMMAND_PORT = 7788, 7789

_log = logging.getLogger(__name__)

_SEND_BUFFER = 1 << 17  # a client that does not read is skipped after half a second or so
_LONGEST_LINE = 4096


class _FeedbackClient(asyncio.Protocol):
    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._slow = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _configured(transport)
        self._transport.set_write_buffer_limits(high=_SEND_BUFFER // 4)
        self._traffic.clients.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._traffic.clients.remove(self)

    def pause_writing(self) -> None:
        self._slow = True

    def resume_writing(self) -> None:
        self._slow = False

    def publish(self, data: bytes, silent: bool) -> None:
        """Send a frame if the client keeps up."""
        if silent or self._slow or self._transport is None:
            self._traffic.skipped += 1
        else:
            self._transport.write(data)
            self._traffic.sent += 1

    def drop(self) -> None:
        """Cut the connection without notice."""
        if self._transport is not None:
            self._transport.abort()


class _CommandClient(asyncio.Protocol):
    def __init__(self, server: ControllerServer) -> None:
        self._server = server
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _configured(transport)
        self._server.command_clients.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.command_clients.remove(self)
        self._server.controller.lost(self)

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            answer = self._server.commands.obey(self, line)
            if answer and self._transport is not None:
                self._transport.write(answer)
        if len(self._buffer) > _LONGEST_LINE:
            _log.warning("command client dropped: a line of more than %d bytes", _LONGEST_LINE)
            self.drop()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _configured(transport: asyncio.BaseTransport) -> asyncio.Transport:
    if not isinstance(transport, asyncio.Transport):
        raise TypeError("the controller's ports are stream sockets")
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    return transport


class ControllerServer:
    """Runs one controller on its bound ports. Create it on a running loop, then ``start``."""

    def __init__(self, controller: Controller, bound: Ports, serial: str, seed: int) -> None:
        self.controller = controller
        self.traffic = Traffic()
        self.command_clients: list[_CommandClient] = []
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commands = Commands(controller, self.traffic, serial)
        self._bound = bound
        self._spoiling = np.random.default_rng([seed, 0xBAD])
        self._servers: list[asyncio.Server] = []
        self._timer: CycleTimer | None = None
        self._begin = 0  # cycle at which frame numbers and time began

    async def start(self) -> None:
        """Listen and begin to tick.

        Raises
        ------
        PortUnavailable
            Another program took a port meanwhile.
        """
        self._bound.listen()
        loop = asyncio.get_running_loop()
        feedback, commands = self._bound.sockets[FEEDBACK_PORT], self._bound.sockets[COMMAND_PORT]
        self._servers.append(await loop.create_server(lambda: _FeedbackClient(self.traffic), sock=feedback))
        self._servers.append(await loop.create_server(lambda: _CommandClient(self), sock=commands))
        self._timer = CycleTimer(PERIOD, self._tick)

    def close(self) -> None:
        """Stop ticking and listening, and drop every client."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None
        for server in self._servers:
            server.close()
        self.drop()

    def drop(self, *, feedback: bool = True, commands: bool = True) -> int:
        """Cut connections without notice; returns how many."""
        clients = [*(self.traffic.clients if feedback else ()), *(self.command_clients if commands else ())]
        for client in clients:
            client.drop()
        return len(clients)

    def restart(self) -> int:
        """Let frame numbers and time begin anew; returns how many connections were cut."""
        self._begin = self.controller.cycle
        return self.drop()

    # --- the cycle -------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.failed.done():
            return
        controller, traffic = self.controller, self.traffic
        try:
            controller.run_cycle()
        except ArithmeticError as error:
            self.failed.set_exception(error)
            return
        cycle = controller.cycle - self._begin
        if not traffic.streaming or cycle % traffic.every:
            return
        traffic.frames += 1
        silent = time.monotonic() < traffic.silent_until
        if traffic.skip_frames > 0:
            traffic.skip_frames -= 1
            silent = True
        data = wire.frame(
            cycle // traffic.every,
            cycle * PERIOD,
            controller.out,
            controller.status,
            controller.mode,
            controller.waiting,
        )
        for client in traffic.clients:
            client.publish(self._spoilt(data), silent)

    def _spoilt(self, data: bytes) -> bytes:
        if self.traffic.corrupt == 0.0:
            return data
        array = np.frombuffer(data, np.uint8).copy()
        hit = self._spoiling.random(array.size) < self.traffic.corrupt
        array[hit] ^= self._spoiling.integers(1, 256, int(hit.sum())).astype(np.uint8)
        return array.tobytes()

    def statistics(self) -> dict[str, Any]:
        """Return counters for tests and measurements."""
        controller, traffic, timer = self.controller, self.traffic, self._timer
        return {
            "cycles": controller.cycle,
            "late_cycles": timer.late if timer else 0,
            "dropped_cycles": timer.dropped if timer else 0,
            "clients": len(traffic.clients),
            "frames": traffic.frames,
            "sent": traffic.sent,
            "skipped": traffic.skipped,
            "points": controller.points,
            "mode": controller.mode.name,
            "protective": controller.protective,
            "stop_reason": controller.stop_reason,
            "cpu_seconds": time.process_time(),
        }
