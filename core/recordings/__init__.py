"""Recordings: motions read from files, in one form whatever the format."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from core.errors import InputError
from core.recordings.recording import Recording

__all__ = ["FORMATS", "Recording", "parse_source", "read"]

Rows = tuple[int, int]


def _read_ur_log(path: Path, rows: Rows | None, repair: bool) -> Recording:
    from core.recordings.ur_log import read_ur_log  # noqa: PLC0415 - only the format in use is loaded

    return read_ur_log(path, rows, repair=repair)


def _read_mcap(path: Path, rows: Rows | None, repair: bool) -> Recording:
    from core.recordings.mcap_log import read_mcap  # noqa: PLC0415

    return read_mcap(path, rows, allow_truncated=repair)


_READERS: dict[str, Callable[[Path, Rows | None, bool], Recording]] = {
    "ur-log": _read_ur_log,
    "mcap": _read_mcap,
}

FORMATS: tuple[str, ...] = tuple(_READERS)


def read(
    path: str | Path,
    format: str,
    rows: Rows | None = None,
    *,
    repair: bool = False,
) -> Recording:
    """Read a recording.

    Parameters
    ----------
    format : one of ``FORMATS``.
    rows : first and last sample, 1-based and inclusive; all by default.
    repair : drop what is torn at the end of the file instead of refusing it; the provenance counts it.

    Raises
    ------
    RecordingError
        The file is missing, torn, foreign or holds no usable recording.
    InputError
        The format is unknown.
    """
    if format not in _READERS:
        raise InputError(
            f"unknown recording format {format!r}; there are {', '.join(FORMATS)}",
            code="recording-format-unknown",
            format=format,
        )
    return _READERS[format](Path(path), rows, repair)


def parse_source(source: str) -> tuple[Path, Rows | None]:
    """Split ``FILE`` or ``FILE:first-last`` (1-based rows, inclusive) into path and rows.

    Raises
    ------
    InputError
        The rows are incomplete, not counted from 1, or not ascending.
    """
    found = re.fullmatch(r"(.+):(\d*)-(\d*)", source)
    if found is None:
        return Path(source), None
    path, first, last = found.groups()
    if not first or not last or not 1 <= int(first) < int(last):
        raise InputError(
            f"{source}: rows are given as FILE:first-last, counted from 1, with first < last",
            code="recording-source-invalid",
            source=source,
        )
    return Path(path), (int(first), int(last))
