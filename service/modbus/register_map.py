"""The register map, declared once: the server's layout and the documents of it are made from here.

Numbers of more than 16 bits take consecutive registers, most significant word first, each register big endian as
Modbus sends it ("ABCD"). Addresses are those of the protocol: they count from 0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum

MAP_VERSION = 1
"""Raised whenever a register moves or changes its meaning; what is only added behind the others leaves it."""

MOST_JOINTS = 8
WINDOWS = 8
WINDOW_FLOATS = 50
UNKNOWN = 0xFFFFFFFF
"""A ``u32`` that is not available; a ``f32`` that is not available is NaN."""


class Kind(StrEnum):
    """How a value lies in registers."""

    U16 = "u16"
    U32 = "u32"
    F32 = "f32"

    @property
    def registers(self) -> int:
        return 1 if self is Kind.U16 else 2


class Space(StrEnum):
    """Which of the four Modbus tables; nothing here is a coil or a discrete input."""

    INPUT = "input"
    HOLDING = "holding"


class Connection(IntEnum):
    """`DeviceStatus.connection` as a number."""

    STARTING = 0
    STREAMING = 1
    STALE = 2
    DISCONNECTED = 3
    CRASHED = 4


class Permit(IntEnum):
    """`PermitState` as a number."""

    DISARMED = 0
    ARMED = 1
    MOVING = 2
    STOPPING = 3
    FAULTED = 4


class Motion(IntEnum):
    """`DeviceStatus.motion` as a number."""

    IDLE = 0
    APPROACHING = 1
    PLAYING = 2
    STOPPING = 3
    FAULTED = 4


class Flags(IntFlag):
    """Bits of ``flags``."""

    CONTROLLER_STOP = 1 << 0
    MOTION_ENABLED = 1 << 1
    VIRTUAL = 1 << 2
    RESULT_IN_FORCE = 1 << 3
    RESULT_PASSED = 1 << 4
    TABLE = 1 << 5
    TABLE_OF_RESULT = 1 << 6


class WindowState(IntEnum):
    """What a window shows."""

    NO_TABLE = 0
    SHOWN = 1
    BEYOND_END = 2
    NO_SUCH_QUANTITY = 3


class Quantity(IntEnum):
    """What a window can show."""

    TORQUE = 0
    CURRENT = 1


class Command(IntEnum):
    """What the mailbox can be asked for."""

    START_CALIBRATION = 1
    ACKNOWLEDGE = 2


class Answer(IntEnum):
    """What became of a command."""

    NONE = 0
    DONE = 1
    NOT_PERMITTED = 3
    UNKNOWN_COMMAND = 4
    REFUSED = 5
    FAILED = 6
    PENDING = 7
    FLAGGED = 8


def _listed(members: type[IntEnum]) -> str:
    return ", ".join(f"{member.value} {member.name.lower().replace('_', ' ')}" for member in members)


@dataclass(frozen=True)
class Field:
    """A value, or ``count`` of them one after the other. ``writable``: by whoever polls."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    count: int = 1
    writable: bool = False

    @property
    def registers(self) -> int:
        return self.kind.registers * self.count


@dataclass(frozen=True)
class Block:
    """Fields that lie one behind the other from ``start`` on."""

    name: str
    space: Space
    start: int
    meaning: str
    fields: tuple[Field, ...]

    @property
    def registers(self) -> int:
        return sum(field.registers for field in self.fields)

    def address(self, name: str) -> int:
        """Return the address of the field's first register."""
        address = self.start
        for field in self.fields:
            if field.name == name:
                return address
            address += field.registers
        raise KeyError(name)

    def encode(self, values: Mapping[str, float | Sequence[float]]) -> list[int]:
        """Return the registers of those fields that ``values`` names, in the order of the block."""
        words: list[int] = []
        for field in self.fields:
            if field.name in values:
                words += _words(field, values[field.name])
        return words

    def decode(self, registers: Sequence[int], name: str) -> int | float | tuple[int | float, ...]:
        """Return a field's value from the registers of the whole block."""
        field = next(field for field in self.fields if field.name == name)
        begin = self.address(name) - self.start
        raw = struct.pack(f">{field.registers}H", *registers[begin : begin + field.registers])
        values = struct.unpack(f">{field.count}{_FORMATS[field.kind]}", raw)
        return values[0] if field.count == 1 else values


_FORMATS: Mapping[Kind, str] = {Kind.U16: "H", Kind.U32: "I", Kind.F32: "f"}


def _words(field: Field, value: float | Sequence[float]) -> tuple[int, ...]:
    values = value if isinstance(value, Sequence) else (value,)
    raw = struct.pack(f">{field.count}{_FORMATS[field.kind]}", *values)
    return struct.unpack(f">{field.registers}H", raw)


_SEQUENCE = "equal to its counterpart where all registers between the two belong together; else read again"

RESULTS = Block(
    "results",
    Space.INPUT,
    0,
    "State of the robot and what is in force for it; one request reads all of it.",
    (
        Field("map_version", Kind.U16, "version of this map; refuse any other"),
        Field("heartbeat", Kind.U16, "counts up ten times a second and wraps; a service that hangs stops it"),
        Field("seq_begin", Kind.U32, _SEQUENCE),
        Field("sample_age", Kind.U32, f"age of the newest sample; {UNKNOWN:#x} where there is none", "ms"),
        Field("connection", Kind.U16, _listed(Connection)),
        Field("permit", Kind.U16, _listed(Permit)),
        Field("motion", Kind.U16, _listed(Motion)),
        Field("flags", Kind.U16, ", ".join(f"bit {f.value.bit_length() - 1} {(f.name or '').lower()}" for f in Flags)),
        Field("joints", Kind.U16, "joints of the robot's model"),
        Field("stored_age", Kind.U32, f"since result and table were last looked up; {UNKNOWN:#x}: never", "ms"),
        Field("result_mark", Kind.U32, "CRC-32 of the identifier of the result in force; 0 where none is"),
        Field("result_age", Kind.U32, f"since the result was put in force; {UNKNOWN:#x} where none is", "s"),
        Field("table_version", Kind.U32, "version of the newest feedforward table; 0 where there is none"),
        Field("table_crc", Kind.U32, "CRC-32 of its torques, float32 little endian, row by row; 0 where there is none"),
        Field("table_rows", Kind.U32, "rows of the table"),
        Field("table_joints", Kind.U16, "joints of the table"),
        Field("table_cycle", Kind.F32, "time between rows; NaN where there is no table", "s"),
        Field(
            "residual_rms", Kind.F32, "torque residual while moving, of the last validation", "N·m or N", MOST_JOINTS
        ),
        Field("residual_relative", Kind.F32, "the same relative to the torque", "1", MOST_JOINTS),
        Field("friction_coulomb", Kind.F32, "reserved: always NaN, not available", "N·m or N", MOST_JOINTS),
        Field("friction_viscous", Kind.F32, "reserved: always NaN, not available", "N·m·s/rad or N·s/m", MOST_JOINTS),
        Field(
            "drift",
            Kind.F32,
            "how near each joint is to being said to drift, 1 is there; NaN without a drift monitor",
            "1",
            MOST_JOINTS,
        ),
        Field("seq_end", Kind.U32, _SEQUENCE),
    ),
)

MAILBOX = Block(
    "mailbox",
    Space.HOLDING,
    0,
    "Commands; the first three can be written only where the settings permit commands. Exception 6 (busy) while the "
    "one before is carried out, and for more than ten at once or one a second.",
    (
        Field("command", Kind.U16, _listed(Command), writable=True),
        Field(
            "argument",
            Kind.U32,
            "of acknowledge: the version of the table that was taken over; of start calibration: nothing",
            writable=True,
        ),
        Field(
            "request", Kind.U16, "any number but the last one, 0 at first; writing it gives the command", writable=True
        ),
        Field("answered", Kind.U16, "the request that the answer is to"),
        Field(
            "answer",
            Kind.U16,
            f"{_listed(Answer)}. Of a calibration: pending until it has ended, done where the robot is as it was "
            "identified, flagged where it is not, refused where it did not begin",
        ),
        Field("acknowledged", Kind.U32, f"version last acknowledged since the service started; {UNKNOWN:#x}: none"),
    ),
)

_FIRST_WINDOW, _WINDOW_STEP = 1000, 200

_WINDOW_FIELDS = (
    Field("select_row", Kind.U32, "first row to show, from 0", writable=True),
    Field("select_quantity", Kind.U16, _listed(Quantity), writable=True),
    Field("state", Kind.U16, _listed(WindowState)),
    Field("seq_begin", Kind.U32, _SEQUENCE),
    Field("version", Kind.U32, "version of the table shown; 0 where there is none"),
    Field("crc", Kind.U32, "CRC-32 of the quantity's whole array, float32 little endian, row by row"),
    Field("row", Kind.U32, "the row that was selected"),
    Field("quantity", Kind.U16, "the quantity that was selected"),
    Field("rows", Kind.U16, "rows shown"),
    Field("joints", Kind.U16, "values in each row"),
    Field("values", Kind.F32, "row by row; NaN behind the last", "N·m, N or A", WINDOW_FLOATS),
    Field("seq_end", Kind.U32, _SEQUENCE),
)

WINDOW_BLOCKS = tuple(
    Block(
        f"window {number}",
        Space.HOLDING,
        _FIRST_WINDOW + number * _WINDOW_STEP,
        "Looks into the newest feedforward table; for one client at a time.",
        _WINDOW_FIELDS,
    )
    for number in range(WINDOWS)
)

BLOCKS = (RESULTS, MAILBOX, *WINDOW_BLOCKS)
