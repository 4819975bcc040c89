"""The PLC's variables as this session finds them: looked up by name, and refused where they are not as described."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drivers.beckhoff_ads.address import PlcAddress
from drivers.beckhoff_ads.session import (
    SYMBOL_MISSING,
    SYMBOL_VERSION,
    VALUE_BY_HANDLE,
    Session,
    SymbolInfo,
    SymbolsChanged,
)
from drivers.contract import DriverProtocolError
from drivers.twincat_layout import ARRAYS, INFO, SCALARS, SYSTEM_VARIABLES, VARIABLES, VERSION, Structure, array_length

LAYOUT_MISMATCH = "plc-layout-mismatch"


class Variables:
    """The variables as one session finds them; good until the program changes.

    Single variables are read and written through handles, which a change of the program voids with an error; the
    elements of arrays have only addresses, behind which there is something else then.

    Attributes
    ----------
    info : ST_DynidInfo as a record.
    lengths : elements of each array.

    Raises
    ------
    DriverProtocolError
        ``plc-symbol-missing``: names all that are; ``plc-layout-mismatch``: one is declared otherwise.
    DriverError
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._places = _look_up(session)
        self._handles: dict[str, int] = {}
        self.info = _info(session, self._places["stInfo"])
        address = session.address
        for name, kind in VARIABLES.items():
            _check(address, name, self._places[name], self._places[name].size, kind)
        self.lengths = {name: _length(address, name, self._places[name], kind) for name, kind in ARRAYS.items()}
        self._stamp = self.program_stamp()

    def piece(self, name: str) -> tuple[int, int, int]:
        """Return what to ask the PLC for a variable: group, handle, size."""
        if name not in self._handles:
            symbol = name if name in SYSTEM_VARIABLES else self.session.address.variable(name)
            self._handles[name] = self.session.handle(symbol)
        kind = SYSTEM_VARIABLES.get(name) or VARIABLES[name]
        return VALUE_BY_HANDLE, self._handles[name], _dtype(kind).itemsize

    def elements(self, name: str, first: int, count: int) -> tuple[int, int, int]:
        """Return group, offset and size of elements of an array."""
        place, size = self._places[name], ARRAYS[name].dtype.itemsize
        return place.group, place.offset + first * size, count * size

    def read(self, *names: str) -> list[Any]:
        """Return variables of one moment: structures as records, scalars as numbers."""
        parts = self.session.sum_read(" and ".join(names), [self.piece(name) for name in names])
        return [np.frombuffer(part, _dtype(VARIABLES[name]))[0] for name, part in zip(names, parts, strict=True)]

    def write(self, name: str, *values: Any) -> None:
        """Write a structure, its members in order, or a scalar."""
        kind = VARIABLES[name]
        record = np.array(values if isinstance(kind, Structure) else values[0], _dtype(kind))
        self.session.write(self.session.address.variable(name), *self.piece(name)[:2], record.tobytes())

    # --- changes of the program ------------------------------------------------------------------------

    def program_pieces(self) -> list[tuple[int, int, int]]:
        """Return what to ask for a `ProgramStamp`."""
        return [*(self.piece(name) for name in SYSTEM_VARIABLES), (SYMBOL_VERSION, 0, 1)]

    def program_stamp(self) -> ProgramStamp:
        return ProgramStamp.of(self.session.sum_read("the program's version", self.program_pieces()))

    def require_unchanged(self) -> None:
        """Make sure that addresses still mean what they did.

        Raises
        ------
        SymbolsChanged
        """
        if self.program_stamp() != self._stamp:
            raise SymbolsChanged("another program")


class ProgramStamp(NamedTuple):
    """What changes when the PLC's program does."""

    online_changes: int
    compiled: int
    symbol_version: int

    @classmethod
    def of(cls, parts: Sequence[bytes]) -> ProgramStamp:
        return cls(*(int.from_bytes(part, "little") for part in parts))

    def continues(self, earlier: ProgramStamp) -> bool:
        """Tell whether this is the program of ``earlier``, perhaps changed online, which alone makes the count grow."""
        return self.compiled == earlier.compiled or self.online_changes > earlier.online_changes


def _look_up(session: Session) -> dict[str, SymbolInfo]:
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
            f"the PLC has no variable {', '.join(missing)}; load the program that belongs to this version, or correct "
            "symbol_prefix",
            code=SYMBOL_MISSING,
            symbols=missing,
        )
    return places


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
