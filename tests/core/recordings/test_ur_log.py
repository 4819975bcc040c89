"""UR logs: what is read, and that every kind of broken file is refused in its own words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError, RecordingError
from core.recordings import parse_source, read
from core.recordings.ur_log import COLUMNS, read_ur_log

ROWS = 12


@pytest.fixture
def table() -> np.ndarray:
    values = np.random.default_rng(1).normal(size=(ROWS, len(COLUMNS)))
    values[:, 0] = 500.0 + np.cumsum(np.resize([0.010, 0.012], ROWS))
    return values.round(4)


@pytest.fixture
def lines(table: np.ndarray) -> list[str]:
    return [",".join(f"{value:.4f}" for value in row) for row in table]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "log.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_columns_become_signals(table, lines, write):
    path = write("\n".join(lines) + "\n")
    recording = read_ur_log(path)
    assert np.array_equal(recording.t, table[:, 0])
    for i, name in enumerate(("q", "qd", "current", "target_current", "target_torque")):
        assert np.array_equal(getattr(recording, name), table[:, 1 + 6 * i : 7 + 6 * i])
    assert recording.torque is None
    assert recording.provenance["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert recording.provenance["rows"] == [1, ROWS]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n\n", ""])
def test_line_ends_do_not_matter(table, lines, write, ending):
    joint = "\r\n" if ending == "\r\n" else "\n"
    assert read_ur_log(write(joint.join(lines) + ending)).t.size == ROWS


def test_rows_are_counted_from_one_and_inclusive(table, lines, write):
    recording = read(write("\n".join(lines)), "ur-log", (3, 7))
    assert np.array_equal(recording.t, table[2:7, 0])
    assert recording.provenance["rows"] == [3, 7]
    assert recording.provenance["rows_in_file"] == ROWS


BROKEN = {
    "recording-empty": lambda lines: "",
    "recording-binary": lambda lines: b"\x89MCAP0\r\n" + bytes(100),
    "recording-header": lambda lines: "\n".join([",".join(COLUMNS), *lines]),
    "recording-columns": lambda lines: "\n".join([*lines[:4], lines[4] + ",1.0", *lines[5:]]),
    "recording-torn": lambda lines: "\n".join(lines)[:-60],
    "recording-not-a-number": lambda lines: "\n".join([*lines[:4], lines[4].replace(",", ",abc", 1), *lines[5:]]),
    "recording-not-finite": lambda lines: "\n".join(
        [*lines[:4], ",".join([*lines[4].split(",")[:-1], "nan"]), *lines[5:]]
    ),
    "recording-time-order": lambda lines: "\n".join([*lines[:4], lines[3], *lines[5:]]),
}


@pytest.mark.parametrize("code", BROKEN)
def test_broken_files_are_refused_each_in_its_own_words(lines, write, code):
    path = write(BROKEN[code](lines))
    with pytest.raises(RecordingError) as refusal:
        read_ur_log(path)
    assert refusal.value.code == code
    assert str(path) in refusal.value.detail
    expected_row = {"recording-header": 1, "recording-torn": ROWS}.get(code, 5)
    assert refusal.value.context.get("row", expected_row) == expected_row


def test_row_numbers_are_those_of_the_file_in_a_window(lines, write):
    broken = [*lines[:7], ",".join([*lines[7].split(",")[:-1], "inf"]), *lines[8:]]
    with pytest.raises(RecordingError, match="row 8, column target_torque6"):
        read_ur_log(write("\n".join(broken)), (3, 10))


@pytest.mark.parametrize("lost", [2, 3, 20, 60, 200])
def test_a_torn_last_row_is_dropped_only_on_demand_and_counted(lines, write, lost):
    path = write("\n".join(lines)[:-lost])
    with pytest.raises(RecordingError, match=f"Read rows 1-{ROWS - 1}"):
        read_ur_log(path)
    repaired = read_ur_log(path, repair=True)
    assert repaired.t.size == ROWS - 1
    assert repaired.provenance["repairs"] == {"rows_dropped": [ROWS]}
    assert repaired.lost == 0
    assert read_ur_log(path, (1, ROWS - 1)).t.size == ROWS - 1


def test_a_whole_file_needs_no_repair(lines, write):
    recording = read_ur_log(write("\n".join(lines)), repair=True)
    assert recording.t.size == ROWS
    assert recording.provenance["repairs"] == {"rows_dropped": []}


def test_missing_files_and_rows_outside_the_file(lines, write, tmp_path):
    with pytest.raises(RecordingError, match="no such file"):
        read_ur_log(tmp_path / "absent.csv")
    with pytest.raises(RecordingError, match="rows 3-40 do not lie within 1-12"):
        read_ur_log(write("\n".join(lines)), (3, 40))


def test_another_separator_is_named(lines, write):
    with pytest.raises(RecordingError, match="separated by ';'"):
        read_ur_log(write("\n".join(lines).replace(",", ";") + "\n"))


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match="there are ur-log, mcap"):
        read(tmp_path / "x", "bag")


@pytest.mark.parametrize(
    ("source", "path", "rows"),
    [
        ("a/b.csv", "a/b.csv", None),
        ("a/b.csv:635-3510", "a/b.csv", (635, 3510)),
        ("disk:a/b.csv:1-2", "disk:a/b.csv", (1, 2)),
        ("run:3.csv", "run:3.csv", None),
    ],
)
def test_sources(source, path, rows):
    assert parse_source(source) == (Path(path), rows)


@pytest.mark.parametrize("source", ["a:5-", "a:-5", "a:0-5", "a:7-7", "a:9-3", "a:-"])
def test_malformed_rows_are_refused(source):
    with pytest.raises(InputError, match="FILE:first-last"):
        parse_source(source)


def test_rows_astray_are_dropped_on_demand_and_named(table, tmp_path):
    long = np.tile(table, (50, 1))
    long[:, 0] = 10.0 + 0.01 * np.arange(len(long))
    long[[30, 31], 0] = 1e154, -3.0
    long[200, 9] = np.nan
    path = tmp_path / "astray.csv"
    np.savetxt(path, long, delimiter=",", fmt="%.4f")
    with pytest.raises(RecordingError):
        read_ur_log(path)
    repaired = read_ur_log(path, repair=True)
    assert repaired.provenance["repairs"] == {"rows_dropped": [31, 32, 201]}
    assert repaired.lost == 3
    assert np.array_equal(repaired.q, np.delete(long, [30, 31, 200], axis=0).round(4)[:, 1:7])


def test_a_repair_has_its_limit(table, tmp_path):
    shuffled = np.random.default_rng(2).permutation(table)
    path = tmp_path / "shuffled.csv"
    np.savetxt(path, shuffled, delimiter=",", fmt="%.4f")
    with pytest.raises(RecordingError, match="no longer a repair"):
        read_ur_log(path, repair=True)


def test_recorded_logs_with_faults(ur10e_data):
    dirty = ur10e_data / "dirty" / "ur-20_02_19_15harm50secLoad.csv"  # torn, and rows 2-10 misread
    with pytest.raises(RecordingError, match="row 6107, the last one, is torn: 20 of 31 columns"):
        read(dirty, "ur-log")
    with pytest.raises(RecordingError, match=r"time does not increase at row 2 .* 9 rows .* first 2, the last 10"):
        read(dirty, "ur-log", (1, 6106))
    repaired = read(dirty, "ur-log", repair=True)
    assert repaired.t.size == 6107 - 10
    assert repaired.provenance["repairs"]["rows_dropped"] == [*range(2, 11), 6107]
    assert repaired.lost == 9
    assert np.abs(repaired.q).max() < 7.0
    with pytest.raises(RecordingError, match="row 1 has 19 columns"):
        read(ur10e_data / "dirty" / "ur-19_09_27-11_28_22.csv", "ur-log")


def test_degrees_are_noticed(table, write):
    table[:, 1:7] = np.degrees(table[:, 1:7])
    path = write("\n".join(",".join(f"{value:.4f}" for value in row) for row in table))
    with pytest.raises(RecordingError, match="looks like degrees, not rad; read it as csv") as refusal:
        read_ur_log(path)
    assert refusal.value.code == "recording-units"
    in_degrees = {"t": 1, "q": {"columns": [2, 3, 4, 5, 6, 7], "unit": "deg"}}
    assert read(path, "csv", columns=in_degrees).q == pytest.approx(np.radians(table[:, 1:7]), abs=1e-6)


@pytest.mark.parametrize(
    ("columns", "factor", "said"),
    [
        (slice(0, 1), 1e3, r"time steps by 1\d, which can hardly be seconds and looks like ms"),
        (slice(0, 1), 1e6, "which can hardly be seconds and looks like us"),
        (slice(0, 1), 1e9, "which can hardly be seconds and looks like ns"),
        (slice(13, 19), 1e3, "current reaches .*, which looks like mA, not A"),
        (slice(19, 25), 1e3, "target_current reaches .*, which looks like mA, not A"),
    ],
)
def test_other_units_are_noticed(table, write, columns, factor, said):
    table[:, columns] *= factor
    path = write("\n".join(",".join(f"{value:.4f}" for value in row) for row in table))
    with pytest.raises(RecordingError, match=said) as refusal:
        read_ur_log(path)
    assert refusal.value.code == "recording-units"


def test_a_header_between_the_rows_is_seen_for_what_it_is(lines, write):
    path = write("\n".join([*lines[:6], ",".join(COLUMNS), *lines[6:]]))
    with pytest.raises(RecordingError, match=r"row 7, column t: 't' is not a number; it is a header between the rows"):
        read_ur_log(path)
    assert read_ur_log(path, (1, 6)).t.size == 6


@pytest.mark.parametrize("digits", ["1_0", "\u0661\u0660"])
def test_numbers_that_only_python_reads_are_none(lines, write, digits):
    fields = lines[4].split(",")
    fields[14] = digits
    with pytest.raises(RecordingError, match=f"row 5, column current2: '{digits}' is not a number") as refusal:
        read_ur_log(write("\n".join([*lines[:4], ",".join(fields), *lines[5:]])))
    assert refusal.value.code == "recording-not-a-number"
