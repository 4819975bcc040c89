"""A bare RTDE reader for tests: it shares no code with the controller under test."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_WIDTH = {"DOUBLE": "d", "VECTOR6D": "6d", "UINT32": "I", "INT32": "i"}


class RtdeStream:
    """One RTDE connection that decodes every data package."""

    def __init__(self, host: str) -> None:
        self.socket = socket.create_connection((host, 30004), timeout=5.0)
        self._buffer = b""

    def start(self, names: list[str], frequency: float) -> None:
        """Ask for variables and let the stream begin."""
        assert self.ask(b"V", struct.pack(">H", 2)) == b"\x01"
        reply = self.ask(b"O", struct.pack(">d", frequency) + ",".join(names).encode())
        assert reply[0] == 1, reply
        types = reply[1:].decode().split(",")
        self._names, self._layouts = names, [_WIDTH[kind] for kind in types]
        assert self.ask(b"S") == b"\x01"

    def ask(self, kind: bytes, payload: bytes = b"") -> bytes:
        """Send a request and return the payload of its reply."""
        self.socket.sendall(struct.pack(">H", 3 + len(payload)) + kind + payload)
        while True:
            got, reply = self.package()
            if got == kind:
                return reply

    def package(self) -> tuple[bytes, bytes]:
        """Return the next package: type and payload."""
        while len(self._buffer) < 3 or len(self._buffer) < struct.unpack_from(">H", self._buffer)[0]:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the controller closed the connection")
            self._buffer += data
        size = struct.unpack_from(">H", self._buffer)[0]
        package, self._buffer = self._buffer[:size], self._buffer[size:]
        return package[2:3], package[3:]

    def samples(self, seconds: float) -> Iterator[dict[str, Any]]:
        """Yield samples until ``seconds`` have passed on this machine's clock."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            yield self.sample()

    def sample(self) -> dict[str, Any]:
        """Return the next sample: name -> float, int or tuple of six."""
        kind, payload = self.package()
        while kind != b"U":
            kind, payload = self.package()
        sample, at = {}, 1
        for name, layout in zip(self._names, self._layouts, strict=True):
            values = struct.unpack_from(">" + layout, payload, at)
            at += struct.calcsize(">" + layout)
            sample[name] = values if len(values) > 1 else values[0]
        return sample

    def until(self, condition: Callable[[dict[str, Any]], bool], seconds: float = 10.0) -> dict[str, Any]:
        """Return the first sample that meets ``condition``; fails after ``seconds``."""
        for sample in self.samples(seconds):
            if condition(sample):
                return sample
        pytest.fail(f"condition not met within {seconds} s; last sample {sample}")


@pytest.fixture
def open_stream() -> Iterator[Callable[..., RtdeStream]]:
    streams: list[RtdeStream] = []

    def open_one(host: str, names: list[str], frequency: float = 500.0) -> RtdeStream:
        streams.append(RtdeStream(host))
        streams[-1].start(names, frequency)
        return streams[-1]

    yield open_one
    for stream in streams:
        stream.socket.close()
