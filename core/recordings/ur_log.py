"""UR logs: CSV without a header, 31 columns, written by a script on the controller's 100 Hz loop."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError
from core.recordings.recording import Recording

Array = NDArray[np.float64]

JOINTS = 6
_GROUPS = ("q", "qd", "current", "target_current", "target_torque")
COLUMNS: tuple[str, ...] = ("t", *(f"{group}{j}" for group in _GROUPS for j in range(1, JOINTS + 1)))
"""Names of the 31 columns: s, rad, rad/s, A, A, N·m."""

_MOST_REPAIRED = 0.01
"""Share of rows that a repair may drop."""

_FOREIGN = {
    b"\x89MCAP": "MCAP",
    b"\x89HDF": "HDF5",
    b"PAR1": "Parquet",
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "ZIP or NPZ",
    b"\x93NUMPY": "NPY",
}


def read_ur_log(path: Path, rows: tuple[int, int] | None = None, *, repair: bool = False) -> Recording:
    """Read a UR log.

    Parameters
    ----------
    rows : first and last row, 1-based and inclusive; all of them by default. Other rows are not looked at,
        so a window that ends before a torn last line needs no repair.
    repair : drop a torn last row, rows with values that are not finite and rows out of time order, instead
        of refusing them. The provenance names them, ``Recording.lost`` counts those between other rows.

    Raises
    ------
    RecordingError
        The code says what is wrong: ``recording-missing``, ``-empty``, ``-binary``, ``-rows``, ``-header``,
        ``-columns``, ``-torn``, ``-not-a-number``, ``-not-finite``, ``-time-order``, ``-beyond-repair``; the
        context says where.
    """
    content = _content(path)
    text = _text(content, path)
    lines = text.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise RecordingError(f"{path}: the file is empty", code="recording-empty", path=str(path))
    first, last = _window(rows, len(lines), path)
    wanted = lines[first - 1 : last]
    torn = last == len(lines) and _is_torn(lines, ends_with_newline=text.endswith(("\n", "\r")))
    if torn:
        _check_columns(wanted[:-1] or wanted, first, path)
        if not repair:
            raise _torn(path, first, last, wanted[-1])
        wanted = wanted[:-1]
    table = _numbers(wanted, first, path)
    dropped: list[int] = []
    if repair:
        table, dropped = _without_bad_rows(table, first, path)
    _check_values(table, first, path)
    q, qd, current, target_current, target_torque = (
        table[:, 1 + JOINTS * i : 1 + JOINTS * (i + 1)].copy() for i in range(len(_GROUPS))
    )
    provenance = {
        "path": str(path),
        "sha256": hashlib.sha256(content).hexdigest(),
        "format": "ur-log",
        "rows": [first, last],
        "rows_in_file": len(lines),
        "repairs": {"rows_dropped": [*dropped, last] if torn else dropped},
    }
    return Recording(
        name=path.name if rows is None else f"{path.name}:{first}-{last}",
        t=table[:, 0].copy(),
        q=q,
        qd=qd,
        current=current,
        target_current=target_current,
        target_torque=target_torque,
        lost=len(dropped),
        provenance=provenance,
    )


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise RecordingError(f"{path}: there is no such file", code="recording-missing", path=str(path)) from error
    except OSError as error:
        raise RecordingError(
            f"{path}: cannot be read: {error.strerror}", code="recording-missing", path=str(path)
        ) from error
    if not content:
        raise RecordingError(f"{path}: the file is empty", code="recording-empty", path=str(path))
    return content


def _text(content: bytes, path: Path) -> str:
    kind = next((name for magic, name in _FOREIGN.items() if content.startswith(magic)), None)
    try:
        if kind is None and b"\0" not in content:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    what = "binary" if kind is None else f"a {kind} file"
    raise RecordingError(
        f"{path}: this is {what}, not the text of a UR log; give its own format, or export it as CSV",
        code="recording-binary",
        path=str(path),
    )


def _window(rows: tuple[int, int] | None, count: int, path: Path) -> tuple[int, int]:
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


def _count(line: str) -> int:
    return line.count(",") + 1


def _decimals(line: str) -> int:
    return len(line.rpartition(".")[2])


def _torn(path: Path, first: int, last: int, line: str) -> RecordingError:
    return RecordingError(
        f"{path}: row {last}, the last one, is torn: {_count(line)} of {len(COLUMNS)} columns, ending in "
        f"{line[-12:]!r}. Read rows {first}-{last - 1}, or have the row dropped by a repair",
        code="recording-torn",
        path=str(path),
        row=last,
    )


def _is_torn(lines: Sequence[str], *, ends_with_newline: bool) -> bool:
    """Tell whether writing stopped within the last line: columns are missing, or digits of its last value."""
    if _count(lines[-1]) < len(COLUMNS):
        return True
    if ends_with_newline or len(lines) < 2:
        return False
    return _decimals(lines[-1]) < _decimals(lines[-2])


def _check_columns(lines: Sequence[str], first: int, path: Path) -> None:
    """Refuse the first line that has other than 31 columns, or is a header."""
    for row, line in enumerate(lines, first):
        fields = line.split(",")
        if row == 1 and not any(character.isdigit() for character in fields[0]):
            raise RecordingError(
                f"{path}: row 1 is a header ({line[:60]!r}); a UR log has none. Read from row 2 "
                f"(rows 2-{first + len(lines) - 1}), or remove it",
                code="recording-header",
                path=str(path),
                row=1,
            )
        if len(fields) != len(COLUMNS):
            separator = next((s for s in (";", "\t", " ") if line.count(s) >= len(COLUMNS) - 1), None)
            hint = (
                "t, then q, qd, current, target current and target torque of six joints"
                if separator is None
                else f"values are separated by {separator!r}, expected ','"
            )
            raise RecordingError(
                f"{path}: row {row} has {len(fields)} columns, a UR log has {len(COLUMNS)}: {hint}",
                code="recording-columns",
                path=str(path),
                row=row,
                columns=len(fields),
            )


def _numbers(lines: Sequence[str], first: int, path: Path) -> Array:
    """Return (N, 31); where the quick way fails, find out line by line why."""
    if not all(_count(line) == len(COLUMNS) for line in lines):
        _check_columns(lines, first, path)
    try:
        return np.array(",".join(lines).split(","), dtype=np.float64).reshape(len(lines), len(COLUMNS))
    except ValueError as error:
        _check_columns(lines, first, path)
        for row, line in enumerate(lines, first):
            for name, text in zip(COLUMNS, line.split(","), strict=True):
                if not _is_number(text):
                    raise RecordingError(
                        f"{path}: row {row}, column {name}: {text!r} is not a number",
                        code="recording-not-a-number",
                        path=str(path),
                        row=row,
                        column=name,
                    ) from error
        raise


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _without_bad_rows(table: Array, first: int, path: Path) -> tuple[Array, list[int]]:
    """Return the rows that are finite and in time order, and the numbers of the others."""
    kept = np.flatnonzero(np.isfinite(table).all(axis=1))
    kept = kept[_in_time_order(table[kept, 0])]
    dropped = np.setdiff1d(np.arange(len(table)), kept)
    if len(dropped) > _MOST_REPAIRED * len(table):
        raise RecordingError(
            f"{path}: {len(dropped)} of {len(table)} rows are not finite or out of time order; that is no "
            "longer a repair, look at what wrote the file",
            code="recording-beyond-repair",
            path=str(path),
            rows=len(dropped),
        )
    return table[kept], (first + dropped).tolist()


def _in_time_order(stamps: Array) -> NDArray[np.intp]:
    """Return the indices of the rows that agree on the time, by far most of them in a usable log."""
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


def _check_values(table: Array, first: int, path: Path) -> None:
    """Refuse NaN, infinity and stamps that do not increase, by the rows of the file."""
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        index, column = (int(i) for i in bad[0])
        raise RecordingError(
            f"{path}: row {first + index}, column {COLUMNS[column]}: {table[index, column]} is not finite "
            f"({len(bad)} such values); read the rows before or after it, or have them dropped by a repair",
            code="recording-not-finite",
            path=str(path),
            row=first + index,
            column=COLUMNS[column],
        )
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
        astray = first + np.setdiff1d(np.arange(t.size), _in_time_order(t))
        raise RecordingError(
            f"{path}: time does not increase at row {first + index} (t = {t[index - 1]:.4f} s, then "
            f"{t[index]:.4f} s); {astray.size} rows are out of order, the first {astray[0]}, the last {astray[-1]}. "
            "Read the rows before or after them, or have them dropped by a repair",
            code="recording-time-order",
            path=str(path),
            row=first + index,
        )
