"""CSV with a column map: text with one row per sample, with or without a header."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError
from core.recordings.column_map import ColumnMap, Key, column_names
from core.recordings.recording import Recording
from core.recordings.table import recording_from
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

_SEPARATORS = (",", ";", "\t", " ", "|")


def read_csv(path: Path, rows: tuple[int, int] | None = None, *, columns: ColumnMap, repair: bool = False) -> Recording:
    """Read a CSV file.

    Parameters
    ----------
    rows : first and last sample, 1-based and inclusive; a header is not counted. Only the columns of the map, and
        only these rows, are looked at.
    columns : where the signals are, and the delimiter. Without ``header``, a file whose columns are given by name
        has one, a file whose columns are given by number has none.
    repair : drop a torn last row, rows that are not finite and rows out of time order.

    Raises
    ------
    RecordingError
        Code ``recording-missing``, ``-empty``, ``-binary``, ``-header``, ``-columns``, ``-torn``, ``-not-a-number``
        and those of ``recording_from``.
    """
    content = read_content(path)
    text = decode_text(content, path, "CSV text")
    lines = lines_of(text, path)
    by_number = bool(columns.signals) and all(isinstance(k, int) for s in columns.signals.values() for k in s.keys)
    header = not by_number if columns.header is None else columns.header
    names = _header(lines[0], columns, path) if header else []
    body = lines[1:] if header else lines
    if not body:
        raise RecordingError(f"{path}: there is nothing below the header", code="recording-empty", path=str(path))
    width = len(names) or _fields(body[0], columns.delimiter)
    torn = 0
    if is_torn(text, body, columns.delimiter, width) and (rows is None or rows[1] == len(body)):
        if not repair:
            raise _torn(path, len(body), body[-1])
        torn = len(body)
        body = body[:-1]
        rows = None if rows is None else (rows[0], rows[1] - 1)
    parsed = list(csv.reader(body, delimiter=columns.delimiter))
    table = _CsvTable(names, parsed, 1 + int(header), width, columns.delimiter, path)
    provenance = {"format": "csv", "sha256": hashlib.sha256(content).hexdigest()}
    return recording_from(table, columns, path, rows, provenance, repair=repair, torn=torn)


@dataclass(frozen=True)
class _CsvTable:
    names: Sequence[str]
    rows: list[list[str]]
    first_line: int
    width: int
    delimiter: str
    path: Path

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def column(self, key: Key, first: int, last: int) -> NDArray[Any]:
        index = key - 1 if isinstance(key, int) else self._index(key)
        if index >= self.width:
            raise KeyError(key)
        wanted = self.rows[first - 1 : last]
        self._check_width(first, wanted)
        texts = [row[index] for row in wanted]
        try:
            values = np.array(texts, dtype=np.float64)
        except ValueError as error:
            raise self._explained(index, key, first, wanted) from error
        if not is_plain("".join(texts)):
            raise self._explained(index, key, first, wanted)
        return values

    def _check_width(self, first: int, wanted: list[list[str]]) -> None:
        for row, fields in enumerate(wanted, first):
            if len(fields) != self.width:
                hint = _separator_hint(self.delimiter.join(fields), self.delimiter)
                line = row + self.first_line - 1
                raise RecordingError(
                    f"{self.path}: line {line} has {len(fields)} columns, expected {self.width}{hint}",
                    code="recording-columns",
                    path=str(self.path),
                    row=row,
                    columns=len(fields),
                )

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise KeyError(name)
        if self.names.count(name) > 1:
            raise RecordingError(
                f"{self.path}: the header has the name {name!r} more than once; give the column's number",
                code="recording-header",
                path=str(self.path),
            )
        return self.names.index(name)

    def _explained(self, index: int, key: Key, first: int, wanted: list[list[str]]) -> RecordingError:
        for row, fields in enumerate(wanted, first):
            if not is_number(fields[index]):
                raise RecordingError(
                    f"{self.path}: line {row + self.first_line - 1}, column {key!r}: {fields[index]!r} is not a number"
                    f"{self._hint(row, fields)}",
                    code="recording-not-a-number",
                    path=str(self.path),
                    row=row,
                    column=key,
                )
        raise AssertionError("a table that parses has nothing to explain")

    def _hint(self, row: int, fields: list[str]) -> str:
        if not is_text_row(fields):
            return ""
        if row > 1:
            return f"; {APPENDED}, rows 1-{row - 1} or those from {row + 1} on"
        return "" if self.names else "; if this is a header, set header = true in the column map"


def _fields(line: str, delimiter: str) -> int:
    return len(next(csv.reader([line], delimiter=delimiter)))


def _header(line: str, columns: ColumnMap, path: Path) -> list[str]:
    names = [name.strip() for name in next(csv.reader([line], delimiter=columns.delimiter))]
    if all(is_number(name) for name in names):
        raise RecordingError(
            f"{path}: line 1 holds numbers ({line[:60]!r}), not the names of columns; give columns by number, counted "
            "from 1, in the column map",
            code="recording-header",
            path=str(path),
        )
    wanted = [key for s in columns.signals.values() for key in s.keys if isinstance(key, str)]
    if len(names) == 1 and (wanted or not columns.signals):
        hint = _separator_hint(line, columns.delimiter)
        if hint:
            raise RecordingError(
                f"{path}: line 1 is a single column{hint}", code="recording-columns", path=str(path), columns=1
            )
    return names


def _separator_hint(line: str, delimiter: str) -> str:
    others = {s: line.count(s) for s in _SEPARATORS if s != delimiter}
    most = max(others, key=lambda s: others[s])
    if others[most] <= line.count(delimiter):
        return ""
    return f"; values seem to be separated by {most!r}: set delimiter in the column map"


def _torn(path: Path, row: int, line: str) -> RecordingError:
    return RecordingError(
        f"{path}: row {row}, the last one, is torn: it ends in {line[-12:]!r}. Read rows 1-{row - 1}, or have the row "
        "dropped by a repair",
        code="recording-torn",
        path=str(path),
        row=row,
    )


def write_csv(recording: Recording, path: Path) -> None:
    """Write a recording as CSV: a header, SI units, enough digits to read the same numbers back."""
    signals = recording.present()
    names = ["t", *(c for name in signals for c in column_names(name, recording.joint_names, recording.n_joints))]
    table = np.column_stack([recording.t, *signals.values()])
    header = io.StringIO()
    csv.writer(header, lineterminator="").writerow(names)
    lines = chain([header.getvalue()], (",".join(map(repr, row)) for row in table.tolist()))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
