"""Feedback in a layout file: where in a frame which number lies, and what it means. See ``layout``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from drivers.vendor_socket.checksums import CHECKSUMS

TYPES = {
    "u8": "u1",
    "i8": "i1",
    "u16": "u2",
    "i16": "i2",
    "u32": "u4",
    "i32": "i4",
    "u64": "u8",
    "i64": "i8",
    "f32": "f4",
    "f64": "f8",
}
UNITS: Mapping[str, Mapping[str, float]] = {
    "q": {"rad": 1.0, "deg": math.pi / 180.0},
    "qd": {"rad/s": 1.0, "deg/s": math.pi / 180.0, "rpm": math.pi / 30.0},
    "current": {"A": 1.0, "mA": 1e-3},
    "torque": {"N·m": 1.0, "mN·m": 1e-3},
}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
Type = Literal["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"]
Unsigned = Literal["u8", "u16", "u32", "u64"]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Offset = Annotated[int, Field(ge=0, le=1 << 20)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Place(Part):
    """One number in a binary frame."""

    offset: Offset
    type: Type

    @property
    def width(self) -> int:
        return int(np.dtype(TYPES[self.type]).itemsize)


class SizeField(Part):
    """A frame that says how long it is; all frames of one connection are equally long."""

    offset: Offset
    type: Unsigned
    least: Annotated[int, Field(ge=1)]
    most: Annotated[int, Field(ge=1, le=1 << 20)]
    excludes: Annotated[int, Field(ge=0, le=64)] = 0


class Magic(Part):
    offset: Offset
    hex: str

    @model_validator(mode="after")
    def _is_hexadecimal(self) -> Self:
        if not self.pattern:
            raise ValueError("no bytes; write them in hexadecimal, such as '52 35 aa 55'")
        return self

    @property
    def pattern(self) -> bytes:
        return bytes.fromhex(self.hex)


class Sequence(Place):
    """Counts frames, ``step`` by each; begins again at its type's end."""

    type: Unsigned
    step: Annotated[int, Field(ge=1)] = 1


class Stamp(Place):
    unit: Literal["s", "ms", "us", "ns"]


class Checksum(Part):
    kind: str
    offset: Offset
    type: Unsigned
    first: Offset = 0
    end: Offset | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.kind not in CHECKSUMS:
            raise ValueError(f"unknown kind '{self.kind}'; known: {', '.join(CHECKSUMS)}")
        return self


class Values(Part):
    """How an array of numbers becomes a joint signal."""

    unit: str
    scale: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    count: Annotated[int | None, Field(ge=1, le=64)] = None
    joints: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    optional: bool = False


class BinarySignal(Place, Values):
    pass


class Condition(Part):
    """A flag is set when a number has any bit of ``mask``, or is one of ``values``."""

    mask: Annotated[int | None, Field(ge=1)] = None
    values: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.mask is None) == (self.values is None):
            raise ValueError("give either mask or values")
        return self


class BinaryCondition(Place, Condition):
    pass


class BinaryWord(Place):
    names: Mapping[int, str]


class JsonPlace(Part):
    path: Annotated[str, Field(min_length=1)]

    @property
    def steps(self) -> tuple[str | int, ...]:
        return tuple(int(step) if step.isdigit() else step for step in self.path.split("."))


class JsonSequence(JsonPlace):
    step: Annotated[int, Field(ge=1)] = 1


class JsonStamp(JsonPlace):
    unit: Literal["s", "ms", "us", "ns"]


class JsonSignal(JsonPlace, Values):
    pass


class JsonCondition(JsonPlace, Condition):
    pass


class JsonWord(JsonPlace):
    names: Mapping[int, str]


SignalName = Literal["q", "qd", "current", "torque", "target_q", "target_qd", "target_current", "target_torque"]
FlagName = Literal["moving", "program_running", "protective_stop", "emergency_stop", "fault"]


class BinaryFeedback(Part):
    kind: Literal["binary"]
    port: Port
    endian: Literal["little", "big"]
    size: Annotated[int, Field(ge=1, le=1 << 20)] | SizeField
    magic: Magic | None = None
    sequence: Sequence | None = None
    stamp: Stamp
    checksum: Checksum | None = None
    signals: dict[SignalName, BinarySignal]
    status: dict[FlagName, BinaryCondition] = {}
    robot_mode: BinaryWord | None = None
    safety_mode: BinaryWord | None = None

    @property
    def least(self) -> int:
        return self.size if isinstance(self.size, int) else self.size.least

    def places(self, n_joints: int) -> Iterator[tuple[str, int, int]]:
        """Yield key, offset and number of bytes of all that should not overlap."""
        if isinstance(self.size, SizeField):
            yield "size", self.size.offset, Place(offset=0, type=self.size.type).width
        if self.magic is not None:
            yield "magic", self.magic.offset, len(self.magic.pattern)
        for key, place in (("sequence", self.sequence), ("stamp", self.stamp)):
            if place is not None:
                yield key, place.offset, place.width
        if self.checksum is not None:
            yield "checksum", self.checksum.offset, Place(offset=0, type=self.checksum.type).width
        for name, signal in self.signals.items():
            yield f"signals.{name}", signal.offset, signal.width * (signal.count or n_joints)

    def conditions(self) -> Iterator[tuple[str, Place]]:
        """Yield key and place of status and modes, which may share bytes."""
        yield from ((f"status.{name}", condition) for name, condition in self.status.items())
        for key, word in (("robot_mode", self.robot_mode), ("safety_mode", self.safety_mode)):
            if word is not None:
                yield key, word

    @model_validator(mode="after")
    def _has_a_head(self) -> Self:
        if self.magic is None and isinstance(self.size, int):
            raise ValueError("give magic or a size field, by which the beginning of a frame can be found again")
        if isinstance(self.size, SizeField) and self.size.most < self.size.least:
            raise ValueError("size: most is less than least")
        return self


class JsonFeedback(Part):
    kind: Literal["json"]
    port: Port
    begin: Annotated[str, Field(min_length=2)]
    most_bytes: Annotated[int, Field(ge=16, le=1 << 20)] = 65536
    sequence: JsonSequence | None = None
    stamp: JsonStamp | None = None
    signals: dict[SignalName, JsonSignal]
    status: dict[FlagName, JsonCondition] = {}
    robot_mode: JsonWord | None = None
    safety_mode: JsonWord | None = None


def scale_of(name: str, signal: Values) -> float:
    """Return the factor from what a frame holds to the sample's SI unit."""
    return signal.scale * UNITS[name.removeprefix("target_")][signal.unit]


def joints_of(signal: Values, n_joints: int) -> list[int]:
    """Return which values of the array are the joints'."""
    return list(range(n_joints)) if signal.joints is None else list(signal.joints)
