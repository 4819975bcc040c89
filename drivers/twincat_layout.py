"""The variables a TwinCAT project shares with this one: names, types, layouts and the numbers that mean something.

One description for the driver, the virtual controller and whoever writes the PLC's structured text. All structures
are ``{attribute 'pack_mode' := '1'}`` and little-endian, so a NumPy record of the same fields has the same bytes.
A change of any of this is a new `VERSION`: driver and PLC refuse each other unless theirs are equal.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

VERSION = 1
LEGS = 6
NAME_BYTES = 32  # STRING(31) with its closing zero


@dataclass(frozen=True)
class Scalar:
    """A PLC type that is no structure: as NumPy and ``struct`` write it, and the number that ADS gives it."""

    dtype: str
    format: str
    code: int


SCALARS: Mapping[str, Scalar] = {
    "BOOL": Scalar("?", "?", 33),
    "UINT": Scalar("<u2", "H", 18),
    "UDINT": Scalar("<u4", "I", 19),
    "ULINT": Scalar("<u8", "Q", 21),
    "DT": Scalar("<u4", "I", 19),
    "REAL": Scalar("<f4", "f", 4),
    "LREAL": Scalar("<f8", "d", 5),
    f"STRING({NAME_BYTES - 1})": Scalar(f"S{NAME_BYTES}", f"{NAME_BYTES}s", 30),
}
STRUCTURE_CODE = 65  # ADS's number for structures and arrays of them


@dataclass(frozen=True)
class Member:
    """One member of a structure; ``count`` makes it ARRAY [1..count]."""

    name: str
    type: str
    count: int | None = None

    @property
    def declared(self) -> str:
        return self.type if self.count is None else f"ARRAY [1..{self.count}] OF {self.type}"


@dataclass(frozen=True)
class Structure:
    """A PLC structure."""

    name: str
    members: tuple[Member, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The packed record."""
        return np.dtype([(m.name, SCALARS[m.type].dtype, () if m.count is None else (m.count,)) for m in self.members])

    @property
    def layout(self) -> struct.Struct:
        """The same for ``struct``, with every element of an array by itself."""
        return struct.Struct("<" + "".join((m.count or 1) * SCALARS[m.type].format for m in self.members))


SAMPLE = Structure(
    "ST_DynidSample",
    (
        Member("nSeq", "UDINT"),  # counts cycles; written with the rest of the slot, before nHead
        Member("tDC", "ULINT"),  # ns, distributed clock
        Member("nStatus", "UDINT"),  # `Status`
        Member("fPathTime", "LREAL"),  # s of the trajectory that is played, as the variable of this name
        Member("aLength", "LREAL", LEGS),  # m
        Member("aSpeed", "LREAL", LEGS),  # m/s
        Member("aTargetLength", "LREAL", LEGS),  # m
        Member("aTargetSpeed", "LREAL", LEGS),  # m/s
        Member("aCurrent", "REAL", LEGS),  # A, actual
        Member("aTargetCurrent", "REAL", LEGS),  # A, feedforward added to the position loop's output
        Member("aForce", "REAL", LEGS),  # N, force sensor, compression positive
    ),
)
STATE = Structure(
    "ST_DynidState",
    (
        Member("eMode", "UINT"),  # `Mode`
        Member("eError", "UINT"),  # `Error`, latched until reset
        Member("eEnd", "UINT"),  # `End` of the last motion
        Member("nMotion", "UDINT"),  # nSequence of the command that began the last motion
        Member("nSaturated", "UINT"),  # bit per leg whose force sensor is at its limit
        Member("aDriveState", "UINT", LEGS),  # statusword of CiA 402
        Member("aDriveError", "UINT", LEGS),  # error code of CiA 402
        Member("bHostAlive", "BOOL"),
    ),
)
COMMAND = Structure(
    "ST_DynidCommand",
    (
        Member("nSequence", "UDINT"),  # any new value: carry the command out
        Member("eCommand", "UINT"),  # `Command`
        Member("nVersion", "UDINT"),  # of the trajectory that is meant
        Member("fSpeed", "LREAL"),  # m/s, of an approach
        Member("fAcceleration", "LREAL"),  # m/s², of an approach
    ),
)
ANSWER = Structure("ST_DynidAnswer", (Member("nSequence", "UDINT"), Member("eResult", "UINT")))
TABLE = Structure(
    "ST_DynidTable",
    (
        Member("nVersion", "UDINT"),  # 0: nothing loaded, rows may be written
        Member("nRows", "UDINT"),
        Member("fPeriod", "LREAL"),  # s between rows
        Member("nCrc", "UDINT"),  # CRC-32 of the rows
        Member("nTrajectoryCrc", "UDINT"),  # of the trajectory that a feedforward table belongs to
    ),
)
TABLE_STATE = Structure(
    "ST_DynidTableState",
    (
        Member("nVersion", "UDINT"),
        Member("nRows", "UDINT"),
        Member("nCrc", "UDINT"),  # as the PLC has computed it
        Member("eState", "UINT"),  # `TableState`
    ),
)
TRAJECTORY_ROW = Structure("ST_DynidTrajectoryRow", (Member("aLength", "LREAL", LEGS), Member("aSpeed", "LREAL", LEGS)))
FEEDFORWARD_ROW = Structure("ST_DynidFeedforwardRow", (Member("aCurrent", "REAL", LEGS),))
INFO = Structure(
    "ST_DynidInfo",
    (
        Member("nLayout", "UDINT"),  # `VERSION`
        Member("nCycle", "UDINT"),  # ns
        Member("bVirtual", "BOOL"),  # moves no real robot
        Member("sModel", f"STRING({NAME_BYTES - 1})"),
        Member("sSerial", f"STRING({NAME_BYTES - 1})"),
        Member("fStartTolerance", "LREAL"),  # m that a leg may be off the first row when a trajectory starts
        Member("fWatchdog", "LREAL"),  # s without a new nHostBeat that end a motion
    ),
)
STRUCTURES = (SAMPLE, STATE, COMMAND, ANSWER, TABLE, TABLE_STATE, TRAJECTORY_ROW, FEEDFORWARD_ROW, INFO)

VARIABLES: Mapping[str, str | Structure] = {
    "stInfo": INFO,
    "stState": STATE,
    "stCommand": COMMAND,
    "stAnswer": ANSWER,
    "nHostBeat": "UDINT",
    "nPlcBeat": "UDINT",
    "nHead": "UDINT",
    "fPathTime": "LREAL",
    "stTrajectory": TABLE,
    "stTrajectoryState": TABLE_STATE,
    "stFeedforward": TABLE,
    "stFeedforwardState": TABLE_STATE,
}
"""Variable of the global list -> its type. ``nHead`` is nSeq of the newest sample plus one."""

ARRAYS: Mapping[str, Structure] = {"aRing": SAMPLE, "aTrajectory": TRAJECTORY_ROW, "aFeedforward": FEEDFORWARD_ROW}
"""Array of the global list, from index 0 -> type of its elements; how many there are is the PLC's choice.

The sample nSeq is in slot nSeq MOD length, so the length of ``aRing`` divides 2^32.
"""

SYSTEM_VARIABLES: Mapping[str, str] = {
    "TwinCAT_SystemInfoVarList._AppInfo.OnlineChangeCnt": "UDINT",
    "TwinCAT_SystemInfoVarList._AppInfo.AppTimestamp": "DT",
}
"""What TwinCAT itself offers: online changes since the download, and when the program was compiled, which it also is
for an online change."""
ONLINE_CHANGES, APP_TIMESTAMP = SYSTEM_VARIABLES


class Status(IntFlag):
    """Bits of ``nStatus``."""

    MOVING = 1 << 0
    PLAYING = 1 << 1  # approaching, playing or stopping: something moves the targets
    STOPPED_BY_PLC = 1 << 2  # an error is latched; reset it to move again
    EMERGENCY_STOP = 1 << 3
    DRIVE_FAULT = 1 << 4
    SENSOR_SATURATED = 1 << 5
    FEEDFORWARD = 1 << 6  # a feedforward table is being added
    HOST_ALIVE = 1 << 7


class Mode(IntEnum):
    """What the PLC program does."""

    OFF = 0  # the drives are not enabled
    HOLDING = 1
    APPROACHING = 2
    PLAYING = 3
    STOPPING = 4
    FAULTED = 5


class Command(IntEnum):
    """What it can be told."""

    NONE = 0
    APPROACH = 1  # go to the first row of the trajectory, all legs together
    START = 2  # play the trajectory
    STOP = 3  # come to rest along the trajectory
    HALT = 4  # come to rest at once, off the trajectory
    RESET = 5  # forget a latched error


class Result(IntEnum):
    """What it answers."""

    DONE = 0  # carried out, or begun
    UNKNOWN_COMMAND = 1
    NOT_HOLDING = 2
    NO_TRAJECTORY = 3  # none that is checked, or another version
    NOT_AT_START = 4
    NO_HEARTBEAT = 5
    BAD_ARGUMENT = 6
    FAULT_PERSISTS = 7


class End(IntEnum):
    """How the last motion ended."""

    NONE = 0
    COMPLETED = 1
    STOPPED = 2
    FAULTED = 3


class Error(IntEnum):
    """Why the PLC stopped by itself."""

    NONE = 0
    HEARTBEAT_LOST = 1
    FOLLOWING_ERROR = 2
    DRIVE_FAULT = 3
    EMERGENCY_STOP = 4
    STROKE_LIMIT = 5


class TableState(IntEnum):
    """Where an uploaded table stands."""

    EMPTY = 0
    CHECKING = 1
    VALID = 2
    BAD_CRC = 3
    BAD_SIZE = 4
    OUT_OF_STROKE = 5


_ARRAY = re.compile(r"ARRAY\s*\[\s*0\s*\.\.\s*(\d+)\s*\]\s*OF\s+(\S+)", re.IGNORECASE)


def array_type(element: Structure, length: int) -> str:
    """Return how the PLC calls the type of an array of ``ARRAYS``."""
    return f"ARRAY [0..{length - 1}] OF {element.name}"


def array_length(declared: str) -> int | None:
    """Return the number of elements of such a type; None when it is no array from 0."""
    found = _ARRAY.fullmatch(declared.strip())
    return None if found is None else int(found[1]) + 1
