"""The Modbus TCP server: pymodbus's with a limit on connections, without the functions that the map has no use for."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence

from pymodbus.constants import ExcCodes
from pymodbus.pdu import ExceptionResponse, ModbusPDU
from pymodbus.server import ModbusTcpServer
from pymodbus.server.requesthandler import ServerRequestHandler
from pymodbus.simulator import SimDevice
from pymodbus.transport import ModbusProtocol

from core.errors import DynidError

log = logging.getLogger(__name__)

FUNCTIONS = frozenset({3, 4, 6, 16, 22, 23})
_LONGEST = 254
"""Bytes after the length field that a frame may have."""
_UNREAD = 1 << 16
"""Bytes of answers that the system keeps for a client; behind them asyncio keeps as many again."""


class ModbusBindError(DynidError):
    """The address for Modbus cannot be listened on."""

    code = "modbus-address-unusable"


class LimitedServer(ModbusTcpServer):
    """Serves ``devices`` to at most ``limit`` connections; one more is closed at once.

    A connection that sends what is no Modbus frame, takes no answers, or is silent for ``idle`` seconds is closed.
    ``stale`` is set by whoever keeps the registers up to date: why they are not.
    """

    def __init__(self, devices: Sequence[SimDevice], host: str, port: int, *, limit: int, idle: float) -> None:
        # pymodbus logs every malformed frame, which would let anybody fill the log.
        logging.getLogger("pymodbus").setLevel(logging.CRITICAL)
        super().__init__(list(devices), address=(host, port), trace_pdu=self._admit)
        self._units = frozenset(device.id for device in devices)
        self._where = f"{host} port {port}"
        self._limit = limit
        self._idle = idle
        self._full = False
        self.stale: str | None = None

    @property
    def problem(self) -> str | None:
        """Why clients are not served, or not with what is true now; None while they are."""
        if not isinstance(self.transport, asyncio.Server) or not self.transport.is_serving():
            return f"nothing listens on {self._where}"
        return self.stale

    async def start(self) -> None:
        """Listen, or raise ModbusBindError."""
        try:
            await self.serve_forever(background=True)
        except RuntimeError as error:
            raise ModbusBindError(
                f"cannot listen on {self._where} for Modbus: the port is taken or needs privileges (all below 1024 "
                "do), or the address is not this machine's; set modbus.host and modbus.port"
            ) from error
        log.info("Modbus is served on %s port %d", *self.address)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        assert isinstance(self.transport, asyncio.Server)  # noqa: S101 - pymodbus declares its base class
        host, port = self.transport.sockets[0].getsockname()[:2]
        return host, port

    def close_idle(self) -> None:
        """Close connections that have been silent for too long."""
        since = self.loop.time() - self._idle
        for connection in list(self.active_connections.values()):
            if isinstance(connection, _Connection) and connection.heard < since:
                connection.close()

    def handle_new_connection(self) -> ModbusProtocol:
        if len(self.active_connections) < self._limit:
            self._full = False
            return super().handle_new_connection()
        if not self._full:
            self._full = True
            log.warning("Modbus: %d connections, the most allowed, are open; others are closed at once", self._limit)
        return _Refused()  # type: ignore[return-value]  # a protocol that ends as it begins

    def callback_new_connection(self) -> ServerRequestHandler:
        return _Connection(self, self.trace_packet, self.trace_pdu, self.trace_connect)

    def _admit(self, sending: bool, pdu: ModbusPDU) -> ModbusPDU:
        """Replace a request that is none of ours by one that answers with an exception."""
        if sending:
            return pdu
        if pdu.dev_id not in self._units:
            return _Refusal(pdu, ExcCodes.GATEWAY_NO_RESPONSE)
        if pdu.function_code not in FUNCTIONS:
            return _Refusal(pdu, ExcCodes.ILLEGAL_FUNCTION)
        return pdu


class _Refusal(ModbusPDU):
    """A request whose answer is an exception."""

    def __init__(self, request: ModbusPDU, why: ExcCodes) -> None:
        super().__init__(dev_id=request.dev_id, transaction_id=request.transaction_id)
        self.function_code = request.function_code & 0x7F
        self._why = why

    async def datastore_update(self, context: object, device_id: int) -> ModbusPDU:
        return ExceptionResponse(self.function_code, self._why)

    def encode(self) -> bytes:
        raise NotImplementedError("it is never sent")

    def decode(self, data: bytes) -> None:
        raise NotImplementedError("it is never received")


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a TCP server
        transport.abort()


class _Connection(ServerRequestHandler):
    """One client. ``heard``: when it last sent something, in the loop's time."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[no-untyped-call]
        self.heard = self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD)
        super().connection_made(transport)

    def callback_data(self, data: bytes, addr: tuple[object, ...] | None = None) -> int:
        self.heard = self.loop.time()
        if len(data) >= 6 and not _is_frame(data):
            self.close()
            return len(data)
        return super().callback_data(data, addr)

    def pause_writing(self) -> None:
        """Called by asyncio when the client takes no answers: they are not kept for it."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()


def _is_frame(data: bytes) -> bool:
    return data[2:4] == b"\0\0" and 2 <= int.from_bytes(data[4:6], "big") <= _LONGEST
