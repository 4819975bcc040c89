"""What the registers show of the database: the result in force and the newest feedforward table of a robot."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from service.modbus.register_map import MOST_JOINTS, Quantity
from service.storage import Database, feedforward, results
from service.storage.states import ResultState
from service.storage.tables import FeedforwardTableRow, ResultRow

Words = NDArray[np.uint16]

_NOTHING = (math.nan,) * MOST_JOINTS


@dataclass(frozen=True, eq=False)
class ServedTable:
    """A table ready to be sent; never changed, only replaced. ``words``: (2 samples joints,) registers, ABCD."""

    id: str
    version: int
    result_id: str
    cycle_time: float
    samples: int
    joints: int
    words: Mapping[Quantity, Words]
    crc: Mapping[Quantity, int]

    @classmethod
    def of(cls, row: FeedforwardTableRow) -> ServedTable:
        columns = {Quantity.TORQUE: row.torque, Quantity.CURRENT: row.current}
        present = {quantity: data for quantity, data in columns.items() if data is not None}
        return cls(
            id=row.id,
            version=row.version,
            result_id=row.result_id,
            cycle_time=row.cycle_time,
            samples=row.samples,
            joints=row.n_joints,
            words={quantity: _words(data) for quantity, data in present.items()},
            crc={quantity: zlib.crc32(data) for quantity, data in present.items()},
        )


@dataclass(frozen=True)
class ServedResult:
    """The result in force. ``rms`` and ``relative`` (MOST_JOINTS,) are of its last validation, NaN where unknown."""

    id: str
    activated_at: datetime | None
    passed: bool
    rms: Sequence[float]
    relative: Sequence[float]

    @classmethod
    def of(cls, row: ResultRow) -> ServedResult:
        validation = row.validation or {}
        report = validation.get("report") or {}
        return cls(
            id=row.id,
            activated_at=row.activated_at,
            passed=bool(validation.get("passed", False)),
            rms=_per_joint(report.get("rms_moving")),
            relative=_per_joint(report.get("relative_moving")),
        )


@dataclass(frozen=True, eq=False)
class InForce:
    """Both, as one reading transaction saw them at ``looked_up`` (``time.monotonic()``); -inf: never."""

    looked_up: float = -math.inf
    result: ServedResult | None = None
    table: ServedTable | None = None


def look_up(database: Database, robot: str, before: InForce) -> InForce:
    """Return what is in force now; the numbers of a table are read only when it is another one. For a thread.

    Raises
    ------
    StorageError
        The database cannot be read now.
    """
    now = time.monotonic()
    with database.reading() as session:
        active = results.find(session, robot=robot, state=ResultState.ACTIVE, limit=1)
        newest = feedforward.find(session, robot=robot, limit=1)
        table = before.table
        if not newest:
            table = None
        elif table is None or table.id != newest[0].id:
            latest = feedforward.latest(session, robot)
            table = None if latest is None else ServedTable.of(latest)
        return InForce(now, ServedResult.of(active[0]) if active else None, table)


def _words(data: bytes) -> Words:
    return np.frombuffer(data, dtype="<f4").astype(">f4").view(">u2").astype(np.uint16)


def _per_joint(values: Sequence[float | None] | None) -> Sequence[float]:
    known = [math.nan if value is None else value for value in values or ()]
    if len(known) > MOST_JOINTS:  # of another model, from before the settings were changed
        return _NOTHING
    return (*known, *_NOTHING[len(known) :])
