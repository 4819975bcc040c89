"""Which columns of a foreign file hold which signals, in which units.

A column map is a TOML or JSON file, or the same as a mapping::

    joint_names = ["shoulder", "elbow"]           # optional
    t = { column = "time", unit = "ms" }          # or rate = 500.0 (Hz) where the file has no stamps
    q = { columns = "actual_q_{0-1}", unit = "deg" }
    current = { columns = [14, 15], unit = "mA" } # numbers count columns from 1
    delimiter = ";"                               # CSV only
    header = true                                 # CSV only; by default, whether columns are given by name
    topic = "/joint_states"                       # ROS only
    effort = "current"                            # ROS only: what the effort field holds, "torque" by default

A signal is given by one name (of a two-dimensional array, or of one column), by a pattern ``{first-last}``, by a
list of names or numbers, or by a table of ``columns`` and ``unit``, which may be a list of one per joint: an arm that
turns and slides has ``unit = ["deg", "mm"]``. Without a map, columns are looked for under the
names this project writes: ``t``, and ``q`` as one array, or ``q1``, ``q2``, ..., or ``q[shoulder]``, ``q[elbow]``, ...
where joints have names, likewise for every other signal.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, pi
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

from core.errors import InputError

Key = str | int
EffortKind = Literal["torque", "current"]

_ANGLE = {"rad": 1.0, "deg": pi / 180.0, "m": 1.0, "mm": 1e-3}
_SPEED = {"rad/s": 1.0, "deg/s": pi / 180.0, "rpm": pi / 30.0, "m/s": 1.0, "mm/s": 1e-3}
_CURRENT = {"A": 1.0, "mA": 1e-3}
_TORQUE = {"Nm": 1.0, "N·m": 1.0, "mNm": 1e-3, "N": 1.0, "kN": 1e3}
UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "t": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
        "q": _ANGLE,
        "qd": _SPEED,
        "current": _CURRENT,
        "torque": _TORQUE,
        "target_q": _ANGLE,
        "target_qd": _SPEED,
        "target_current": _CURRENT,
        "target_torque": _TORQUE,
    }
)
"""Units of each signal and their size in SI units."""

_OPTIONS = ("joint_names", "rate", "delimiter", "header", "topic", "effort")
_PATTERN = re.compile(r"\{(\d+)-(\d+)\}")
_MOST_JOINTS = 64


@dataclass(frozen=True)
class SignalColumns:
    """Where one signal is, and its unit, or those of its joints; None where the map states none, so that it is SI."""

    keys: tuple[Key, ...]
    unit: str | tuple[str, ...] | None = None


@dataclass(frozen=True)
class ColumnMap:
    """A column map, see the module.

    Attributes
    ----------
    signals : by name, ``t`` among them; empty where only the options are given.
    rate : Hz of a file without stamps, or None.
    """

    signals: Mapping[str, SignalColumns] = field(default_factory=dict)
    joint_names: tuple[str, ...] | None = None
    rate: float | None = None
    delimiter: str = ","
    header: bool | None = None
    topic: str | None = None
    effort: EffortKind = "torque"

    @classmethod
    def of(cls, columns: ColumnMap | Mapping[str, Any] | str | Path | None) -> ColumnMap:
        """Return a column map from a mapping, a TOML or JSON file, or None for the default one.

        Raises
        ------
        InputError
            The map is unreadable or has an unknown key, signal or unit (code ``column-map-invalid``).
        """
        if isinstance(columns, ColumnMap):
            return columns
        if columns is None:
            return cls()
        if isinstance(columns, Mapping):
            return cls._parsed(columns, "column map")
        return cls._parsed(_document(Path(columns)), str(columns))

    @classmethod
    def _parsed(cls, document: Mapping[str, Any], where: str) -> Self:
        unknown = set(document) - set(UNITS) - set(_OPTIONS)
        if unknown:
            raise _invalid(where, f"unknown key {sorted(unknown)[0]!r}; there are {', '.join([*UNITS, *_OPTIONS])}")
        options = {name: document[name] for name in _OPTIONS if name in document}
        _check_options(options, where)
        if "joint_names" in options:
            options["joint_names"] = tuple(options["joint_names"])
        signals = {name: _signal(name, document[name], where) for name in UNITS if name in document}
        if signals and "q" not in signals:
            raise _invalid(where, "position q is missing")
        if signals and ("t" in signals) == ("rate" in options):
            raise _invalid(where, "give either the column of time, t, or the rate in Hz of a file without stamps")
        return cls(MappingProxyType(signals), **options)

    def resolved(self, names: Sequence[str]) -> ColumnMap:
        """Return the map with the default signals for a file whose columns have ``names``, if it has none itself."""
        if self.signals:
            return self
        wanted = [signal for signal in UNITS if signal != "t" or self.rate is None]
        joints = self.joint_names or tuple(name[2:-1] for name in names if name.startswith("q[") and name[-1] == "]")
        found = {signal: SignalColumns(keys) for signal in wanted if (keys := _default_keys(signal, names, joints))}
        named = bool(joints) and "q" in found and found["q"].keys == tuple(column_names("q", joints, len(joints)))
        return replace(self, signals=found, joint_names=joints if named else self.joint_names)

    def scale(self, signal: str) -> tuple[float, ...]:
        """Return the size of the signal's unit in SI units: one for all joints, or one for each."""
        unit = self.signals[signal].unit
        if unit is None:
            return (1.0,)
        return tuple(UNITS[signal][one] for one in ((unit,) if isinstance(unit, str) else unit))

    def to_document(self) -> dict[str, Any]:
        """Return the signals and their units as JSON-serialisable data, for provenance."""
        return {name: {"columns": list(s.keys), "unit": s.unit} for name, s in self.signals.items()}


def _document(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"column map {path}: cannot be read: {error}", code="column-map-invalid") from error
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise _invalid(str(path), f"neither TOML nor JSON: {error}") from error
    if not isinstance(document, dict):
        raise _invalid(str(path), "should be a table of signals")
    return document


def _check_options(options: Mapping[str, Any], where: str) -> None:
    names = options.get("joint_names")
    if names is not None and not (isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)):
        raise _invalid(where, "joint_names must be a list of names")
    rate = options.get("rate", 1.0)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not (isfinite(rate) and rate > 0.0):
        raise _invalid(where, f"rate must be a positive number of Hz, got {rate!r}")
    delimiter = options.get("delimiter", ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise _invalid(where, f"delimiter must be one character, got {delimiter!r}")
    if not isinstance(options.get("header", True), bool):
        raise _invalid(where, "header must be true or false")
    if not isinstance(options.get("topic", ""), str):
        raise _invalid(where, "topic must be a text")
    if options.get("effort", "torque") not in get_args(EffortKind):
        raise _invalid(where, f"effort must be one of {', '.join(get_args(EffortKind))}")


def _signal(name: str, value: Any, where: str) -> SignalColumns:
    unit = None
    if isinstance(value, Mapping):
        unknown = set(value) - {"column", "columns", "unit"}
        if unknown or ("column" in value) == ("columns" in value):
            raise _invalid(where, f"{name}: a signal is a table of columns (or column) and unit")
        unit = value.get("unit")
        value = value.get("columns", value.get("column"))
    if isinstance(unit, list | tuple):
        unit = tuple(unit)
    for one in unit if isinstance(unit, tuple) else () if unit is None else (unit,):
        if not isinstance(one, str) or one not in UNITS[name]:
            raise _invalid(where, f"{name}: unknown unit {one!r}; there are {', '.join(UNITS[name])}")
    if unit == ():
        raise _invalid(where, f"{name}: the list of units is empty")
    entries = value if isinstance(value, list | tuple) else [value]
    keys = tuple(key for entry in entries for key in _keys(name, entry, where))
    if not keys or len(set(keys)) != len(keys):
        raise _invalid(where, f"{name}: columns are missing or repeated")
    if name == "t" and len(keys) != 1:
        raise _invalid(where, "t: time is one column")
    return SignalColumns(keys, unit)


def _keys(name: str, entry: Any, where: str) -> tuple[Key, ...]:
    if isinstance(entry, int) and not isinstance(entry, bool) and entry >= 1:
        return (entry,)
    if not isinstance(entry, str) or not entry:
        raise _invalid(where, f"{name}: a column is a name or a number counted from 1, got {entry!r}")
    found = _PATTERN.search(entry)
    if found is None:
        return (entry,)
    first, last = int(found[1]), int(found[2])
    if not 0 <= last - first < _MOST_JOINTS:
        raise _invalid(where, f"{name}: the range {found[0]} is not ascending, or too long")
    return tuple(f"{entry[: found.start()]}{i}{entry[found.end() :]}" for i in range(first, last + 1))


def column_names(signal: str, joint_names: Sequence[str] | None, n_joints: int) -> list[str]:
    """Return the names (n) that this project gives to the columns of a signal."""
    if joint_names:
        return [f"{signal}[{name}]" for name in joint_names]
    return [f"{signal}{j}" for j in range(1, n_joints + 1)]


def _default_keys(signal: str, names: Sequence[str], joints: Sequence[str]) -> tuple[Key, ...]:
    if signal in names:
        return (signal,)
    named = column_names(signal, joints, len(joints))
    if named and set(named) <= set(names):
        return tuple(named)
    numbered: list[Key] = []
    while (name := f"{signal}{len(numbered) + 1}") in names:
        numbered.append(name)
    return tuple(numbered)


def _invalid(where: str, problem: str) -> InputError:
    return InputError(f"{where}: {problem}", code="column-map-invalid")
