"""The PLC's memory and its symbols, as clients may address them.

Addresses move with every online change and download, handles are void after it: so it is on a real PLC.
Source of the entries' layouts: Beckhoff, TcAdsDef (AdsSymbolEntry, AdsDatatypeEntry).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.twincat_layout import SCALARS, STRUCTURE_CODE, Structure, array_type
from drivers.virtual.twincat.ams import AdsErrorCode, AdsFailure

GROUP = 0x4040
"""Index group of the PLC's data."""
_FIRST_OFFSET = 0x60000
_ONLINE_CHANGE_SHIFT = 0x1A40  # bytes by which an online change moves everything
_MOST_HANDLES = 8192
_SYMBOL_ENTRY = struct.Struct("<6I3H")
_TYPE_ENTRY = struct.Struct("<8I5H")
_IS_TYPE, _IS_ITEM = 1, 2
_STEP = re.compile(r"\.(?P<member>[A-Za-z_]\w*)|\[\s*(?P<index>\d+)\s*\]")


@dataclass(frozen=True)
class Declaration:
    """One variable: a scalar type's name or a structure, or an array of structures from index 0."""

    name: str
    type: str | Structure
    length: int | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        element = self.type.dtype if isinstance(self.type, Structure) else np.dtype(SCALARS[self.type].dtype)
        return element if self.length is None else np.dtype((element, (self.length,)))

    @property
    def declared(self) -> str:
        if isinstance(self.type, str):
            return self.type
        return self.type.name if self.length is None else array_type(self.type, self.length)


@dataclass(frozen=True)
class Symbol:
    """A piece of memory: where it is, and what is in it."""

    name: str
    declared: str
    code: int
    offset: int
    size: int


class SymbolTable:
    """Memory, symbols and handles of one PLC program.

    ``table[name]`` is a NumPy view of the variable and ``bytes_of(name)`` its bytes; both are valid for one
    ``generation``.
    """

    def __init__(self, declarations: Sequence[Declaration]) -> None:
        self._declarations = {declaration.name.upper(): declaration for declaration in declarations}
        self._handles: dict[int, Symbol | None] = {}  # None: void since an online change or download
        self._next_handle = 1
        self._removed: set[str] = set()
        self._base = _FIRST_OFFSET
        self.version = 1
        """What index group 0xF008 answers: counts downloads, not online changes."""
        self.generation = 0
        """Counts everything that voids handles and notifications."""
        self._allocate()

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._views[name.upper()]

    def bytes_of(self, name: str) -> memoryview:
        symbol = self._symbols[name.upper()]
        at = symbol.offset - self._base
        return self._bytes[at : at + symbol.size]

    # --- changes of the program ------------------------------------------------------------------------

    def move(self) -> None:
        """An online change: every variable keeps its value and gets another address."""
        old = self._views
        self._base += _ONLINE_CHANGE_SHIFT
        self._allocate()
        for name, view in old.items():
            self._views[name][...] = view
        self._void_handles()

    def reset(self) -> None:
        """A download: all variables are zero again."""
        self._base = _FIRST_OFFSET + (self._base - _FIRST_OFFSET + 0x400) % 0x4000
        self._removed.clear()
        self._allocate()
        self.version = self.version % 255 + 1
        self._void_handles()

    def remove(self, name: str) -> bool:
        """Take a symbol away, as a download of another program does; False when there is none."""
        present = name.upper() in self._symbols and name.upper() not in self._removed
        if present:
            self._removed.add(name.upper())
            self._void_handles()
        return present

    def _allocate(self) -> None:
        offset = self._base
        places = {}
        for key, declaration in self._declarations.items():
            places[key] = offset
            offset += (declaration.dtype.itemsize + 7) // 8 * 8
        self._memory = np.zeros(offset - self._base, np.uint8)
        self._bytes = memoryview(self._memory)  # type: ignore[arg-type]
        self._views: dict[str, NDArray[Any]] = {}
        self._symbols: dict[str, Symbol] = {}
        for key, declaration in self._declarations.items():
            dtype, at = declaration.dtype, places[key] - self._base
            self._views[key] = self._memory[at : at + dtype.itemsize].view(dtype.base).reshape(dtype.shape)
            code = STRUCTURE_CODE if isinstance(declaration.type, Structure) else SCALARS[declaration.type].code
            self._symbols[key] = Symbol(declaration.name, declaration.declared, code, places[key], dtype.itemsize)

    def _void_handles(self) -> None:
        self.generation += 1
        self._handles = dict.fromkeys(self._handles)

    # --- names and handles -----------------------------------------------------------------------------

    def find(self, name: str) -> Symbol:
        """Return the variable called ``name``, a member of it (``.member``) or an element (``[index]``).

        Raises
        ------
        AdsFailure
            SYMBOL_NOT_FOUND.
        """
        key = name.upper()
        for whole, declaration in self._declarations.items():
            if whole in self._removed:
                continue
            if key == whole:
                return self._symbols[whole]
            if key.startswith((whole + ".", whole + "[")):
                return _part(self._symbols[whole], declaration, name[len(whole) :])
        raise AdsFailure(AdsErrorCode.SYMBOL_NOT_FOUND)

    def open_handle(self, name: str) -> int:
        symbol = self.find(name)
        if len(self._handles) >= _MOST_HANDLES:
            raise AdsFailure(AdsErrorCode.NO_MORE_NOTIFICATION_HANDLES)
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._handles[handle] = symbol
        return handle

    def close_handle(self, handle: int) -> None:
        if handle not in self._handles:
            raise AdsFailure(AdsErrorCode.SYMBOL_NOT_FOUND)
        del self._handles[handle]

    def by_handle(self, handle: int) -> Symbol:
        """Return what a handle stands for.

        Raises
        ------
        AdsFailure
            SYMBOL_VERSION_INVALID: void since an online change; SYMBOL_NOT_FOUND: never given out.
        """
        if handle not in self._handles:
            raise AdsFailure(AdsErrorCode.SYMBOL_NOT_FOUND)
        symbol = self._handles[handle]
        if symbol is None:
            raise AdsFailure(AdsErrorCode.SYMBOL_VERSION_INVALID)
        return symbol

    # --- memory ----------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes at the address ``offset``."""
        at = self._place(offset, size)
        return bytes(self._bytes[at : at + size])

    def write(self, offset: int, data: bytes) -> None:
        """Write at the address ``offset``."""
        at = self._place(offset, len(data))
        self._bytes[at : at + len(data)] = data

    def _place(self, offset: int, size: int) -> int:
        at = offset - self._base
        if not 0 <= at < self._memory.size:
            raise AdsFailure(AdsErrorCode.INVALID_OFFSET)
        if at + size > self._memory.size:
            raise AdsFailure(AdsErrorCode.INVALID_SIZE)
        return at

    # --- what clients upload ---------------------------------------------------------------------------

    @property
    def symbol_count(self) -> int:
        return len(self._symbols) - len(self._removed)

    def symbol_entries(self) -> bytes:
        """Return all symbols as index group 0xF00B gives them."""
        present = (symbol for key, symbol in self._symbols.items() if key not in self._removed)
        return b"".join(symbol_entry(symbol) for symbol in present)

    @property
    def type_count(self) -> int:
        return len(self._types())

    def type_entries(self) -> bytes:
        """Return all data types as index group 0xF00E gives them."""
        return b"".join(self._types().values())

    def _types(self) -> dict[str, bytes]:
        types: dict[str, bytes] = {}
        for declaration in self._declarations.values():
            if isinstance(declaration.type, Structure):
                structure = declaration.type
                types.setdefault(structure.name, _structure_entry(structure))
                if declaration.length is not None:
                    size = declaration.dtype.itemsize
                    entry = _type_entry(
                        declaration.declared, structure.name, size, 0, STRUCTURE_CODE, _IS_TYPE, (0, declaration.length)
                    )
                    types.setdefault(declaration.declared, entry)
        return types


def _part(whole: Symbol, declaration: Declaration, path: str) -> Symbol:
    """Return the member or element of ``whole`` that ``path`` leads to."""
    missing = AdsFailure(AdsErrorCode.SYMBOL_NOT_FOUND)
    structure = declaration.type
    offset, length = whole.offset, declaration.length
    name, declared, size = whole.name, declaration.declared, whole.size
    scalar: tuple[str, int | None] | None = None  # type and length of a member, with nothing below
    while path:
        step = _STEP.match(path)
        if step is None:
            raise missing
        path = path[step.end() :]
        if step["index"] is not None:
            index, first = int(step["index"]), 0 if scalar is None else 1
            count = length if scalar is None else scalar[1]
            if count is None or not 0 <= index - first < count:
                raise missing
            if scalar is None:
                assert isinstance(structure, Structure)  # noqa: S101 - only structures come in arrays
                size, declared, length = structure.dtype.itemsize, structure.name, None
            else:
                size, declared = np.dtype(SCALARS[scalar[0]].dtype).itemsize, scalar[0]
                scalar = (scalar[0], None)
            offset += (index - first) * size
        else:
            if scalar is not None or length is not None or not isinstance(structure, Structure):
                raise missing
            members = {member.name.upper(): member for member in structure.members}
            member = members.get(step["member"].upper())
            if member is None:
                raise missing
            fields: Mapping[str, Any] = structure.dtype.fields or {}
            dtype, at = fields[member.name][0], fields[member.name][1]
            offset, size, declared, scalar = offset + at, dtype.itemsize, member.declared, (member.type, member.count)
        name += step[0]
    code = STRUCTURE_CODE if scalar is None else SCALARS[scalar[0]].code
    return Symbol(name, declared, code, offset, size)


def symbol_entry(symbol: Symbol) -> bytes:
    """Return one symbol as an AdsSymbolEntry."""
    name, declared = symbol.name.encode(), symbol.declared.encode()
    length = _SYMBOL_ENTRY.size + len(name) + len(declared) + 3
    header = _SYMBOL_ENTRY.pack(length, GROUP, symbol.offset, symbol.size, symbol.code, 8, len(name), len(declared), 0)
    return header + name + b"\0" + declared + b"\0\0"


def _structure_entry(structure: Structure) -> bytes:
    fields: Mapping[str, Any] = structure.dtype.fields or {}
    items = []
    for member in structure.members:
        dtype, at = fields[member.name][0], fields[member.name][1]
        array = None if member.count is None else (1, member.count)
        code = SCALARS[member.type].code
        items.append(_type_entry(member.name, member.declared, dtype.itemsize, at, code, _IS_ITEM, array))
    return _type_entry(structure.name, "", structure.dtype.itemsize, 0, STRUCTURE_CODE, _IS_TYPE, None, items)


def _type_entry(
    name: str,
    declared: str,
    size: int,
    offset: int,
    code: int,
    flags: int,
    array: tuple[int, int] | None,
    items: Sequence[bytes] = (),
) -> bytes:
    """Return one AdsDatatypeEntry with its sub-items; ``array`` is first index and number of elements."""
    texts = b"".join(text.encode() + b"\0" for text in (name, declared, ""))
    bounds = b"" if array is None else struct.pack("<2I", *array)
    rest = texts + bounds + b"".join(items)
    header = _TYPE_ENTRY.pack(
        _TYPE_ENTRY.size + len(rest), 1, 0, 0, size, offset, code, flags,
        len(name), len(declared), 0, array is not None, len(items),
    )  # fmt: skip
    return header + rest
