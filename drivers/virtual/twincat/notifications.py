"""Device notifications of one connection: what was subscribed to, looked at every cycle, sent when it is due.

Source: Beckhoff, "ADS/AMS specification", commands 6 to 8, and AdsNotificationAttrib. Times are in 100 ns.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from drivers.virtual.twincat.ams import Address, AdsErrorCode, AdsFailure, Request, notification
from drivers.virtual.twincat.symbols import Symbol, SymbolTable

MOST_PER_PORT = 550
_LARGEST = 65536  # bytes that may be watched by one notification
_UNIT = 1e-7  # s
_EPOCH = 116444736000000000  # FILETIME of 1970-01-01
_CYCLIC, _ON_CHANGE = (3, 5), (4, 6)  # transmission modes; the larger ones differ in how a Windows client is told
_STAMP = struct.Struct("<QI")
_SAMPLE = struct.Struct("<2I")


@dataclass
class _Subscription:
    handle: int
    client: Address
    device: Address
    symbol: Symbol
    on_change: bool
    every: int  # cycles between looks
    delay: float  # s that samples may wait to be sent together
    generation: int  # of the symbols; when they change, the subscription is void
    seen: bytes | None = None
    waiting: list[tuple[int, bytes]] = field(default_factory=list)
    waiting_since: float = 0.0


class Subscriptions:
    """All notifications of one TCP connection.

    Parameters
    ----------
    symbols : where the values are.
    period : s of a PLC cycle.
    """

    def __init__(self, symbols: SymbolTable, period: float) -> None:
        self._symbols = symbols
        self._period = period
        self._all: dict[int, _Subscription] = {}
        self._next_handle = 1

    def __len__(self) -> int:
        return len(self._all)

    def add(self, request: Request, symbol: Symbol, mode: int, delay: int, cycle: int) -> int:
        """Subscribe; returns the handle.

        Raises
        ------
        AdsFailure
        """
        if mode not in _CYCLIC + _ON_CHANGE:
            raise AdsFailure(AdsErrorCode.TRANSMISSION_MODE_NOT_SUPPORTED)
        if not 0 < symbol.size <= _LARGEST:
            raise AdsFailure(AdsErrorCode.INVALID_SIZE)
        if sum(one.client == request.source for one in self._all.values()) >= MOST_PER_PORT:
            raise AdsFailure(AdsErrorCode.NO_MORE_NOTIFICATION_HANDLES)
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._all[handle] = _Subscription(
            handle,
            request.source,
            request.target,
            symbol,
            on_change=mode in _ON_CHANGE,
            every=max(1, round(cycle * _UNIT / self._period)),
            delay=delay * _UNIT,
            generation=self._symbols.generation,
        )
        return handle

    def delete(self, request: Request, handle: int) -> None:
        found = self._all.get(handle)
        if found is None or found.client != request.source:
            raise AdsFailure(AdsErrorCode.NOTIFICATION_HANDLE_INVALID)
        del self._all[handle]

    def due(self, cycle: int) -> Iterator[bytes]:
        """Yield the frames to send after PLC cycle number ``cycle``."""
        if not self._all:
            return
        now = time.monotonic()
        for one in self._all.values():
            if cycle % one.every == 0 or one.seen is None:
                self._look(one, now)
            if one.waiting and now - one.waiting_since + self._period >= one.delay:
                yield _frame(one)
                one.waiting.clear()

    def _look(self, one: _Subscription, now: float) -> None:
        if one.generation != self._symbols.generation:
            if one.seen == b"":
                return
            value = b""  # void: said once, with a sample of no bytes
        else:
            value = self._symbols.read(one.symbol.offset, one.symbol.size)
        if one.on_change and value == one.seen:
            return
        one.seen = value
        if not one.waiting:
            one.waiting_since = now
        one.waiting.append((_EPOCH + time.time_ns() // 100, value))


def _frame(one: _Subscription) -> bytes:
    stamps = b"".join(
        _STAMP.pack(stamp, 1) + _SAMPLE.pack(one.handle, len(value)) + value for stamp, value in one.waiting
    )
    data = struct.pack("<I", len(one.waiting)) + stamps
    return notification(one.client, one.device, struct.pack("<I", len(data)) + data)
