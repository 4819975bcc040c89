"""Text files of samples: getting at their text, and telling a torn last line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import RecordingError

_FOREIGN = {
    b"\x89MCAP": "MCAP",
    b"\x89HDF": "HDF5",
    b"PAR1": "Parquet",
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "ZIP or NPZ",
    b"\x93NUMPY": "NPY",
    b"SQLite format 3": "SQLite",
}

APPENDED = "it is a header between the rows, as where one file was appended to another: read what is on one side of it"


def read_content(path: Path) -> bytes:
    """Return the bytes of a file that is there and not empty."""
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


def decode_text(content: bytes, path: Path, expected: str) -> str:
    """Return the text of a file that should be ``expected``, such as "the text of a UR log"."""
    kind = foreign_kind(content)
    try:
        if kind is None and b"\0" not in content:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    what = "binary" if kind is None else f"a {kind} file"
    raise RecordingError(
        f"{path}: this is {what}, not {expected}; give its own format, or export it as CSV",
        code="recording-binary",
        path=str(path),
    )


def foreign_kind(content: bytes) -> str | None:
    """Name the format whose magic bytes ``content`` begins with; None for text and anything unknown."""
    return next((name for magic, name in _FOREIGN.items() if content.startswith(magic)), None)


def lines_of(text: str, path: Path) -> list[str]:
    """Return the lines without blank ones at the end; at least one."""
    lines = text.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise RecordingError(f"{path}: the file is empty", code="recording-empty", path=str(path))
    return lines


def is_torn(text: str, lines: Sequence[str], separator: str, columns: int) -> bool:
    """Tell whether writing stopped within the last line: columns are missing, or digits of its last value."""
    if lines[-1].count(separator) + 1 < columns:
        return True
    if text.endswith(("\n", "\r")) or len(lines) < 2:
        return False
    return _decimals(lines[-1]) < _decimals(lines[-2])


def is_number(text: str) -> bool:
    """Tell whether ``text`` is a number as files write them, NaN and infinity included."""
    try:
        float(text)
    except ValueError:
        return False
    return is_plain(text)


def is_plain(text: str) -> bool:
    """Tell whether ``text`` is free of what Python takes for a part of a number though no file means it so."""
    return "_" not in text and text.isascii()


def is_text_row(fields: Sequence[str]) -> bool:
    """Tell whether a row holds words only, as a header does."""
    return not any(is_number(field) or not field.strip() for field in fields)


def _decimals(line: str) -> int:
    return len(line.rpartition(".")[2])
