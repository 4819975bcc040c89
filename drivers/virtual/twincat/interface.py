"""The PLC program's variables that it reads and writes in every cycle, as values.

NumPy views of single fields are slow next to a cycle of a millisecond, so whole structures are packed at once.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.twincat_layout import (
    ANSWER,
    APP_TIMESTAMP,
    ARRAYS,
    COMMAND,
    INFO,
    ONLINE_CHANGES,
    SAMPLE,
    STATE,
    SYSTEM_VARIABLES,
    VARIABLES,
    Result,
)
from drivers.virtual.twincat.symbols import Declaration, SymbolTable

_SAMPLE, _STATE, _COMMAND, _ANSWER = SAMPLE.layout, STATE.layout, COMMAND.layout, ANSWER.layout
_LREAL = struct.Struct("<d")
_WORD = 2**32


class Order(NamedTuple):
    """ST_DynidCommand."""

    sequence: int
    command: int
    version: int
    speed: float
    acceleration: float


class PlcInterface:
    """The variables of one program in its symbol table.

    Parameters
    ----------
    prefix : name of the global variable list.
    ring_length, table_length : elements of the arrays.
    """

    def __init__(self, prefix: str, ring_length: int, table_length: int) -> None:
        lengths = {"aRing": ring_length}
        declarations = [Declaration(f"{prefix}.{name}", kind) for name, kind in VARIABLES.items()]
        for name, structure in ARRAYS.items():
            declarations.append(Declaration(f"{prefix}.{name}", structure, lengths.get(name, table_length)))
        declarations += [Declaration(name, kind) for name, kind in SYSTEM_VARIABLES.items()]
        self.symbols = SymbolTable(declarations)
        self._prefix = prefix
        self._ring_length = ring_length
        self.bind()

    def bind(self) -> None:
        """Find the variables again, after their addresses have changed."""
        self._host_beat, self._plc_beat, self._head, self._path_time = (
            self.bytes_of(name) for name in ("nHostBeat", "nPlcBeat", "nHead", "fPathTime")
        )
        self._command, self._answer, self._state, self._ring = (
            self.bytes_of(name) for name in ("stCommand", "stAnswer", "stState", "aRing")
        )
        self._answered = bytes(self._answer[:4])
        self._shown: tuple[int, ...] = ()
        self.head = int.from_bytes(self._head, "little")

    def bytes_of(self, name: str) -> memoryview:
        return self.symbols.bytes_of(f"{self._prefix}.{name}")

    def view(self, name: str) -> NDArray[np.void]:
        return self.symbols[f"{self._prefix}.{name}"]

    # --- in --------------------------------------------------------------------------------------------

    @property
    def host_beat(self) -> bytes:
        return bytes(self._host_beat)

    def new_order(self) -> Order | None:
        """Return the command that has not been answered yet."""
        if self._command[:4] == self._answered:
            return None
        return Order(*_COMMAND.unpack(self._command))

    # --- out -------------------------------------------------------------------------------------------

    def answer(self, order: Order, result: Result) -> None:
        _ANSWER.pack_into(self._answer, 0, order.sequence, result)
        self._answered = bytes(self._answer[:4])

    def show_state(self, *values: int) -> None:
        """Write ST_DynidState, in the order of its members."""
        if values != self._shown:
            _STATE.pack_into(self._state, 0, *values)
            self._shown = values

    def append_sample(self, clock: int, status: int, path_time: float, legs: list[float]) -> None:
        """Write the next sample and then ``nHead``; ``legs`` are the arrays of ST_DynidSample, one after the other."""
        _SAMPLE.pack_into(
            self._ring, self.head % self._ring_length * _SAMPLE.size, self.head, clock, status, path_time, *legs
        )
        _LREAL.pack_into(self._path_time, 0, path_time)
        self.head = (self.head + 1) % _WORD
        self._head[:] = self._plc_beat[:] = self.head.to_bytes(4, "little")

    def introduce(self, *values: int | float | bytes) -> None:
        """Write ST_DynidInfo, in the order of its members."""
        INFO.layout.pack_into(self.bytes_of("stInfo"), 0, *values)

    def stamp(self, compiled: int, online_changes: int) -> None:
        """Write what TwinCAT itself says about the program."""
        self.symbols[APP_TIMESTAMP][...] = compiled
        self.symbols[ONLINE_CHANGES][...] = online_changes
