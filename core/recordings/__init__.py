"""Recordings: motions read from files, in one form whatever the format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError, RecordingError
from core.recordings.column_map import ColumnMap
from core.recordings.recording import Recording

__all__ = ["FORMATS", "WRITABLE_FORMATS", "ColumnMap", "Recording", "parse_source", "read", "write"]

Rows = tuple[int, int]

# Only the format in use is loaded: some need packages that are not always there.


def _read_ur_log(path: Path, rows: Rows | None, columns: ColumnMap, repair: bool) -> Recording:
    from core.recordings.ur_log import read_ur_log  # noqa: PLC0415

    _refuse_columns(columns, "ur-log", "its columns are fixed; other CSV files are read as csv")
    return read_ur_log(path, rows, repair=repair)


def _read_mcap(path: Path, rows: Rows | None, columns: ColumnMap, repair: bool) -> Recording:
    from core.recordings.ros_files import holds_joint_states, read_mcap_joint_states  # noqa: PLC0415

    if holds_joint_states(path):
        return read_mcap_joint_states(path, rows, columns=columns, repair=repair)

    from core.recordings.mcap_log import read_mcap  # noqa: PLC0415

    _refuse_columns(columns, "mcap", "it is a recording of this project, whose signals are known")
    return read_mcap(path, rows, allow_truncated=repair)


def _read_rosbag(path: Path, rows: Rows | None, columns: ColumnMap, repair: bool) -> Recording:
    from core.recordings.ros_files import read_rosbag  # noqa: PLC0415

    return read_rosbag(path, rows, columns=columns, repair=repair)


def _read_csv(path: Path, rows: Rows | None, columns: ColumnMap, repair: bool) -> Recording:
    from core.recordings.csv_file import read_csv  # noqa: PLC0415

    return read_csv(path, rows, columns=columns, repair=repair)


def _read_npz(path: Path, rows: Rows | None, columns: ColumnMap, repair: bool) -> Recording:
    from core.recordings.array_files import read_npz  # noqa: PLC0415

    return read_npz(path, rows, columns=columns, repair=repair)


def _read_hdf5(path: Path, rows: Rows | None, columns: ColumnMap, repair: bool) -> Recording:
    from core.recordings.array_files import read_hdf5  # noqa: PLC0415

    return read_hdf5(path, rows, columns=columns, repair=repair)


def _read_parquet(path: Path, rows: Rows | None, columns: ColumnMap, repair: bool) -> Recording:
    from core.recordings.array_files import read_parquet  # noqa: PLC0415

    return read_parquet(path, rows, columns=columns, repair=repair)


_READERS: dict[str, Callable[[Path, Rows | None, ColumnMap, bool], Recording]] = {
    "ur-log": _read_ur_log,
    "mcap": _read_mcap,
    "rosbag": _read_rosbag,
    "csv": _read_csv,
    "npz": _read_npz,
    "hdf5": _read_hdf5,
    "parquet": _read_parquet,
}

FORMATS: tuple[str, ...] = tuple(_READERS)

WRITABLE_FORMATS: tuple[str, ...] = ("mcap", "csv", "npz", "hdf5", "parquet")


def read(
    path: str | Path,
    format: str,
    rows: Rows | None = None,
    *,
    columns: ColumnMap | Mapping[str, Any] | str | Path | None = None,
    repair: bool = False,
) -> Recording:
    """Read a recording.

    Parameters
    ----------
    format : one of ``FORMATS``. ``mcap`` is a recording of this project or any with JointState messages, ``rosbag`` a
        ROS 2 bag (folder, ``.db3`` or ``.mcap``) with JointState messages.
    rows : first and last sample, 1-based and inclusive; all by default.
    columns : which columns are which signals, in which units: a column map (see ``core.recordings.column_map``), as a
        mapping or as a TOML or JSON file. By default the names this project itself writes, in SI units.
    repair : drop what is torn at the end of the file, not finite or out of time order instead of refusing it; the
        provenance says what was dropped.

    Raises
    ------
    RecordingError
        The file is missing, torn, foreign or holds no usable recording; the code says which.
    InputError
        The format is unknown, or the column map is invalid.
    """
    if format not in _READERS:
        raise InputError(
            f"unknown recording format {format!r}; there are {', '.join(FORMATS)}",
            code="recording-format-unknown",
            format=format,
        )
    file = Path(path)
    if file.exists() and not (file.is_file() or file.is_dir()):  # a pipe or a device may never end
        raise RecordingError(
            f"{file} is neither a file nor a folder; copy what it gives into a file first", code="recording-not-a-file"
        )
    return _READERS[format](file, rows, ColumnMap.of(columns), repair)


def write(recording: Recording, path: str | Path, format: str, *, overwrite: bool = False) -> None:
    """Write a recording to a file that ``read`` reads back, in SI units.

    Parameters
    ----------
    format : one of ``WRITABLE_FORMATS``.

    Raises
    ------
    RecordingError
        There is such a file already (code ``recording-exists``), or it cannot be written (``recording-unwritable``).
    InputError
        The format is unknown or cannot be written.
    """
    from core.recordings.writing import write_recording  # noqa: PLC0415

    if format not in WRITABLE_FORMATS:
        raise InputError(
            f"recordings cannot be written as {format!r}; there are {', '.join(WRITABLE_FORMATS)}",
            code="recording-format-unknown",
            format=format,
        )
    write_recording(recording, Path(path), format, overwrite=overwrite)


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


def _refuse_columns(columns: ColumnMap, format: str, why: str) -> None:
    if columns != ColumnMap():
        raise InputError(f"format {format} takes no column map: {why}", code="column-map-invalid", format=format)
