"""From the columns of a table, whatever its file format, to a recording: units, shapes, repairs, checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, RecordingError
from core.recordings.column_map import UNITS, ColumnMap, Key
from core.recordings.recording import Recording
from core.recordings.row_checks import check_units, check_values, row_window, without_bad_rows

Array = NDArray[np.float64]

_REQUIRED = ("t", "q")
_EXACT = 2.0**53
"""Integers beyond this are not exact as float64: nanoseconds since 1970 are not."""


class Table(Protocol):
    """Named columns of equal length."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the columns (arrays, datasets); empty where the file has none."""
        ...

    @property
    def n_rows(self) -> int: ...

    def column(self, key: Key, first: int, last: int) -> NDArray[Any]:
        """Return rows ``first``..``last`` (1-based, inclusive) of a column, (N,) or (N, k) numbers.

        Raises
        ------
        KeyError
            There is no such column.
        RecordingError
            It does not hold numbers.
        """
        ...


@dataclass(frozen=True)
class _Signals:
    names: tuple[str, ...]
    columns: tuple[int, ...]  # of each signal

    def split(self, table: Array) -> dict[str, Array]:
        ends = np.cumsum(self.columns)[:-1]
        parts = np.split(table, ends, axis=1)
        return {name: np.ascontiguousarray(part) for name, part in zip(self.names, parts, strict=True)}

    def labels(self) -> list[str]:
        pairs = zip(self.names, self.columns, strict=True)
        return [f"{name}{j}" if name != "t" else "t" for name, width in pairs for j in range(1, width + 1)]


def recording_from(
    table: Table,
    columns: ColumnMap,
    path: Path,
    rows: tuple[int, int] | None,
    provenance: dict[str, Any],
    *,
    repair: bool = False,
    torn: int = 0,
) -> Recording:
    """Return the recording that a table holds.

    Parameters
    ----------
    columns : which columns are which signals; signals that are not finite throughout are taken as absent.
    rows : first and last row, 1-based and inclusive.
    provenance : what is known of the file, completed here.
    repair : drop rows that are not finite or out of time order; the provenance names them.
    torn : number of a torn last row that has been dropped already; 0 for none.

    Raises
    ------
    RecordingError
        Code ``recording-columns`` (a column is missing), ``-shape`` (signals disagree on the number of joints),
        ``-units`` (values that can hardly be in the unit they are taken for), ``-rows``, ``-not-finite``,
        ``-time-order``, ``-beyond-repair``.
    """
    mapped = columns.resolved(table.names)
    _check_required(table, mapped, path)
    first, last = row_window(rows, table.n_rows, path)
    signals = _read_signals(table, mapped, first, last, path)
    layout = _Signals(tuple(signals), tuple(value.shape[1] for value in signals.values()))
    stacked = np.hstack(list(signals.values()))
    dropped: list[int] = []
    if repair:
        stacked, dropped = without_bad_rows(stacked, first, path)
    check_values(stacked, layout.labels(), first, path)
    signals = layout.split(stacked)
    _check_shapes(signals, mapped, path)
    _check_units(signals, mapped, path)
    t = signals.pop("t")[:, 0]
    return Recording(
        name=path.name if rows is None else f"{path.name}:{first}-{last}",
        t=t,
        joint_names=mapped.joint_names,
        lost=len(dropped),
        provenance={
            "path": str(path),
            **provenance,
            "rows": [first, last],
            "rows_in_file": table.n_rows,
            "columns": mapped.to_document(),
            "repairs": {"rows_dropped": [*dropped, torn] if torn else dropped},
        },
        **signals,
    )


def _check_required(table: Table, columns: ColumnMap, path: Path) -> None:
    for name in _REQUIRED:
        if name not in columns.signals and not (name == "t" and columns.rate is not None):
            raise RecordingError(
                f"{path}: there is no column for {name}; there are {_listed(table.names)}. Say by a column map which "
                "columns are which signals",
                code="recording-columns",
                path=str(path),
                signal=name,
            )


def _read_signals(table: Table, columns: ColumnMap, first: int, last: int, path: Path) -> dict[str, Array]:
    """Return ``t`` (N, 1) and the signals (N, n) in SI units."""
    signals: dict[str, Array] = {}
    if columns.rate is not None:
        signals["t"] = (np.arange(first - 1, last) / columns.rate)[:, None]
    for name, where in columns.signals.items():
        parts = []
        for key in where.keys:
            try:
                part = table.column(key, first, last)
            except KeyError:
                raise _missing(path, name, key, table) from None
            parts.append(_as_columns(part, name, key, path))
        value = np.hstack(parts)
        if name == "t" and np.issubdtype(value.dtype, np.integer) and abs(int(value[0, 0])) > _EXACT:
            value = value - value[0, 0]
        scale = columns.scale(name)
        if len(scale) not in (1, value.shape[1]):
            raise InputError(
                f"column map: {name} has {len(scale)} units for {value.shape[1]} columns of {path}; give one for all, "
                "or one for each",
                code="column-map-invalid",
            )
        scaled = value.astype(np.float64) * scale
        if name in _REQUIRED or not np.isnan(scaled).all():
            signals[name] = scaled
    return signals


def _as_columns(part: NDArray[Any], name: str, key: Key, path: Path) -> NDArray[Any]:
    if part.ndim not in (1, 2) or not (np.issubdtype(part.dtype, np.number) or part.dtype == np.bool_):
        raise RecordingError(
            f"{path}: {name}: {key!r} has shape {part.shape} and type {part.dtype}, expected numbers of shape (N,) or "
            "(N, joints)",
            code="recording-shape",
            path=str(path),
            signal=name,
        )
    return part[:, None] if part.ndim == 1 else part


def _missing(path: Path, signal: str, key: Key, table: Table) -> RecordingError:
    return RecordingError(
        f"{path}: column {key!r} of {signal} is not in the file; there are {_listed(table.names)}",
        code="recording-columns",
        path=str(path),
        signal=signal,
        column=key,
    )


def _listed(names: Sequence[str]) -> str:
    most = 40
    if not names:
        return "none with a name"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _check_shapes(signals: dict[str, Array], columns: ColumnMap, path: Path) -> None:
    n = signals["q"].shape[1]
    for name, value in signals.items():
        if name != "t" and value.shape[1] != n:
            raise RecordingError(
                f"{path}: {name} is of {value.shape[1]} joints, q of {n}",
                code="recording-shape",
                path=str(path),
                signal=name,
            )
    if signals["t"].shape[1] != 1:
        raise RecordingError(
            f"{path}: t has shape {signals['t'].shape}, expected (N,)",
            code="recording-shape",
            path=str(path),
            signal="t",
        )
    if columns.joint_names is not None and len(columns.joint_names) != n:
        raise RecordingError(
            f"{path}: there are {len(columns.joint_names)} joint names for {n} joints",
            code="joint-names-differ",
            path=str(path),
        )


def _check_units(signals: dict[str, Array], columns: ColumnMap, path: Path) -> None:
    """Refuse values that can hardly be in SI units, where the column map does not state their unit."""
    unstated = [name for name in signals if name in columns.signals and columns.signals[name].unit is None]
    remedies = {
        name: f"state the unit of {name} in the column map ({', '.join(UNITS[name])}) if that is what it is"
        for name in unstated
    }
    check_units(signals, path, remedies)
