"""How the PLC takes an upload: it looks at size and CRC, a piece per cycle, before it uses a row."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from drivers.twincat_layout import TABLE, TABLE_STATE, TableState
from drivers.virtual.twincat.interface import PlcInterface

_BYTES_PER_CYCLE = 1 << 15  # of CRC that fit in a cycle


class UploadedTable:
    """One table: a header that says what was uploaded, rows, and the PLC's own finding about them.

    Setting the header's nVersion to 0 withdraws the table; any other new version is checked, then valid.
    """

    def __init__(
        self,
        interface: PlcInterface,
        header: str,
        rows: str,
        within_stroke: Callable[[NDArray[Any]], bool] = lambda _rows: True,
    ) -> None:
        self._interface = interface
        self._within_stroke = within_stroke
        self._names = header, header + "State", rows
        self.bind()
        self._version = 0
        self._state = TableState.EMPTY
        self._checked = 0  # bytes
        self.crc = 0
        self.period = 0.0
        self.trajectory_crc = 0
        self.rows: NDArray[Any] | None = None
        """A copy of the valid rows, None without; to write to the uploaded ones changes nothing any more."""

    def bind(self) -> None:
        """Find the variables again, after their addresses have changed."""
        header, state, rows = self._names
        self._header, self._shown = self._interface.bytes_of(header), self._interface.bytes_of(state)
        self._uploaded, self._row_bytes = self._interface.view(rows), self._interface.bytes_of(rows)

    @property
    def version(self) -> int:
        """Of the valid table; 0 without."""
        return 0 if self.rows is None else self._version

    def run_cycle(self) -> None:
        """Take note of a new version, and go on checking."""
        if int.from_bytes(self._header[:4], "little") != self._version:
            self._begin()
        if self._state is TableState.CHECKING:
            self._check()

    def _begin(self) -> None:
        self._version, self._count, self.period, self._announced, self.trajectory_crc = TABLE.layout.unpack(
            self._header
        )
        self.rows = None
        self._checked = self.crc = 0
        self._show(TableState.CHECKING if self._version else TableState.EMPTY)

    def _check(self) -> None:
        if not (2 <= self._count <= self._uploaded.size and math.isfinite(self.period) and self.period > 0.0):
            self._show(TableState.BAD_SIZE)
            return
        size = self._count * self._uploaded.itemsize
        piece = self._row_bytes[self._checked : min(self._checked + _BYTES_PER_CYCLE, size)]
        self.crc = zlib.crc32(piece, self.crc)
        self._checked += len(piece)
        if self._checked < size:
            return
        if self.crc != self._announced:
            self._show(TableState.BAD_CRC)
            return
        rows = self._uploaded[: self._count].copy()
        if not self._within_stroke(rows):
            self._show(TableState.OUT_OF_STROKE)
            return
        self.rows = rows
        self._show(TableState.VALID)

    def _show(self, state: TableState) -> None:
        self._state = state
        valid = state is TableState.VALID
        TABLE_STATE.layout.pack_into(self._shown, 0, self._version, self._count if valid else 0, self.crc, state)
