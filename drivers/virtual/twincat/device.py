"""The ADS device of a PLC runtime (port 851): answers requests from its symbol table. No sockets here."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum

from drivers.virtual.twincat.ams import LARGEST_PACKET, AdsCommand, AdsErrorCode, AdsFailure, AdsState, Request
from drivers.virtual.twincat.notifications import Subscriptions
from drivers.virtual.twincat.symbols import GROUP, Symbol, SymbolTable, symbol_entry


class Group(IntEnum):
    """Index groups that are no memory; names as in Beckhoff's TcAdsDef."""

    HANDLE_BY_NAME = 0xF003
    VALUE_BY_NAME = 0xF004
    VALUE_BY_HANDLE = 0xF005
    RELEASE_HANDLE = 0xF006
    INFO_BY_NAME = 0xF007
    SYMBOL_VERSION = 0xF008
    INFO_BY_NAME_EX = 0xF009
    SYMBOL_UPLOAD = 0xF00B
    UPLOAD_INFO = 0xF00C
    TYPE_UPLOAD = 0xF00E
    UPLOAD_INFO_2 = 0xF00F
    SUM_READ = 0xF080
    SUM_WRITE = 0xF081
    SUM_READ_WRITE = 0xF082
    DEVICE_DATA = 0xF100


MOST_SUB_COMMANDS = 500

_U32 = struct.Struct("<I")
_ADDRESS = struct.Struct("<2I")
_READ = struct.Struct("<3I")
_READ_WRITE = struct.Struct("<4I")
_CONTROL = struct.Struct("<2HI")
_SUBSCRIBE = struct.Struct("<6I")
_OK = _U32.pack(AdsErrorCode.NONE)
_DEVICE_NAME = b"Plc30 App"
_DEVICE_VERSION = (3, 1, 4026)


class PlcDevice:
    """Answers one request at a time.

    Parameters
    ----------
    symbols : the program's variables.
    set_state : called with RUN or STOP when a client asks for it.
    """

    def __init__(self, symbols: SymbolTable, set_state: Callable[[AdsState], None]) -> None:
        self.symbols = symbols
        self.state = AdsState.RUN
        self.reads = 0
        self._set_state = set_state
        self._uploads: dict[int, Callable[[], bytes]] = {
            Group.SYMBOL_UPLOAD: symbols.symbol_entries,
            Group.TYPE_UPLOAD: symbols.type_entries,
            Group.UPLOAD_INFO: lambda: self._upload_info()[:8],
            Group.UPLOAD_INFO_2: self._upload_info,
            Group.SYMBOL_VERSION: lambda: bytes([symbols.version]),
        }

    def answer(self, request: Request, subscriptions: Subscriptions) -> bytes:
        """Return the data of the response; errors stand in it, as ADS has it."""
        try:
            return _OK + self._serve(request, subscriptions)
        except struct.error:  # shorter than the command's own fields
            return self._failed(request.command, AdsErrorCode.INVALID_SIZE)
        except AdsFailure as failure:
            return self._failed(request.command, failure.code)

    @staticmethod
    def _failed(command: int, code: AdsErrorCode) -> bytes:
        empty = command in (AdsCommand.READ, AdsCommand.READ_WRITE)
        return _U32.pack(code) + (_U32.pack(0) if empty else b"")

    def _serve(self, request: Request, subscriptions: Subscriptions) -> bytes:
        data, answer = request.data, b""
        match request.command:
            case AdsCommand.READ:
                self.reads += 1
                answer = _counted(self._read(*_READ.unpack_from(data)))
            case AdsCommand.WRITE:
                group, offset, size = _READ.unpack_from(data)
                self._write(group, offset, _exactly(data, _READ.size, size))
            case AdsCommand.READ_WRITE:
                self.reads += 1
                group, offset, most, size = _READ_WRITE.unpack_from(data)
                answer = _counted(self._read_write(group, offset, most, _exactly(data, _READ_WRITE.size, size)))
            case AdsCommand.READ_STATE:
                answer = struct.pack("<2H", self.state, 0)
            case AdsCommand.READ_DEVICE_INFO:
                answer = struct.pack("<2BH16s", *_DEVICE_VERSION, _DEVICE_NAME)
            case AdsCommand.WRITE_CONTROL:
                self._control(*_CONTROL.unpack_from(data))
            case AdsCommand.ADD_NOTIFICATION:
                group, offset, size, mode, delay, cycle = _SUBSCRIBE.unpack_from(data)
                symbol = self._locate(group, offset, size)
                answer = _U32.pack(subscriptions.add(request, symbol, mode, delay, cycle))
            case AdsCommand.DELETE_NOTIFICATION:
                subscriptions.delete(request, *_U32.unpack_from(data))
            case _:
                raise AdsFailure(AdsErrorCode.SERVICE_NOT_SUPPORTED)
        return answer

    def _control(self, state: int, _device_state: int, _size: int) -> None:
        if state not in (AdsState.RUN, AdsState.STOP):
            raise AdsFailure(AdsErrorCode.INVALID_STATE)
        self._set_state(AdsState(state))

    # --- reading and writing ---------------------------------------------------------------------------

    def _locate(self, group: int, offset: int, size: int) -> Symbol:
        """Return the memory that an address and a size mean; through a handle never more than the variable."""
        if group == Group.VALUE_BY_HANDLE:
            symbol = self.symbols.by_handle(offset)
            return replace(symbol, size=min(size, symbol.size))
        if group == GROUP:
            self.symbols.read(offset, 0)  # refuses what lies outside
            return Symbol("", "", 0, offset, size)
        raise AdsFailure(AdsErrorCode.INVALID_GROUP)

    def _read(self, group: int, offset: int, size: int) -> bytes:
        if size > LARGEST_PACKET:
            raise AdsFailure(AdsErrorCode.INVALID_SIZE)
        if group == Group.DEVICE_DATA:
            return struct.pack("<2H", self.state, 0)[offset : offset + size]
        upload = self._uploads.get(group)
        if upload is not None:
            return upload()[:size]
        place = self._locate(group, offset, size)
        return self.symbols.read(place.offset, place.size)

    def _write(self, group: int, offset: int, data: bytes) -> None:
        if group == Group.RELEASE_HANDLE:
            self.symbols.close_handle(*_U32.unpack_from(data))
            return
        place = self._locate(group, offset, len(data))
        if place.size != len(data):
            raise AdsFailure(AdsErrorCode.INVALID_SIZE)
        self.symbols.write(place.offset, data)

    def _read_write(self, group: int, offset: int, most: int, data: bytes) -> bytes:
        answer: bytes
        match group:
            case Group.HANDLE_BY_NAME:
                answer = _U32.pack(self.symbols.open_handle(_text(data)))
            case Group.VALUE_BY_NAME:
                symbol = self.symbols.find(_text(data))
                answer = self.symbols.read(symbol.offset, symbol.size)
            case Group.INFO_BY_NAME:
                symbol = self.symbols.find(_text(data))
                answer = _READ.pack(GROUP, symbol.offset, symbol.size)
            case Group.INFO_BY_NAME_EX:
                answer = symbol_entry(self.symbols.find(_text(data)))
            case Group.SUM_READ:
                answer = self._sum_read(offset, data)
            case Group.SUM_WRITE:
                answer = self._sum_write(offset, data)
            case Group.SUM_READ_WRITE:
                answer = self._sum_read_write(offset, data)
            case _:
                answer = self._read(group, offset, most)
                self._write(group, offset, data)
        if len(answer) > most:
            raise AdsFailure(AdsErrorCode.INVALID_SIZE)
        return answer

    def _sum_read(self, count: int, data: bytes) -> bytes:
        """Codes of all sub-commands, then their data, zeros where one has failed."""
        codes, parts, total = [], [], 0
        for group, offset, size in _sub_commands(_READ, count, data):
            total += size
            if total > LARGEST_PACKET:
                raise AdsFailure(AdsErrorCode.INVALID_SIZE)
            try:
                part, code = self._read(group, offset, size), AdsErrorCode.NONE
            except AdsFailure as failure:
                part, code = b"", failure.code
            codes.append(_U32.pack(code))
            parts.append(part.ljust(size, b"\0"))
        return b"".join(codes) + b"".join(parts)

    def _sum_write(self, count: int, data: bytes) -> bytes:
        """Codes of all sub-commands; the data to write follows all their heads."""
        at = count * _READ.size
        codes = []
        for group, offset, size in _sub_commands(_READ, count, data):
            try:
                self._write(group, offset, _exactly(data, at, size, at_end=False))
                code = AdsErrorCode.NONE
            except AdsFailure as failure:
                code = failure.code
            at += size
            codes.append(_U32.pack(code))
        return b"".join(codes)

    def _sum_read_write(self, count: int, data: bytes) -> bytes:
        """Codes and lengths of all sub-commands, then their data."""
        at = count * _READ_WRITE.size
        heads, parts = [], []
        for group, offset, most, size in _sub_commands(_READ_WRITE, count, data):
            if group in (Group.SUM_READ, Group.SUM_WRITE, Group.SUM_READ_WRITE):
                raise AdsFailure(AdsErrorCode.INVALID_GROUP)
            try:
                part = self._read_write(group, offset, most, _exactly(data, at, size, at_end=False))
                code = AdsErrorCode.NONE
            except AdsFailure as failure:
                part, code = b"", failure.code
            at += size
            heads.append(_ADDRESS.pack(code, len(part)))
            parts.append(part)
        return b"".join(heads) + b"".join(parts)

    def _upload_info(self) -> bytes:
        symbols = self.symbols
        entries, types = len(symbols.symbol_entries()), len(symbols.type_entries())
        return struct.pack("<6I", symbols.symbol_count, entries, symbols.type_count, types, 0, 0)


def _counted(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data


def _exactly(data: bytes, at: int, size: int, *, at_end: bool = True) -> bytes:
    """Return ``size`` bytes; refuse a request that announces more, or less, than it holds."""
    part = data[at : at + size]
    if len(part) != size or (at_end and at + size != len(data)):
        raise AdsFailure(AdsErrorCode.INVALID_SIZE)
    return part


def _sub_commands(head: struct.Struct, count: int, data: bytes) -> list[tuple[int, ...]]:
    if not 0 < count <= MOST_SUB_COMMANDS or len(data) < count * head.size:
        raise AdsFailure(AdsErrorCode.INVALID_PARAMETER)
    return list(head.iter_unpack(data[: count * head.size]))


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("latin-1")
