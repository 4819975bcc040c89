"""AMS/TCP as TwinCAT's router sees it: requests come in, responses and notifications go out. No sockets here.

Source: Beckhoff, "ADS/AMS specification". A frame is two zero bytes, a u32 length and an AMS packet: target and
source address (net id of six bytes and a u16 port), u16 command, u16 flags, u32 length of the data, u32 error,
u32 invoke id, data. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

PORT = 48898
TCP_HEADER = struct.Struct("<HI")
HEADER = struct.Struct("<6sH6sHHHIII")
LARGEST_PACKET = 8 * 2**20  # bytes; a router's memory is limited too
_REQUEST = 0x0004
_RESPONSE = 0x0005


class AdsCommand(IntEnum):
    """Commands of the AMS header."""

    READ_DEVICE_INFO = 1
    READ = 2
    WRITE = 3
    READ_STATE = 4
    WRITE_CONTROL = 5
    ADD_NOTIFICATION = 6
    DELETE_NOTIFICATION = 7
    NOTIFICATION = 8
    READ_WRITE = 9


class AdsErrorCode(IntEnum):
    """The error codes that are given; the whole list is in Beckhoff's documentation."""

    NONE = 0
    TARGET_PORT_NOT_FOUND = 6
    TARGET_MACHINE_NOT_FOUND = 7
    INVALID_AMS_LENGTH = 14
    SERVICE_NOT_SUPPORTED = 0x701
    INVALID_GROUP = 0x702
    INVALID_OFFSET = 0x703
    INVALID_ACCESS = 0x704
    INVALID_SIZE = 0x705
    INVALID_DATA = 0x706
    NOT_READY = 0x707
    INVALID_PARAMETER = 0x70B
    SYMBOL_NOT_FOUND = 0x710
    SYMBOL_VERSION_INVALID = 0x711
    INVALID_STATE = 0x712
    TRANSMISSION_MODE_NOT_SUPPORTED = 0x713
    NOTIFICATION_HANDLE_INVALID = 0x714
    NO_MORE_NOTIFICATION_HANDLES = 0x716


class AdsState(IntEnum):
    """States of an ADS device."""

    RUN = 5
    STOP = 6
    CONFIG = 15


class AmsViolation(Exception):  # noqa: N818 - says what the peer did
    """The peer sent bytes that cannot be AMS/TCP; only its own connection ends."""


class AdsFailure(Exception):  # noqa: N818 - not an error of this program
    """A request cannot be answered otherwise than with this code."""

    def __init__(self, code: AdsErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(frozen=True)
class Address:
    """An AMS net id (6 bytes) and port."""

    net_id: bytes
    port: int

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.net_id))}:{self.port}"


@dataclass(frozen=True)
class Request:
    """One request packet."""

    target: Address
    source: Address
    command: int
    invoke_id: int
    data: bytes


class FrameSplitter:
    """Cuts a byte stream into requests; torn frames wait for their rest."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Request]:
        """Yield every request completed by ``data``.

        Raises
        ------
        AmsViolation
            A length that cannot be: the stream cannot be resynchronised.
        """
        self._buffer += data
        while len(self._buffer) >= TCP_HEADER.size:
            reserved, length = TCP_HEADER.unpack_from(self._buffer)
            if reserved != 0:
                raise AmsViolation(f"a frame begins with {reserved:#06x}, not with zeros")
            if not HEADER.size <= length <= LARGEST_PACKET:
                raise AmsViolation(f"a packet of {length} bytes")
            end = TCP_HEADER.size + length
            if len(self._buffer) < end:
                return
            packet = bytes(self._buffer[TCP_HEADER.size : end])
            del self._buffer[:end]
            yield _request(packet)


def _request(packet: bytes) -> Request:
    target, target_port, source, source_port, command, flags, length, _, invoke_id = HEADER.unpack_from(packet)
    if length != len(packet) - HEADER.size:
        raise AmsViolation(f"a packet announces {length} bytes of data and holds {len(packet) - HEADER.size}")
    if flags != _REQUEST:
        raise AmsViolation(f"state flags {flags:#06x} are not those of a request over TCP")
    return Request(
        Address(target, target_port), Address(source, source_port), command, invoke_id, packet[HEADER.size :]
    )


def response(request: Request, data: bytes, error: AdsErrorCode = AdsErrorCode.NONE) -> bytes:
    """Return the framed response to ``request``; ``error`` is the router's, the device's stands in the data."""
    return _frame(request.source, request.target, request.command, _RESPONSE, error, request.invoke_id, data)


def notification(target: Address, source: Address, data: bytes) -> bytes:
    """Return a framed notification packet."""
    return _frame(target, source, AdsCommand.NOTIFICATION, _REQUEST, AdsErrorCode.NONE, 0, data)


def _frame(
    target: Address, source: Address, command: int, flags: int, error: int, invoke_id: int, data: bytes
) -> bytes:
    header = HEADER.pack(
        target.net_id, target.port, source.net_id, source.port, command, flags, len(data), error, invoke_id
    )
    return TCP_HEADER.pack(0, HEADER.size + len(data)) + header + data
