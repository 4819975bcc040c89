"""The checksums that vendors append to their frames."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Callable


def _reflected_table(polynomial: int) -> tuple[int, ...]:
    table = []
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_REFLECTED_8005 = _reflected_table(0xA001)


def _reflected_crc16(data: bytes, crc: int) -> int:
    for byte in data:
        crc = crc >> 8 ^ _REFLECTED_8005[(crc ^ byte) & 0xFF]
    return crc


def _xor8(data: bytes) -> int:
    result = 0
    for byte in data:
        result ^= byte
    return result


CHECKSUMS: dict[str, Callable[[bytes], int]] = {
    "crc32": zlib.crc32,
    "crc16_modbus": lambda data: _reflected_crc16(data, 0xFFFF),
    "crc16_arc": lambda data: _reflected_crc16(data, 0),
    "crc16_ccitt_false": lambda data: binascii.crc_hqx(data, 0xFFFF),
    "crc16_xmodem": lambda data: binascii.crc_hqx(data, 0),
    "sum8": lambda data: sum(data) & 0xFF,
    "sum16": lambda data: sum(data) & 0xFFFF,
    "sum32": lambda data: sum(data) & 0xFFFFFFFF,
    "xor8": _xor8,
}
"""By the names of the CRC catalogue (reveng.sourceforge.io), `crc32` being CRC-32/ISO-HDLC; sums of bytes."""
