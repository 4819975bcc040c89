"""Start-up after a crash: every unfinished recording is rescued, entered, and told about; twice changes nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from core.recordings.mcap_log import McapSampleWriter, describe, read_mcap
from core.recordings.partial_file import partial_path
from core.streaming.samples import SampleBlock, sample_dtype
from service.recording import Salvaged, salvage, salvage_recording
from service.storage import Database, RecordingRow, RecordingState, events, recordings


def make_samples(count: int, first: int = 0) -> SampleBlock:
    samples = np.zeros(count, sample_dtype(6))
    samples["sequence"] = first + np.arange(count)
    samples["controller_time"] = 0.002 * samples["sequence"]
    return samples


def new_row(database: Database) -> RecordingRow:
    with database.session() as session:
        return recordings.create(session, robot="cell1")


def row_of(database: Database, identifier: str) -> RecordingRow:
    with database.reading() as session:
        return recordings.get(session, identifier)


def told(database: Database, identifier: str) -> list[str]:
    with database.reading() as session:
        return [event.kind for event in events.find(session, subject=identifier)]


def begin(data_dir: Path, row: RecordingRow, count: int) -> McapSampleWriter:
    """A file as its recorder leaves it when it is killed, once ``close`` has been called."""
    writer = McapSampleWriter.create(
        recordings.file_of(data_dir, row), 6, robot="cell1", context={"recording_id": row.id}
    )
    for start in range(0, count, 10):
        writer.write(make_samples(10, start))
    return writer


def break_off(data_dir: Path, row: RecordingRow, count: int, torn: int = 100) -> Path:
    writer = begin(data_dir, row, count)
    writer.close()
    path = recordings.file_of(data_dir, row)
    with partial_path(path).open("ab") as file:
        file.write(b"\x06" + torn.to_bytes(8, "little") + b"half a chunk")
    return path


def outcomes(done: list[Salvaged]) -> list[tuple[str, str]]:
    return [(item.recording_id, str(item.outcome)) for item in done]


def test_a_torn_file_is_completed_and_entered(tmp_path: Path, database: Database) -> None:
    row = new_row(database)
    path = break_off(tmp_path, row, 200)
    (done,) = salvage(tmp_path, database)
    assert (done.outcome, done.samples, done.path) == ("salvaged", 200, path)
    assert "it ends within a record" in done.detail
    after = row_of(database, row.id)
    found, facts = describe(path)
    assert (after.state, after.samples, after.lost, after.lapped) == ("salvaged", 200, 0, 0)
    assert (after.sha256, after.bytes, after.reason) == (found.sha256, found.bytes, done.detail)
    assert facts["dynid.summary"]["salvaged"] == "true"
    assert read_mcap(path).t.size == 200
    assert told(database, row.id) == ["recording.started", "recording.salvaged"]
    assert not partial_path(path).exists()
    assert salvage(tmp_path, database) == []
    assert salvage_recording(tmp_path, database, row.id) is None
    assert told(database, row.id) == ["recording.started", "recording.salvaged"]


def test_a_finished_file_is_only_entered(tmp_path: Path, database: Database) -> None:
    plain, interrupted = new_row(database), new_row(database)
    stored = begin(tmp_path, plain, 50).finish({"interrupted": "false", "reason": ""})
    begin(tmp_path, interrupted, 50).finish({"interrupted": "true", "reason": "the service ended"})
    assert outcomes(salvage(tmp_path, database)) == [(plain.id, "salvaged"), (interrupted.id, "salvaged")]
    assert row_of(database, plain.id).sha256 == stored.sha256
    assert "before it could enter it" in (row_of(database, plain.id).reason or "")
    assert row_of(database, interrupted.id).reason == "the service ended"


def test_lost_and_lapped_samples_are_entered(tmp_path: Path, database: Database) -> None:
    row = new_row(database)
    writer = begin(tmp_path, row, 50)
    writer.note_lapped(10)
    writer.write(make_samples(10, 65))
    writer.close()
    salvage(tmp_path, database)
    after = row_of(database, row.id)
    assert (after.samples, after.lost, after.lapped) == (60, 5, 10)


def test_what_cannot_be_rescued_is_failed_and_kept(tmp_path: Path, database: Database) -> None:
    absent, empty, foreign, no_bytes = (new_row(database) for _ in range(4))
    begin(tmp_path, empty, 0).close()
    for row, content in ((foreign, b"what is this"), (no_bytes, b"")):
        path = partial_path(recordings.file_of(tmp_path, row))
        path.write_bytes(content)
    done = salvage(tmp_path, database)
    assert outcomes(done) == [(row.id, "failed") for row in (absent, empty, foreign, no_bytes)]
    reasons = [row_of(database, row.id).reason or "" for row in (absent, empty, foreign, no_bytes)]
    for reason, expected in zip(
        reasons, ["never begun", "no sample had been stored", "is not an MCAP file", "is empty"], strict=True
    ):
        assert expected in reason
    kept = sorted(file.name for file in (tmp_path / "recordings" / "cell1").iterdir())
    assert kept == sorted(f"{row.id}.mcap.unreadable" for row in (empty, foreign, no_bytes))
    assert salvage(tmp_path, database) == []


def test_a_file_in_the_way_is_not_overwritten(tmp_path: Path, database: Database) -> None:
    row = new_row(database)
    path = break_off(tmp_path, row, 50)
    path.write_text("somebody else's")
    (done,) = salvage(tmp_path, database)
    assert done.outcome == "failed"
    assert path.read_text() == "somebody else's"
    assert row_of(database, row.id).state == "failed"
    path.unlink()
    assert outcomes(salvage(tmp_path, database)) == [(row.id, "salvaged")]  # a later start tries again
    assert row_of(database, row.id).samples == 50
    assert told(database, row.id) == ["recording.started", "recording.failed", "recording.salvaged"]


def test_a_file_without_an_entry_is_adopted(tmp_path: Path, database: Database) -> None:
    with database.session() as session:
        row = recordings.create(session, robot="cell1")
        session.rollback()  # as if the database had been set back
    path = break_off(tmp_path, row, 30)
    assert outcomes(salvage(tmp_path, database)) == [(row.id, "salvaged")]
    after = row_of(database, row.id)
    assert (after.robot, after.path, after.samples) == ("cell1", path.relative_to(tmp_path).as_posix(), 30)
    assert told(database, row.id) == ["recording.started", "recording.adopted", "recording.salvaged"]


def test_what_is_being_written_is_left_alone(tmp_path: Path, database: Database) -> None:
    row = new_row(database)
    writer = begin(tmp_path, row, 20)
    assert outcomes(salvage(tmp_path, database, patience=0.1)) == [(row.id, "busy")]
    assert row_of(database, row.id).state == "recording"
    with ThreadPoolExecutor() as pool:  # it is waited for while it is completed
        waiting = pool.submit(salvage, tmp_path, database)
        writer.write(make_samples(10, 20))
        writer.finish({"reason": "the service ended"})
        (done,) = waiting.result()
    assert (done.outcome, done.samples, done.detail) == ("salvaged", 30, "the service ended")


def test_several_at_once_enter_everything_once(tmp_path: Path, database: Database) -> None:
    rows = [new_row(database) for _ in range(6)]
    for row in rows[:4]:
        break_off(tmp_path, row, 40)
    begin(tmp_path, rows[4], 40).finish()
    code = (
        "import sys; from pathlib import Path; from service.storage import Database; "
        "from service.recording import salvage; "
        "salvage(Path(sys.argv[1]), Database(sys.argv[2]))"
    )
    url = f"sqlite:///{tmp_path / 'dynid.sqlite3'}"
    others = [subprocess.Popen([sys.executable, "-c", code, tmp_path, url]) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: salvage(tmp_path, database), range(3)))
    assert [process.wait(timeout=60) for process in others] == [0, 0]
    assert [row_of(database, row.id).state for row in rows] == ["salvaged"] * 5 + ["failed"]
    for row in rows:
        assert len(told(database, row.id)) == 2
    for row in rows[:5]:
        found, _ = describe(recordings.file_of(tmp_path, row))
        assert found.sha256 == row_of(database, row.id).sha256


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("mounting a small disk takes root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_tried_again(small_disk: Path, database: Database) -> None:
    row = new_row(database)
    path = recordings.file_of(small_disk, row)
    writer = McapSampleWriter.create(path, 6, robot="cell1")
    for number in range(300):  # many chunks make a summary that does not fit into what the file has already
        writer.write(make_samples(1, number))
    writer.close()
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    (done,) = salvage(small_disk, database)
    assert done.outcome == "failed"
    assert "No space left on device" in done.detail
    assert "the next start tries again" in done.detail
    assert row_of(database, row.id).state == "failed"
    assert outcomes(salvage(small_disk, database)) == [(row.id, "failed")]
    filler.unlink()
    assert outcomes(salvage(small_disk, database)) == [(row.id, "salvaged")]
    assert (row_of(database, row.id).state, read_mcap(path).t.size) == (RecordingState.SALVAGED, 300)
    assert told(database, row.id) == ["recording.started", "recording.failed", "recording.salvaged"]
