"""What every table of samples has to hold: finite values, and stamps that increase."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError

Array = NDArray[np.float64]

_MOST_REPAIRED = 0.01
"""Share of rows that a repair may drop."""

_LARGEST = 1e9
"""In any unit of a signal; more is a torn digit or a fill value, which no sensor measures."""
_LARGEST_ANGLE = 4.0 * np.pi
"""rad; a joint beyond two turns either way is rather given in degrees."""
LARGEST_CURRENT = 500.0
"""A; more than any joint drive takes is rather given in mA."""
_SLOWEST, _FASTEST = 1.0, 2e-5
"""s between samples of anything that can be identified."""
_SLOW = 0.2
"""s between samples; fewer than five a second are rather more in another unit."""
_TIME_UNITS = {"ms": 1e3, "us": 1e6, "ns": 1e9}


def row_window(rows: tuple[int, int] | None, count: int, path: Path) -> tuple[int, int]:
    """Return first and last row, 1-based and inclusive; all ``count`` rows for None."""
    first, last = (1, count) if rows is None else rows
    if not 1 <= first <= last <= count:
        raise RecordingError(
            f"{path}: rows {first}-{last} do not lie within 1-{count}, the rows of the file",
            code="recording-rows",
            path=str(path),
            rows=[first, last],
            rows_in_file=count,
        )
    return first, last


def without_bad_rows(table: Array, first: int, path: Path) -> tuple[Array, list[int]]:
    """Return the rows that are finite and in time order, and the numbers of the others.

    Parameters
    ----------
    table : (N, k), stamps in the first column.
    first : number of its first row in the file.

    Raises
    ------
    RecordingError
        More than 1 % of the rows would be dropped (code ``recording-beyond-repair``).
    """
    kept = np.flatnonzero(_measurable(table).all(axis=1))
    kept = kept[in_time_order(table[kept, 0])]
    dropped = np.setdiff1d(np.arange(len(table)), kept)
    if len(dropped) > _MOST_REPAIRED * len(table):
        raise RecordingError(
            f"{path}: {len(dropped)} of {len(table)} rows are not finite, beyond any sensor or out of time order; that "
            "is no longer a repair, look at what wrote the file",
            code="recording-beyond-repair",
            path=str(path),
            rows=len(dropped),
        )
    return table[kept], (first + dropped).tolist()


def _measurable(table: Array) -> NDArray[np.bool_]:
    """Return which values (N, k) a sensor may have said; stamps, in the first column, may be as large as they like."""
    possible = np.isfinite(table)
    possible[:, 1:] &= np.abs(table[:, 1:]) < _LARGEST
    return possible


def check_values(table: Array, names: Sequence[str], first: int, path: Path) -> None:
    """Refuse NaN, infinity, stamps (first column) that do not increase, and what no sensor says, by the file's rows."""
    _refuse_values(~np.isfinite(table), "not finite", table, names, first, path)
    t = table[:, 0]
    if t.size < 2:
        raise RecordingError(
            f"{path}: a recording needs at least two rows, got {t.size}",
            code="recording-rows",
            path=str(path),
        )
    backwards = np.flatnonzero(np.diff(t) <= 0)
    if backwards.size:
        index = int(backwards[0]) + 1
        astray = first + np.setdiff1d(np.arange(t.size), in_time_order(t))
        raise RecordingError(
            f"{path}: time does not increase at row {first + index} (t = {t[index - 1]:.4f} s, then "
            f"{t[index]:.4f} s); {astray.size} rows are out of order, the first {astray[0]}, the last {astray[-1]}. "
            "Read the rows before or after them, or have them dropped by a repair",
            code="recording-time-order",
            path=str(path),
            row=first + index,
        )
    _refuse_values(~_measurable(table), "beyond anything a sensor measures", table, names, first, path)


def _refuse_values(
    wrong: NDArray[np.bool_], problem: str, table: Array, names: Sequence[str], first: int, path: Path
) -> None:
    bad = np.argwhere(wrong)
    if bad.size:
        index, column = (int(i) for i in bad[0])
        raise RecordingError(
            f"{path}: row {first + index}, column {names[column]}: {table[index, column]:g} is {problem} "
            f"({len(bad)} such values); read the rows before or after it, or have them dropped by a repair",
            code="recording-not-finite",
            path=str(path),
            row=first + index,
            column=names[column],
        )


def check_units(signals: Mapping[str, Array], path: Path, remedies: Mapping[str, str]) -> None:
    """Refuse values that can hardly be in the SI units they are taken for.

    Parameters
    ----------
    signals : (N, n), or (N, 1) for ``t``.
    remedies : what to do about it, for the signals that are to be checked.

    Raises
    ------
    RecordingError
        Code ``recording-units``.
    """

    def refuse(name: str, what: str) -> RecordingError:
        return RecordingError(f"{path}: {what}; {remedies[name]}", code="recording-units", path=str(path), signal=name)

    for name, value in signals.items():
        largest = float(np.abs(value).max())
        if name not in remedies:
            continue
        if name == "t":
            step = float(np.median(np.diff(value[:, 0])))
            if not _FASTEST <= step < _SLOWEST:
                unit = time_unit(step)
                hint = f" and looks like {unit}" if unit else ""
                raise refuse(name, f"time steps by {step:g}, which can hardly be seconds{hint}")
        elif name in ("q", "target_q") and largest > _LARGEST_ANGLE:
            raise refuse(name, f"{name} reaches {largest:.4g}, which looks like degrees, not rad")
        elif name in ("current", "target_current") and largest > LARGEST_CURRENT:
            raise refuse(name, f"{name} reaches {largest:.4g}, which looks like mA, not A")


def time_unit(step: float) -> str | None:
    """Return which unit time stamps seem to be in that step by ``step``; None for s, or if no unit fits."""
    if step < _SLOW:
        return None
    return next((unit for unit, factor in _TIME_UNITS.items() if step / factor < _SLOW), None)


def in_time_order(stamps: Array) -> NDArray[np.intp]:
    """Return the indices of the rows that agree on the time, by far most of them in a usable recording."""
    if stamps.size < 2:
        return np.arange(stamps.size)
    reach = 2.0 * stamps.size * np.median(np.abs(np.diff(stamps)))  # misread stamps lie anywhere
    near = np.flatnonzero(np.abs(stamps - np.median(stamps)) <= reach)
    return near[_longest_increasing(stamps[near])]


def _longest_increasing(stamps: Array) -> NDArray[np.intp]:
    """Return the indices of a longest strictly increasing subsequence."""
    tails: list[float] = []  # smallest last stamp of an increasing run of each length
    ends: list[int] = []
    before = np.full(stamps.size, -1, dtype=np.intp)
    for i, stamp in enumerate(stamps.tolist()):
        length = bisect_left(tails, stamp)
        before[i] = ends[length - 1] if length else -1
        tails[length : length + 1] = [stamp]
        ends[length : length + 1] = [i]
    chain: list[int] = []
    i = ends[-1] if ends else -1
    while i >= 0:
        chain.append(i)
        i = int(before[i])
    return np.array(chain[::-1], dtype=np.intp)
