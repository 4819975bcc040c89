"""Tables that the PLC plays: written in chunks, announced with version, length and CRC, and read back."""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from drivers.beckhoff_ads.variables import Variables
from drivers.contract import DriverProtocolError, DriverTimeout
from drivers.trajectory import FeedforwardCurrents, PlayableTrajectory
from drivers.twincat_layout import ARRAYS, FEEDFORWARD_ROW, TRAJECTORY_ROW, TableState

CHUNK = 1 << 16  # bytes in one request
CHECK_TIMEOUT = 5.0  # s for the PLC to compute its CRC
LOOK_PERIOD = 0.01  # s


@dataclass(frozen=True)
class Table:
    """Where a kind of table goes: header, rows, and what the PLC finds about them."""

    name: str
    header: str
    rows: str

    @property
    def state(self) -> str:
        return self.header + "State"


TRAJECTORY = Table("trajectory", "stTrajectory", "aTrajectory")
FEEDFORWARD = Table("feedforward table", "stFeedforward", "aFeedforward")


def trajectory_rows(trajectory: PlayableTrajectory) -> NDArray[Any]:
    """Return a trajectory of leg lengths as the PLC's rows."""
    rows = np.empty(trajectory.q.shape[0], TRAJECTORY_ROW.dtype)
    rows["aLength"], rows["aSpeed"] = trajectory.q, trajectory.qd
    return rows


def feedforward_rows(currents: FeedforwardCurrents) -> NDArray[Any]:
    """Return currents as the PLC's rows."""
    rows = np.empty(currents.current.shape[0], FEEDFORWARD_ROW.dtype)
    rows["aCurrent"] = currents.current
    return rows


def crc(rows: NDArray[Any]) -> int:
    """CRC-32 (ISO 3309) of rows as they lie in the PLC's memory."""
    return zlib.crc32(rows.tobytes())


def upload(
    variables: Variables,
    table: Table,
    rows: NDArray[Any],
    period: float,
    *,
    trajectory_crc: int = 0,
    meanwhile: Callable[[], None] = lambda: None,
) -> int:
    """Write a table, have the PLC check it, read every byte back; returns its version, which is new.

    ``meanwhile`` is called between requests, and may raise to give up.

    Raises
    ------
    SymbolsChanged
        The PLC's program was changed; nothing that was written is in use.
    InputError
        The PLC's array is too short.
    DriverError
        ``plc-upload-failed``: what came back is not what was written, or the PLC refuses it.
    """
    session = variables.session
    address = session.address
    most = variables.lengths[table.rows]
    if rows.size > most:
        raise InputError(
            f"a {table.name} of {rows.size} rows; the PLC at {address} holds {most}: give it fewer rows, further apart"
        )
    withdraw(variables, table)
    data, size = rows.tobytes(), ARRAYS[table.rows].dtype.itemsize
    per_chunk = CHUNK // size
    for first in range(0, rows.size, per_chunk):
        group, offset, length = variables.elements(table.rows, first, min(per_chunk, rows.size - first))
        variables.require_unchanged()
        session.write(f"the {table.name}", group, offset, data[first * size : first * size + length])
        meanwhile()
    for first in range(0, rows.size, per_chunk):
        piece = variables.elements(table.rows, first, min(per_chunk, rows.size - first))
        if session.read(f"the {table.name}", *piece) != data[first * size : first * size + piece[2]]:
            raise address.problem(
                DriverProtocolError,
                f"row {first} of the {table.name}, or one after it, is not what was written; another program writes it",
                code="plc-upload-failed",
            )
        meanwhile()
    version = 1 + secrets.randbelow(2**32 - 1)
    variables.write(table.header, version, rows.size, period, zlib.crc32(data), trajectory_crc)
    _await_check(variables, table, version, meanwhile)
    return version


def withdraw(variables: Variables, table: Table) -> None:
    """Take a table out of use."""
    variables.write(table.header, 0, 0, 0.0, 0, 0)


def _await_check(variables: Variables, table: Table, version: int, meanwhile: Callable[[], None]) -> None:
    deadline = time.monotonic() + CHECK_TIMEOUT
    while True:
        (state,) = variables.read(table.state)
        if state["nVersion"] == version and state["eState"] == TableState.VALID:
            return
        if state["nVersion"] == version and state["eState"] != TableState.CHECKING:
            found = int(state["eState"])
            meaning = TableState(found).name if found in list(TableState) else str(found)
            raise variables.session.address.problem(
                DriverProtocolError, f"the PLC refuses the {table.name}: {meaning}", code="plc-upload-failed"
            )
        if time.monotonic() > deadline:
            raise variables.session.address.problem(
                DriverTimeout, f"the PLC has not checked the {table.name} within {CHECK_TIMEOUT:g} s"
            )
        meanwhile()
        time.sleep(LOOK_PERIOD)
