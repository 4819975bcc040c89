"""What the virtual controller puts on the wire: frames of 272 bytes, and JSON lines. No sockets here."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HEAD = struct.Struct("<4sHHIQ")
_TAIL = struct.Struct("<IHH")
_SUM = struct.Struct("<I")
_MAGIC, _SIZE, _STATE = b"R5\xaa\x55", 272, 1
_TARGET_Q, _TARGET_QD, _TARGET_CURRENT, _Q, _QD, _CURRENT = 0, 1, 3, 5, 6, 7  # rows of the plant's ``out``


def frame(number: int, time: float, out: Array, status: int, mode: int, waiting: int) -> bytes:
    """Return the state frame ``number`` of the controller's ``time`` s; currents are sent in mA."""
    milliampere = (1e3 * out).astype("<f4")
    body = b"".join(
        (
            _HEAD.pack(_MAGIC, _SIZE, _STATE, number & 0xFFFFFFFF, round(time * 1e9)),
            out[_Q].astype("<f8").tobytes(),
            out[_QD].astype("<f8").tobytes(),
            milliampere[_CURRENT].tobytes(),
            out[_TARGET_Q].astype("<f8").tobytes(),
            out[_TARGET_QD].astype("<f8").tobytes(),
            milliampere[_TARGET_CURRENT].tobytes(),
            _TAIL.pack(status, mode, waiting),
        )
    )
    return body + _SUM.pack(zlib.crc32(body))


def request(line: bytes) -> dict[str, Any]:
    """Return a request, an object with ``do``; raises ValueError, or TypeError, where it is none."""
    document = json.loads(line)
    if not isinstance(document, dict) or not isinstance(document.get("do"), str):
        raise TypeError("a request is an object with 'do'")
    return document


def reply(identifier: Any, refusal: str | None, content: dict[str, Any] | None = None) -> bytes:
    """Return an answer, with the request's id where it had one."""
    document: dict[str, Any] = {} if identifier is None else {"id": identifier}
    document |= {"ok": refusal is None} | ({} if refusal is None else {"error": refusal}) | (content or {})
    return json.dumps(document).encode() + b"\n"
