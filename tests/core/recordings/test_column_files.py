"""CSV, NPZ, HDF5 and Parquet: what a column map makes of them, and every refusal in its own words."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from core.errors import InputError, RecordingError
from core.recordings import WRITABLE_FORMATS, ColumnMap, Recording, read, write
from core.recordings.column_map import UNITS

N, JOINTS = 40, 2
RANDOM = np.random.default_rng(3)
T = 10.0 + np.arange(N) / 125.0
Q = RANDOM.normal(size=(N, JOINTS))
CURRENT = RANDOM.normal(size=(N, JOINTS))
MAP = {"t": {"column": "time", "unit": "ms"}, "q": {"columns": "pos[{0-1}]", "unit": "deg"}}
MAP |= {"current": {"columns": ["i_a", "i_b"], "unit": "mA"}}
FOREIGN = {"time": T * 1e3, "pos[0]": np.degrees(Q[:, 0]), "pos[1]": np.degrees(Q[:, 1])}
FOREIGN |= {"i_a": CURRENT[:, 0] * 1e3, "i_b": CURRENT[:, 1] * 1e3}


def csv_text(columns: dict[str, np.ndarray], separator: str = ",", *, header: bool = True) -> str:
    rows = (separator.join(f"{value:.9f}" for value in row) for row in zip(*columns.values(), strict=True))
    return "\n".join([*([separator.join(columns)] if header else []), *rows]) + "\n"


def write_foreign(path: Path, format: str, columns: dict[str, np.ndarray]) -> None:
    if format == "csv":
        path.write_text(csv_text(columns))
    elif format == "npz":
        with path.open("wb") as file:
            np.savez(file, **columns)
    elif format == "hdf5":
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)


@pytest.fixture
def recording() -> Recording:
    return Recording("run", T, Q, current=CURRENT, target_torque=3.0 * Q, provenance={"sha256": "ab"})


@pytest.fixture
def csv(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "run.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("format", WRITABLE_FORMATS)
def test_what_is_written_is_read_back(tmp_path, recording, format):
    path = tmp_path / "run"
    write(recording, path, format)
    again = read(path, format)
    assert np.array_equal(again.t, recording.t)
    assert again.present().keys() == recording.present().keys()
    assert all(np.array_equal(values, getattr(recording, name)) for name, values in again.present().items())
    assert read(path, format, (5, 14)).t.size == 10
    with pytest.raises(RecordingError, match="there is such a file already") as refusal:
        write(recording, path, format)
    assert refusal.value.code == "recording-exists"
    write(recording.rows(1, 20), path, format, overwrite=True)
    assert read(path, format).t.size == 20


@pytest.mark.parametrize("format", WRITABLE_FORMATS)
def test_a_full_disk_leaves_an_earlier_file_as_it_was(tmp_path, recording, format):
    path = tmp_path / "run"
    write(recording.rows(1, 20), path, format)
    before, room = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, room[1]))  # as good as a disk with no more room
    try:
        with pytest.raises(RecordingError, match="cannot be written"):
            write(recording, path, format, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, room)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("format", WRITABLE_FORMATS)
def test_names_of_joints_survive(tmp_path, recording, format):
    names = ("elbow, left", 'the "base"')
    path = tmp_path / "run"
    write(replace(recording, joint_names=names), path, format)
    again = read(path, format)
    assert again.joint_names == names
    assert np.array_equal(again.for_joints(names[::-1]).current, CURRENT[:, ::-1])


@pytest.mark.parametrize("format", ["csv", "npz", "hdf5", "parquet"])
def test_a_column_map_turns_foreign_names_and_units_into_signals(tmp_path, format):
    path = tmp_path / "run"
    write_foreign(path, format, FOREIGN)
    recording = read(path, format, columns=MAP)
    assert recording.t == pytest.approx(T)
    assert recording.q == pytest.approx(Q, abs=1e-9)
    assert recording.current == pytest.approx(CURRENT, abs=1e-9)
    assert recording.qd is None
    assert recording.provenance["format"] == format
    assert recording.provenance["columns"]["q"] == {"columns": ["pos[0]", "pos[1]"], "unit": "deg"}
    with pytest.raises(RecordingError, match=r"there is no column for t; there are .*pos") as refusal:
        read(path, format)
    assert refusal.value.code == "recording-columns"
    with pytest.raises(RecordingError, match="column 'speed' of qd is not in the file"):
        read(path, format, columns=MAP | {"qd": "speed"})


def test_maps_are_read_from_toml_and_json(tmp_path, csv):
    path = csv(csv_text(FOREIGN, ";"))
    toml = tmp_path / "map.toml"
    toml.write_text(
        'delimiter = ";"\njoint_names = ["a", "b"]\nt = { column = "time", unit = "ms" }\n'
        'q = { columns = "pos[{0-1}]", unit = "deg" }\n'
    )
    by_toml = read(path, "csv", columns=toml)
    as_json = tmp_path / "map.json"
    by_number = {"t": {"column": 1, "unit": "ms"}, "q": {"columns": [2, 3], "unit": "deg"}}
    as_json.write_text(json.dumps({"delimiter": ";", "header": True, **by_number}))
    by_json = read(path, "csv", (3, 9), columns=str(as_json))
    assert by_toml.joint_names == ("a", "b")
    assert np.array_equal(by_json.q, by_toml.q[2:9])


def test_joints_may_have_units_of_their_own(csv):
    path = csv(csv_text(FOREIGN))
    mixed = MAP | {"q": {"columns": "pos[{0-1}]", "unit": ["deg", "mm"]}}
    recording = read(path, "csv", columns=mixed)
    assert recording.q == pytest.approx(np.column_stack([Q[:, 0], np.degrees(Q[:, 1]) * 1e-3]), abs=1e-9)
    assert recording.provenance["columns"]["q"]["unit"] == ("deg", "mm")
    with pytest.raises(InputError, match=r"q has 3 units for 2 columns of .*; give one for all, or one for each"):
        read(path, "csv", columns=MAP | {"q": {"columns": "pos[{0-1}]", "unit": ["deg", "mm", "deg"]}})
    with pytest.raises(InputError, match="q: unknown unit 'inch'"):
        ColumnMap.of(MAP | {"q": {"columns": "pos[{0-1}]", "unit": ["deg", "inch"]}})
    with pytest.raises(InputError, match="q: the list of units is empty"):
        ColumnMap.of(MAP | {"q": {"columns": "pos[{0-1}]", "unit": []}})


def test_arrays_of_two_dimensions_and_lists_are_signals(tmp_path):
    npz, parquet = tmp_path / "run.npz", tmp_path / "run.parquet"
    np.savez(npz, q=Q, i=CURRENT)
    recording = read(npz, "npz", columns={"rate": 125, "q": "q", "current": "i"})
    assert np.array_equal(recording.q, Q)
    assert recording.t == pytest.approx(T - 10.0)
    stamps = pyarrow.array((T * 1e9).astype("datetime64[ns]"))
    pyarrow.parquet.write_table(pyarrow.table({"t": stamps, "q": list(Q)}), parquet)
    recording = read(parquet, "parquet")
    assert recording.t == pytest.approx(T - 10.0)
    assert np.array_equal(recording.q, Q)


def test_nanoseconds_since_1970_keep_their_differences(tmp_path):
    path = tmp_path / "run.npz"
    t = 1_700_000_000_000_000_000 + 8_000_000 * np.arange(N) + np.arange(N) % 3
    np.savez(path, t=t, q=Q)
    recording = read(path, "npz", columns={"t": {"column": "t", "unit": "ns"}, "q": "q"})
    assert np.array_equal(np.rint(recording.t * 1e9), t - t[0])


@pytest.mark.parametrize(
    ("columns", "message", "code"),
    [
        ({"q1": np.degrees(Q[:, 0]) * 20}, r"q reaches .*, which looks like degrees, not rad", "recording-units"),
        ({"t": T * 1e3}, "time steps by 8, which can hardly be seconds", "recording-units"),
        (
            {"current1": Q[:, 0] * 1e3, "current2": Q[:, 1]},
            r"current reaches .*, which looks like mA",
            "recording-units",
        ),
        ({"qd1": Q[:, 0]}, "qd is of 1 joints, q of 2", "recording-shape"),
        ({"q2": np.where(np.arange(N) == 6, np.nan, Q[:, 1])}, "row 7, column q2: nan", "recording-not-finite"),
        ({"t": np.where(np.arange(N) == 6, 0.0, T)}, "time does not increase at row 7", "recording-time-order"),
    ],
)
@pytest.mark.parametrize("format", ["csv", "npz"])
def test_values_that_cannot_be_are_refused(tmp_path, columns, message, code, format):
    path = tmp_path / "run"
    good = {"t": T, "q1": Q[:, 0], "q2": Q[:, 1]}
    write_foreign(path, format, good | columns)
    with pytest.raises(RecordingError, match=message) as refusal:
        read(path, format)
    assert refusal.value.code == code


def test_a_repair_drops_single_rows_and_names_them(csv):
    q2 = np.tile(Q[:, 1], 5)
    q2[6] = np.nan
    columns = {"t": np.arange(5 * N) / 100.0, "q1": np.tile(Q[:, 0], 5), "q2": q2}
    path = csv(csv_text(columns).rstrip("\n")[:-4])
    with pytest.raises(RecordingError, match="row 200, the last one, is torn") as refusal:
        read(path, "csv")
    assert refusal.value.code == "recording-torn"
    assert read(path, "csv", (20, 199)).t.size == 180
    repaired = read(path, "csv", repair=True)
    assert repaired.t.size == 198
    assert repaired.provenance["repairs"] == {"rows_dropped": [7, 200]}
    assert repaired.lost == 1


@pytest.mark.parametrize(
    ("content", "columns", "message", "code"),
    [
        ("", None, "the file is empty", "recording-empty"),
        ("t,q1\n", None, "nothing below the header", "recording-empty"),
        (b"\x89HDF\r\n\x1a\n\0", None, "this is a HDF5 file, not CSV text", "recording-binary"),
        ("0.1,1\n0.2,2\n", None, "line 1 holds numbers", "recording-header"),
        ("t;q1\n0.1;1\n0.2;2\n", None, "values seem to be separated by ';'", "recording-columns"),
        ("t,q1\n0.1,1\n0.2,1,5\n0.3,2\n", None, "line 3 has 3 columns, expected 2", "recording-columns"),
        ("t,q1\n0.1,1\n0.2,one\n", None, "line 3, column 'q1': 'one' is not a number", "recording-not-a-number"),
        ("t,q1\n0.1,1\n0.2,1_0\n", None, "line 3, column 'q1': '1_0' is not a number", "recording-not-a-number"),
        ("t,q1\n0.1,1\nt,q1\n0.2,2\n", None, "'t' is not a number; it is a header between", "recording-not-a-number"),
        ("t,q\n0.1,1\n0.2,2\n", {"t": 1, "q": [2]}, "set header = true", "recording-not-a-number"),
        ("0.1,1\n0.2,2\n", {"t": 1, "q": [3]}, "column 3 of q is not in the file", "recording-columns"),
        ("t,a,a\n0.1,1,1\n0.2,2,2\n", {"t": "t", "q": "a"}, "the name 'a' more than once", "recording-header"),
        ("t,q1\n0.1,1\n", None, "at least two rows", "recording-rows"),
    ],
)
def test_broken_csv_is_explained(csv, content, columns, message, code):
    with pytest.raises(RecordingError, match=message) as refusal:
        read(csv(content), "csv", columns=columns)
    assert refusal.value.code == code


def test_missing_and_foreign_files_are_named(tmp_path):
    for format in ("csv", "npz", "hdf5", "parquet"):
        with pytest.raises(RecordingError, match="there is no such file"):
            read(tmp_path / "none", format)
    text = tmp_path / "text"
    text.write_text("t,q1\n")
    for format, name in (("npz", "NPZ"), ("hdf5", "HDF5"), ("parquet", "Parquet")):
        with pytest.raises(RecordingError, match=f"cannot be read as {name}") as refusal:
            read(text, format)
        assert refusal.value.code == "recording-foreign"
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, t=T, q=np.array([{}], dtype=object))
    with pytest.raises(RecordingError, match=r"'q' cannot be read: .*allow_pickle"):
        read(pickled, "npz")


def test_arrays_of_other_shapes_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    for arrays, message in (
        ({"t": T, "q": Q.T}, r"'t' has shape \(40,\), expected \(2,\)"),
        ({"t": T, "q": Q[:, :, None]}, r"'q' has shape \(40, 2, 1\)"),
        ({"t": T, "q": Q.astype(str)}, "expected numbers"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(RecordingError, match=message) as refusal:
            read(path, "npz")
        assert refusal.value.code == "recording-shape"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"speed": "v"}, "unknown key 'speed'"),
        ({"t": "t"}, "position q is missing"),
        ({"q": "q"}, "either the column of time, t, or the rate"),
        ({"q": {"columns": "q", "unit": "turns"}, "t": "t"}, "q: unknown unit 'turns'; there are rad, deg"),
        ({"q": {"unit": "rad"}, "t": "t"}, "a table of columns"),
        ({"q": [0], "t": "t"}, "a name or a number counted from 1, got 0"),
        ({"q": ["a", "a"], "t": "t"}, "missing or repeated"),
        ({"q": "q{5-1}", "t": "t"}, "not ascending"),
        ({"q": "q", "t": ["a", "b"]}, "time is one column"),
        ({"q": "q", "rate": 0}, "rate must be a positive number"),
        ({"delimiter": ";;"}, "delimiter must be one character"),
        ({"header": "yes"}, "header must be true or false"),
        ({"joint_names": "a"}, "joint_names must be a list"),
        ({"effort": "force"}, "effort must be one of torque, current"),
    ],
)
def test_column_maps_are_checked(columns: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message) as refusal:
        ColumnMap.of(columns)
    assert refusal.value.code == "column-map-invalid"


def test_map_files_are_checked(tmp_path):
    bad = tmp_path / "map.toml"
    for text, message in (("q =", "neither TOML nor JSON"), ("{1}", "neither TOML nor JSON")):
        bad.write_text(text)
        with pytest.raises(InputError, match=message):
            ColumnMap.of(bad)
    with pytest.raises(InputError, match="cannot be read"):
        ColumnMap.of(tmp_path / "none.toml")
    assert set(UNITS) == {"t", *Recording.SIGNALS}


def test_formats_without_columns_take_no_map(tmp_path, recording):
    path = tmp_path / "run.mcap"
    write(recording, path, "mcap")
    for format in ("mcap", "ur-log"):
        with pytest.raises(InputError, match=f"format {format} takes no column map"):
            read(path, format, columns=MAP)
    with pytest.raises(InputError, match="cannot be written as 'ur-log'"):
        write(recording, path, "ur-log")
    with pytest.raises(InputError, match="unknown recording format 'xls'; there are ur-log, mcap"):
        read(path, "xls")


def test_a_missing_extra_is_named(tmp_path, recording, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    for act in (lambda: read(tmp_path / "run", "hdf5"), lambda: write(recording, tmp_path / "run", "hdf5")):
        with pytest.raises(RecordingError, match=r"need the package h5py.*dynid\[files\]") as refusal:
            act()
        assert refusal.value.code == "extra-missing"
        assert refusal.value.context["extra"] == "files"


def test_joint_names_of_a_map_must_be_as_many_as_joints(tmp_path, recording):
    path = tmp_path / "run.npz"
    write(replace(recording, current=None), path, "npz")
    assert read(path, "npz", columns={"joint_names": ["a", "b"]}).joint_names == ("a", "b")
    with pytest.raises(RecordingError, match="3 joint names for 2 joints"):
        read(path, "npz", columns={"joint_names": ["a", "b", "c"]})
