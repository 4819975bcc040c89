"""The PLC's variables as this session finds them: looked up by name, and refused where they are not as described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drivers.beckhoff_ads.address import PlcAddress
from drivers.beckhoff_ads.session import SYMBOL_MISSING, Session, SymbolInfo
from drivers.contract import DriverProtocolError
from drivers.twincat_layout import ARRAYS, INFO, SCALARS, VARIABLES, VERSION, Structure, array_length

LAYOUT_MISMATCH = "plc-layout-mismatch"


@dataclass(frozen=True)
class Variables:
    """Addresses that hold until the program changes.

    Attributes
    ----------
    info : ST_DynidInfo as a record.
    lengths : elements of each array.
    """

    info: np.void
    lengths: dict[str, int]
    _places: dict[str, SymbolInfo]

    @classmethod
    def find(cls, session: Session) -> Variables:
        """Look all variables up.

        Raises
        ------
        DriverProtocolError
            ``plc-symbol-missing``: names all that are; ``plc-layout-mismatch``: one is declared otherwise.
        DriverError
        """
        address = session.address
        places, missing = {}, []
        for name in (*VARIABLES, *ARRAYS):
            try:
                places[name] = session.symbol(address.variable(name))
            except DriverProtocolError as error:
                if error.code != SYMBOL_MISSING:
                    raise
                missing.append(address.variable(name))
        if missing:
            raise address.problem(
                DriverProtocolError,
                f"the PLC has no variable {', '.join(missing)}; load the program that belongs to this version, or "
                "correct symbol_prefix",
                code=SYMBOL_MISSING,
                symbols=missing,
            )
        info = _info(session, places["stInfo"])
        for name, kind in VARIABLES.items():
            _check(address, name, places[name], places[name].size, kind)
        lengths = {name: _length(address, name, places[name], kind) for name, kind in ARRAYS.items()}
        return cls(info, lengths, places)

    def piece(self, name: str) -> tuple[int, int, int]:
        """Return group, offset and size of a variable."""
        place = self._places[name]
        return place.group, place.offset, place.size

    def elements(self, name: str, first: int, count: int) -> tuple[int, int, int]:
        """Return group, offset and size of elements of an array."""
        place, size = self._places[name], ARRAYS[name].dtype.itemsize
        return place.group, place.offset + first * size, count * size

    def read(self, session: Session, name: str) -> Any:
        """Return a structure as a record, or a scalar as a number."""
        raw = session.read(session.address.variable(name), *self.piece(name))
        return np.frombuffer(raw, _dtype(VARIABLES[name]))[0]

    def write(self, session: Session, name: str, *values: Any) -> None:
        """Write a structure, its members in order, or a scalar."""
        kind = VARIABLES[name]
        record = np.array(values if isinstance(kind, Structure) else values[0], _dtype(kind))
        group, offset, _ = self.piece(name)
        session.write(session.address.variable(name), group, offset, record.tobytes())


def _info(session: Session, place: SymbolInfo) -> np.void:
    """Read who the PLC is. Its layout's version is looked at before any size."""
    raw = session.read(session.address.variable("stInfo"), place.group, place.offset, place.size)
    version = int.from_bytes(raw[:4], "little")
    if version != VERSION:
        raise session.address.problem(
            DriverProtocolError,
            f"the PLC's program has layout version {version}, this driver {VERSION}; load the program that belongs to "
            "this version",
            code=LAYOUT_MISMATCH,
        )
    _check(session.address, "stInfo", place, place.size, INFO)
    record: np.void = np.frombuffer(raw, INFO.dtype)[0]
    return record


def _length(address: PlcAddress, name: str, place: SymbolInfo, kind: Structure) -> int:
    length = array_length(place.type)
    if length is None or place.size % length:
        raise address.problem(
            DriverProtocolError,
            f"{address.variable(name)} is {place.type} of {place.size} bytes in the PLC; needed is ARRAY [0..n] OF "
            f"{kind.name}",
            code=LAYOUT_MISMATCH,
            symbol=address.variable(name),
        )
    _check(address, name, place, place.size // length, kind)
    return length


def _check(address: PlcAddress, name: str, place: SymbolInfo, size: int, kind: str | Structure) -> None:
    """Refuse a variable, or an element of an array, of another size than described."""
    expected = _dtype(kind).itemsize
    if size == expected:
        return
    declared = kind.name if isinstance(kind, Structure) else kind
    raise address.problem(
        DriverProtocolError,
        f"{address.variable(name)} ({place.type}) takes {size} bytes in the PLC, {expected} are expected of "
        f"{declared}; declare it as in layout version {VERSION}, structures with {{attribute 'pack_mode' := '1'}}",
        code=LAYOUT_MISMATCH,
        symbol=address.variable(name),
        size=size,
        expected=expected,
    )


def _dtype(kind: str | Structure) -> np.dtype[Any]:
    return kind.dtype if isinstance(kind, Structure) else np.dtype(SCALARS[kind].dtype)
