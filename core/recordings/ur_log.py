"""UR logs: CSV without a header, 31 columns, written by a script on the controller's 100 Hz loop."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError
from core.recordings.recording import Recording
from core.recordings.row_checks import check_units, check_values, row_window, without_bad_rows
from core.recordings.text_file import (
    APPENDED,
    decode_text,
    is_number,
    is_plain,
    is_text_row,
    is_torn,
    lines_of,
    read_content,
)

Array = NDArray[np.float64]

JOINTS = 6
_GROUPS = ("q", "qd", "current", "target_current", "target_torque")
COLUMNS: tuple[str, ...] = ("t", *(f"{group}{j}" for group in _GROUPS for j in range(1, JOINTS + 1)))
"""Names of the 31 columns: s, rad, rad/s, A, A, N·m."""


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
        ``-columns``, ``-torn``, ``-not-a-number``, ``-not-finite``, ``-time-order``, ``-units``,
        ``-beyond-repair``; the context says where.
    """
    content = read_content(path)
    text = decode_text(content, path, "the text of a UR log")
    lines = lines_of(text, path)
    first, last = row_window(rows, len(lines), path)
    wanted = lines[first - 1 : last]
    torn = last == len(lines) and is_torn(text, lines, ",", len(COLUMNS))
    if torn:
        _check_columns(wanted[:-1] or wanted, first, path)
        if not repair:
            raise _torn(path, first, last, wanted[-1])
        wanted = wanted[:-1]
    table = _numbers(wanted, first, path)
    dropped: list[int] = []
    if repair:
        table, dropped = without_bad_rows(table, first, path)
    check_values(table, COLUMNS, first, path)
    q, qd, current, target_current, target_torque = (
        table[:, 1 + JOINTS * i : 1 + JOINTS * (i + 1)].copy() for i in range(len(_GROUPS))
    )
    remedy = "read it as csv, with a column map that states the unit"
    signals = {"t": table[:, :1], "q": q, "current": current, "target_current": target_current}
    check_units(signals, path, dict.fromkeys(signals, remedy))
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


def _count(line: str) -> int:
    return line.count(",") + 1


def _torn(path: Path, first: int, last: int, line: str) -> RecordingError:
    return RecordingError(
        f"{path}: row {last}, the last one, is torn: {_count(line)} of {len(COLUMNS)} columns, ending in "
        f"{line[-12:]!r}. Read rows {first}-{last - 1}, or have the row dropped by a repair",
        code="recording-torn",
        path=str(path),
        row=last,
    )


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
    text = ",".join(lines)
    try:
        values = np.array(text.split(","), dtype=np.float64)
    except ValueError as error:
        raise _not_a_number(lines, first, path) from error
    if not is_plain(text):
        raise _not_a_number(lines, first, path)
    return values.reshape(len(lines), len(COLUMNS))


def _not_a_number(lines: Sequence[str], first: int, path: Path) -> RecordingError:
    _check_columns(lines, first, path)
    for row, line in enumerate(lines, first):
        fields = line.split(",")
        for name, text in zip(COLUMNS, fields, strict=True):
            if not is_number(text):
                hint = f"; {APPENDED}, rows 1-{row - 1} or those from {row + 1} on" if is_text_row(fields) else ""
                return RecordingError(
                    f"{path}: row {row}, column {name}: {text!r} is not a number{hint}",
                    code="recording-not-a-number",
                    path=str(path),
                    row=row,
                    column=name,
                )
    raise AssertionError("a table that parses has nothing to explain")
