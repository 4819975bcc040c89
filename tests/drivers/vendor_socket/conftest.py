"""Frames as the vendors' documents say they look, made without the parser or its layouts."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pytest


class FrameBytes:
    @staticmethod
    def r5(number: int, q: float = 0.1, current_ma: float = 1500.0, status: int = 2) -> bytes:
        """COMAN R5 placeholder frame ``number``, stamped 1 ms apart."""
        joints = [q + 0.01 * j for j in range(6)]
        body = b"R5\xaa\x55" + struct.pack("<HHIQ", 272, 1, number & 0xFFFFFFFF, number * 1_000_000)
        body += struct.pack("<12d6f12d6f", *joints, *[0.5] * 6, *[current_ma] * 6, *joints, *[0.5] * 6, *[1000.0] * 6)
        body += struct.pack("<IHH", status, 2, 7)
        return body + struct.pack("<I", zlib.crc32(body))

    @staticmethod
    def dobot(stamp_ms: int, q_deg: float = 90.0, mode: int = 5) -> bytes:
        frame = bytearray(1440)
        struct.pack_into("<H", frame, 0, 1440)
        struct.pack_into("<3Q", frame, 24, mode, stamp_ms, 5)
        struct.pack_into("<Q", frame, 48, 0x0123456789ABCDEF)
        struct.pack_into("<6d", frame, 192, *[q_deg + j for j in range(6)])
        struct.pack_into("<6d", frame, 240, *[0.0] * 6)
        struct.pack_into("<6d", frame, 432, *[q_deg + j for j in range(6)])
        struct.pack_into("<6d", frame, 480, *[180.0] * 6)
        struct.pack_into("<6d", frame, 528, *[1.5] * 6)
        return bytes(frame)

    @staticmethod
    def elite(stamp_ms: int, size: int, q_deg: float = 90.0) -> bytes:
        """``size`` bytes: 607 with joint speeds, fewer from older firmware."""
        fields = struct.pack(">IQB", size, stamp_ms, 1) + struct.pack(">8d", *[q_deg + j for j in range(8)])
        fields += bytes(8 * 12) + struct.pack(">8d", *[12.0] * 8) + struct.pack(">12i", 0, 1, 1, *[0] * 8, 2)
        fields += bytes(8 * 10 + 1 + 8 * 12 + 1 + 8) + struct.pack(">8d", *[45.0] * 8) + bytes(8 * 9)
        return (fields + bytes(size))[:size]

    @staticmethod
    def xarm(stamp_us: int, size: int = 784, q: float = 0.5) -> bytes:
        frame = bytearray(size)
        struct.pack_into("<IQBH", frame, 0, size, stamp_us, 0, 0)
        struct.pack_into("<7f", frame, 32, *[q] * 7)
        struct.pack_into("<7f", frame, 116, *[q + 0.125 * j for j in range(7)])
        struct.pack_into("<7f", frame, 144, *[0.25] * 7)
        struct.pack_into("<7f", frame, 200, *[2.0] * 7)
        struct.pack_into("<7f", frame, 228, *[16.0] * 7)
        return bytes(frame)

    @staticmethod
    def jaka(q_deg: float = 90.0, padding: int = 10) -> bytes:
        document = {
            "len": 5000,
            "errmsg": "a } in a text, and a {",
            "extio": {"setup": [], "status": [{"x": 1}] * padding},
            "joint_actual_position": [q_deg + j for j in range(6)],
            "joint_position": [q_deg] * 6,
            "interp_state": 0,
            "emergency_stop": 0,
            "task_state": 4,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @staticmethod
    def cut(stream: bytes, seed: int, longest: int = 4000) -> list[bytes]:
        """Cut a stream at random."""
        random = np.random.default_rng(seed)
        pieces, at = [], 0
        while at < len(stream):
            end = at + int(random.integers(1, longest + 1))
            pieces.append(stream[at:end])
            at = end
        return pieces


@pytest.fixture(scope="session")
def frame_bytes() -> type[FrameBytes]:
    """Makers of single frames, and a way to cut a stream of them."""
    return FrameBytes
