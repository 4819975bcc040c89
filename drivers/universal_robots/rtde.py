"""RTDE version 2, the bytes only: requests are made here, replies and data are decoded here, no sockets.

Every packet is ``size`` (u16, including the 3-byte header), ``type`` (u8), payload; all big-endian. Source:
Universal Robots, "Real-Time Data Exchange (RTDE) Guide".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.contract import DriverProtocolError

PORT = 30004
PROTOCOL_VERSION = 2

PROTOCOL = ord("V")
CONTROLLER_VERSION = ord("v")
TEXT = ord("M")
DATA = ord("U")
SETUP_OUTPUTS = ord("O")
START = ord("S")

_HEADER = struct.Struct(">HB")
_FIELD_TYPES = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT32": ">u4",
    "UINT64": ">u8",
    "INT32": ">i4",
    "DOUBLE": ">f8",
    "VECTOR3D": ">3f8",
    "VECTOR6D": ">6f8",
    "VECTOR6INT32": ">6i4",
    "VECTOR6UINT32": ">6u4",
}
_TEXT_LEVELS = ("exception", "error", "warning", "info")


@dataclass(frozen=True)
class Reply:
    """A packet that is neither data nor text: the answer to a request, or a type unknown here."""

    kind: int
    payload: bytes


@dataclass(frozen=True)
class TextMessage:
    """What the controller wants an operator to read."""

    level: str
    source: str
    text: str


@dataclass(frozen=True)
class Recipe:
    """The layout of this connection's data packets: ``packet`` includes the header and the recipe's id."""

    identifier: int
    packet: np.dtype[Any]


Packet = Reply | TextMessage | NDArray[np.void]


def request(kind: int, payload: bytes = b"") -> bytes:
    """Return a whole packet."""
    return _HEADER.pack(_HEADER.size + len(payload), kind) + payload


def request_protocol() -> bytes:
    return request(PROTOCOL, struct.pack(">H", PROTOCOL_VERSION))


def request_outputs(names: Sequence[str], rate_hz: float) -> bytes:
    """Ask for these output fields, ``rate_hz`` times a second."""
    return request(SETUP_OUTPUTS, struct.pack(">d", rate_hz) + ",".join(names).encode("ascii"))


def accepted(payload: bytes) -> bool:
    """Decode the answer to `request_protocol` and to ``START``."""
    return payload[:1] == b"\x01"


def controller_version(payload: bytes) -> tuple[int, int, int, int]:
    """Decode the answer to ``CONTROLLER_VERSION``: major, minor, bugfix, build."""
    if len(payload) != 16:
        raise DriverProtocolError(f"RTDE: a controller version of {len(payload)} bytes, expected 16")
    major, minor, bugfix, build = struct.unpack(">4I", payload)
    return major, minor, bugfix, build


def recipe(names: Sequence[str], payload: bytes) -> Recipe:
    """Decode the answer to `request_outputs`.

    Raises
    ------
    DriverProtocolError
        The controller does not know a field, or answers something else.
    """
    if len(payload) < 2:
        raise DriverProtocolError("RTDE: the answer to the output setup is empty")
    types = payload[1:].decode("ascii", errors="replace").split(",")
    if len(types) != len(names):
        raise DriverProtocolError(f"RTDE: asked for {len(names)} fields, the answer has {len(types)}")
    missing = [name for name, kind in zip(names, types, strict=True) if kind == "NOT_FOUND"]
    if missing:
        raise DriverProtocolError(
            f"RTDE: the controller does not offer {', '.join(missing)}; it is older than this driver needs",
            missing=missing,
        )
    unknown = sorted(set(types) - _FIELD_TYPES.keys())
    if unknown:
        raise DriverProtocolError(f"RTDE: unknown field types {', '.join(unknown)}")
    fields = [(name, _FIELD_TYPES[kind]) for name, kind in zip(names, types, strict=True)]
    header = [("size", ">u2"), ("type", "u1"), ("recipe", "u1")]
    return Recipe(payload[0], np.dtype([*header, *fields]))


class Decoder:
    """Turns the bytes of one connection into packets, however they were cut; keeps what is incomplete.

    Data packets that follow each other are returned as one array of ``recipe.packet``, viewed, not copied.
    """

    def __init__(self) -> None:
        self.recipe: Recipe | None = None
        self._rest = b""

    @property
    def incomplete(self) -> bytes:
        """The beginning of a packet that has not come whole."""
        return self._rest

    def feed(self, data: bytes) -> list[Packet]:
        """Take received bytes, return the packets they complete, in order.

        Raises
        ------
        DriverProtocolError
            This is not RTDE, or a data packet is not of the agreed layout. The connection is then useless.
        """
        stream = self._rest + data if self._rest else data
        packets: list[Packet] = []
        at = 0
        while len(stream) - at >= _HEADER.size:
            size, kind = _HEADER.unpack_from(stream, at)
            if size < _HEADER.size:
                raise DriverProtocolError(f"RTDE: a packet of {size} bytes; the peer does not speak RTDE")
            if len(stream) - at < size:
                break
            if kind == DATA:
                run = self._data(stream, at, size)
                packets.append(run)
                at += run.nbytes
            else:
                payload = stream[at + _HEADER.size : at + size]
                packets.append(_text(payload) if kind == TEXT else Reply(kind, payload))
                at += size
        self._rest = stream[at:]
        return packets

    def _data(self, stream: bytes, at: int, size: int) -> NDArray[np.void]:
        """Return the unbroken run of data packets that starts at ``at``."""
        if self.recipe is None:
            raise DriverProtocolError("RTDE: data before any output was set up")
        layout = self.recipe.packet
        if size != layout.itemsize or stream[at + _HEADER.size] != self.recipe.identifier:
            raise DriverProtocolError(
                f"RTDE: a data packet of {size} bytes for recipe {stream[at + _HEADER.size]}, expected "
                f"{layout.itemsize} bytes for recipe {self.recipe.identifier}"
            )
        whole = (len(stream) - at) // layout.itemsize
        run = np.frombuffer(stream, layout, whole, at)
        if whole == 1:
            return run
        same = (run["size"] == size) & (run["type"] == DATA) & (run["recipe"] == self.recipe.identifier)
        return run if same.all() else run[: int(np.argmin(same))]


def _text(payload: bytes) -> TextMessage:
    """Decode a text message; one that is cut short still shows what it holds."""
    text, rest = _counted(payload)
    source, rest = _counted(rest)
    level = _TEXT_LEVELS[rest[0]] if rest and rest[0] < len(_TEXT_LEVELS) else "unknown"
    return TextMessage(level, source, text)


def _counted(payload: bytes) -> tuple[str, bytes]:
    if not payload:
        return "", b""
    end = 1 + payload[0]
    return payload[1:end].decode("utf-8", errors="replace"), payload[end:]
