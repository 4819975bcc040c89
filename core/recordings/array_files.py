"""NPZ, HDF5 and Parquet: files of named arrays."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import RecordingError
from core.recordings.column_map import ColumnMap, Key, column_names
from core.recordings.optional_packages import optional_package
from core.recordings.recording import Recording
from core.recordings.table import recording_from
from core.recordings.text_file import foreign_kind, read_content

Rows = tuple[int, int]

_JOINT_NAMES = "joint_names"
"""Where NPZ (an array) and HDF5 (an attribute of the file) keep the names of joints."""


@dataclass(frozen=True)
class _Arrays:
    """Arrays by name, or by number from 1, read when they are asked for."""

    names: Sequence[str]
    n_rows: int
    get: Callable[[str], NDArray[Any]]
    path: Path

    def column(self, key: Key, first: int, last: int) -> NDArray[Any]:
        if isinstance(key, int):
            if key > len(self.names):
                raise KeyError(key)
            key = self.names[key - 1]
        if key not in self.names:
            raise KeyError(key)
        values = self.get(key)
        if values.ndim == 0 or len(values) != self.n_rows:
            raise RecordingError(
                f"{self.path}: {key!r} has shape {values.shape}, expected ({self.n_rows},) or ({self.n_rows}, joints): "
                "one row per sample",
                code="recording-shape",
                path=str(self.path),
                signal=key,
            )
        return values[first - 1 : last]


def read_npz(path: Path, rows: Rows | None = None, *, columns: ColumnMap, repair: bool = False) -> Recording:
    """Read arrays (N,) and (N, n) from an NPZ file. Pickled objects are refused.

    Raises
    ------
    RecordingError
        Code ``recording-missing``, ``-foreign``, ``-not-a-number`` and those of ``recording_from``.
    """
    content = read_content(path)
    try:
        archive = np.load(BytesIO(content), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise _foreign(path, "NPZ", content)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _foreign(path, "NPZ", content) from error

    def get(name: str) -> NDArray[Any]:
        try:
            return np.asarray(archive[name])
        except (ValueError, zipfile.BadZipFile) as error:
            raise RecordingError(
                f"{path}: {name!r} cannot be read: {error}", code="recording-not-a-number", path=str(path)
            ) from error

    with archive:
        if columns.joint_names is None and _JOINT_NAMES in archive.files:
            columns = replace(columns, joint_names=tuple(map(str, get(_JOINT_NAMES).tolist())))
        table = _arrays(archive.files, get, columns, path)
        return recording_from(table, columns, path, rows, _provenance("npz", content), repair=repair)


def read_hdf5(path: Path, rows: Rows | None = None, *, columns: ColumnMap, repair: bool = False) -> Recording:
    """Read datasets (N,) and (N, n) from an HDF5 file; their names are paths such as ``run1/q``.

    Raises
    ------
    RecordingError
        Code ``extra-missing``, ``recording-missing``, ``-foreign`` and those of ``recording_from``.
    """
    h5py = optional_package("h5py", "hdf5")
    content = read_content(path)
    try:
        file = h5py.File(BytesIO(content), "r")
    except OSError as error:
        raise _foreign(path, "HDF5", content) from error
    with file:
        names: list[str] = []
        if columns.joint_names is None and _JOINT_NAMES in file.attrs:
            columns = replace(columns, joint_names=tuple(map(str, file.attrs[_JOINT_NAMES])))
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        table = _arrays(names, lambda name: np.asarray(file[name]), columns, path)
        return recording_from(table, columns, path, rows, _provenance("hdf5", content), repair=repair)


def read_parquet(path: Path, rows: Rows | None = None, *, columns: ColumnMap, repair: bool = False) -> Recording:
    """Read columns of numbers, or of lists of n numbers, from a Parquet file.

    Missing values count as NaN. Columns of time stamps become seconds since the first one.

    Raises
    ------
    RecordingError
        Code ``extra-missing``, ``recording-missing``, ``-foreign`` and those of ``recording_from``.
    """
    pyarrow = optional_package("pyarrow", "parquet")
    parquet = optional_package("pyarrow.parquet", "parquet")
    content = read_content(path)
    try:
        frame = parquet.read_table(BytesIO(content))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise _foreign(path, "Parquet", content) from error

    def get(name: str) -> NDArray[Any]:
        return _from_arrow(pyarrow, frame.column(name).combine_chunks(), name, path)

    table = _Arrays(frame.column_names, frame.num_rows, get, path)
    return recording_from(table, columns, path, rows, _provenance("parquet", content), repair=repair)


def _from_arrow(pyarrow: Any, values: Any, name: str, path: Path) -> NDArray[Any]:
    kind = values.type
    if pyarrow.types.is_timestamp(kind):
        stamps = values.cast(pyarrow.timestamp("ns")).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.asarray((stamps - stamps[0]) * 1e-9)
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        lengths = {None if row is None else len(row) for row in values}
        if len(lengths) != 1 or None in lengths:
            raise RecordingError(
                f"{path}: the lists in {name!r} differ in length, or some are missing",
                code="recording-shape",
                path=str(path),
                signal=name,
            )
        flat = values.flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat).reshape(len(values), -1)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _arrays(names: Sequence[str], get: Callable[[str], NDArray[Any]], columns: ColumnMap, path: Path) -> _Arrays:
    """Return the arrays of a file in which nothing but the position says how many samples there are."""
    mapped = columns.resolved(names).signals
    key = mapped["q"].keys[0] if "q" in mapped else None
    name = names[key - 1] if isinstance(key, int) and key <= len(names) else key
    rows = len(np.atleast_1d(get(name))) if isinstance(name, str) and name in names else 0
    return _Arrays(names, rows, get, path)


def _provenance(format: str, content: bytes) -> dict[str, Any]:
    return {"format": format, "sha256": hashlib.sha256(content).hexdigest()}


def _foreign(path: Path, expected: str, content: bytes) -> RecordingError:
    kind = foreign_kind(content)
    what = f"it is {kind}" if kind and kind not in expected and expected not in kind else "it is none, or damaged"
    return RecordingError(f"{path}: cannot be read as {expected}: {what}", code="recording-foreign", path=str(path))


def write_npz(recording: Recording, path: Path) -> None:
    """Write a recording as NPZ: ``t`` (N,) and the signals (N, n) under their names, SI units."""
    with path.open("wb") as file:
        arrays: dict[str, Any] = {"t": recording.t, **recording.present()}
        if recording.joint_names is not None:
            arrays[_JOINT_NAMES] = np.array(recording.joint_names)
        np.savez_compressed(file, **arrays)


def write_hdf5(recording: Recording, path: Path) -> None:
    """Write a recording as HDF5, laid out as NPZ is; its provenance is an attribute of the file."""
    h5py = optional_package("h5py", "hdf5")
    content = io.BytesIO()  # the library itself does not survive a full disk
    with h5py.File(content, "w") as file:
        for name, values in {"t": recording.t, **recording.present()}.items():
            file.create_dataset(name, data=values, compression="gzip", shuffle=True)
        file.attrs["provenance"] = json.dumps(recording.provenance)
        if recording.joint_names is not None:
            file.attrs[_JOINT_NAMES] = list(recording.joint_names)
    path.write_bytes(content.getbuffer())


def write_parquet(recording: Recording, path: Path) -> None:
    """Write a recording as Parquet: ``t`` and one column per signal and joint, named as in CSV, SI units."""
    pyarrow = optional_package("pyarrow", "parquet")
    parquet = optional_package("pyarrow.parquet", "parquet")
    columns = {"t": recording.t}
    for name, values in recording.present().items():
        names = column_names(name, recording.joint_names, recording.n_joints)
        columns |= dict(zip(names, values.T, strict=True))
    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    parquet.write_table(table.replace_schema_metadata({"provenance": json.dumps(recording.provenance)}), path)
