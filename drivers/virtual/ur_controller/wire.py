"""RTDE framing as the controller sees it: requests come in, replies go out. No sockets here.

Source: Universal Robots, Real-Time Data Exchange (RTDE) guide, protocol version 2. Every package is
``uint16 size`` (header included), ``uint8 type``, payload; all numbers big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

HEADER = struct.Struct(">HB")
PROTOCOL_VERSION = 2
DATA_PACKAGE = ord("U")


class PackageType(IntEnum):
    """Package types of RTDE protocol version 2."""

    REQUEST_PROTOCOL_VERSION = ord("V")
    GET_CONTROLLER_VERSION = ord("v")
    TEXT_MESSAGE = ord("M")
    DATA = DATA_PACKAGE
    SETUP_OUTPUTS = ord("O")
    SETUP_INPUTS = ord("I")
    START = ord("S")
    PAUSE = ord("P")


class MessageLevel(IntEnum):
    """Severity in a text message."""

    EXCEPTION = 0
    ERROR = 1
    WARNING = 2
    INFO = 3


class ProtocolError(Exception):
    """The peer sent bytes that cannot be RTDE; only its own connection ends."""


class FrameSplitter:
    """Cuts a byte stream into packages; torn packages wait for their rest."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield ``(type, payload)`` of every package completed by ``data``.

        Raises
        ------
        ProtocolError
            A size field smaller than the header: the stream cannot be resynchronised.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            size, kind = HEADER.unpack_from(self._buffer)
            if size < HEADER.size:
                raise ProtocolError(f"package size {size} is smaller than its own header")
            if len(self._buffer) < size:
                return
            payload = bytes(self._buffer[HEADER.size : size])
            del self._buffer[:size]
            yield kind, payload


def package(kind: PackageType, payload: bytes = b"") -> bytes:
    """Return one framed package."""
    return HEADER.pack(HEADER.size + len(payload), kind) + payload


def text_message(text: str, level: MessageLevel, source: str = "RTDE") -> bytes:
    """Return a framed text message; text beyond the field's 255 bytes is cut."""
    message, origin = text.encode()[:255], source.encode()[:255]
    payload = bytes([len(message)]) + message + bytes([len(origin)]) + origin + bytes([level])
    return package(PackageType.TEXT_MESSAGE, payload)


def parse_names(payload: bytes) -> list[str]:
    """Return the comma-separated variable names; a trailing comma is tolerated, as on a real controller.

    Raises
    ------
    ProtocolError
        The payload is not ASCII.
    """
    try:
        text = payload.decode("ascii")
    except UnicodeDecodeError as error:
        raise ProtocolError("variable names are not ASCII") from error
    return [name for name in text.split(",") if name]


def parse_protocol_version(payload: bytes) -> int:
    """Return the requested protocol version."""
    if len(payload) != 2:
        raise ProtocolError(f"a protocol version takes 2 bytes, got {len(payload)}")
    return int.from_bytes(payload, "big")


def parse_output_setup(payload: bytes) -> tuple[float, list[str]]:
    """Return the requested output frequency in Hz and the variable names."""
    if len(payload) < 8:
        raise ProtocolError("an output recipe starts with its frequency (8 bytes)")
    (frequency,) = struct.unpack_from(">d", payload)
    return float(frequency), parse_names(payload[8:])
