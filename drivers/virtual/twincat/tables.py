"""How the PLC takes an upload: it looks at size and CRC, a piece per cycle, before it uses a row."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.twincat_layout import TableState
from drivers.virtual.twincat.symbols import SymbolTable

_BYTES_PER_CYCLE = 1 << 15  # of CRC that fit in a cycle


class UploadedTable:
    """One table: a header that says what was uploaded, rows, and the PLC's own finding about them.

    Setting the header's nVersion to 0 withdraws the table; any other new version is checked, then valid.
    """

    def __init__(self, symbols: SymbolTable, header: str, rows: str, state: str) -> None:
        self._symbols = symbols
        self._header = header
        self._rows_name = rows
        self._state = state
        self._checked = 0  # bytes
        self._crc = 0
        self.rows: NDArray[Any] | None = None
        """A copy of the valid rows, None without; to write to the uploaded ones changes nothing any more."""

    @property
    def header(self) -> NDArray[Any]:
        return self._symbols[self._header]

    @property
    def version(self) -> int:
        """Of the valid table; 0 without."""
        return 0 if self.rows is None else int(self._symbols[self._state]["nVersion"])

    @property
    def crc(self) -> int:
        return int(self._symbols[self._state]["nCrc"])

    def run_cycle(self) -> None:
        """Take note of a new version, and go on checking."""
        header, state = self.header, self._symbols[self._state]
        if header["nVersion"] != state["nVersion"]:
            self.rows = None
            self._checked = self._crc = 0
            state["nVersion"] = header["nVersion"]
            state["nRows"] = state["nCrc"] = 0
            state["eState"] = TableState.CHECKING if header["nVersion"] else TableState.EMPTY
        if state["eState"] == TableState.CHECKING:
            state["eState"] = self._check(header, state)

    def _check(self, header: NDArray[Any], state: NDArray[Any]) -> TableState:
        rows, count, period = self._symbols[self._rows_name], int(header["nRows"]), float(header["fPeriod"])
        if not (2 <= count <= rows.size and np.isfinite(period) and period > 0.0):
            return TableState.BAD_SIZE
        raw = rows[:count].view(np.uint8)
        piece = raw[self._checked : self._checked + _BYTES_PER_CYCLE]
        self._crc = zlib.crc32(piece.tobytes(), self._crc)
        self._checked += piece.size
        if self._checked < raw.size:
            return TableState.CHECKING
        state["nRows"], state["nCrc"] = count, self._crc
        if self._crc != int(header["nCrc"]):
            return TableState.BAD_CRC
        self.rows = rows[:count].copy()
        return TableState.VALID
