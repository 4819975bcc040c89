"""Opening, checking and sharing the database file."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from core.errors import InputError
from service.errors import StorageError, StorageRefusedError
from service.storage import Database, EventRow, events, new_id, recordings, trajectories
from service.storage.tables import Base, RecordingRow, TrajectoryRow

WRITER = """
import sys
from service.storage import Database, counters, events
database = Database(sys.argv[1])
database.create()
for number in range(40):
    with database.session() as session:  # reads first, then writes: the case that deferred locks lose
        value = counters.next_value(session, "shared")
        events.record(session, "test.count", f"{value}", number=value)
"""


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_identifiers_sort_by_creation_and_are_unique() -> None:
    made = [new_id("rec") for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"rec_[0-7][0-9A-HJKMNP-TV-Z]{25}", identifier) for identifier in made)


def test_is_durable_wal_with_foreign_keys(database: Database) -> None:
    with database.session() as session:
        connection = session.connection()
        pragma = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_creating_twice_keeps_what_is_there(tmp_path: Path) -> None:
    for _ in range(2):
        database = Database(url(tmp_path / "new" / "folder" / "dynid.sqlite3"))
        database.create()
        database.verify()
        with database.session() as session:
            events.record(session, "test.opened", "opened")
        database.close()
    with database.reading() as session:
        assert [row.id for row in events.find(session)] == [1, 2]
        assert [row.id for row in events.find(session, after=1, kind="test.opened")] == [2]


def test_two_processes_create_and_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "dynid.sqlite3"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, url(path)]) for _ in range(3)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    database = Database(url(path))
    with database.reading() as session:
        assert [row.details["number"] for row in events.find(session, limit=1000)] == list(range(1, 121))
    database.close()


def test_an_exception_rolls_everything_back(database: Database) -> None:
    with pytest.raises(LookupError), database.session() as session:
        recordings.create(session, robot="cell1")
        raise LookupError
    with database.reading() as session:
        assert recordings.find(session) == []
        assert events.find(session) == []


def test_events_cannot_be_changed_or_deleted(database: Database) -> None:
    with database.session() as session:
        events.record(session, "test.kept", "kept")
    for statement in ("UPDATE events SET message = 'changed'", "DELETE FROM events"):
        with pytest.raises(StorageRefusedError, match="append-only"), database.session() as session:
            session.connection().exec_driver_sql(statement)
    with database.reading() as session:
        assert session.scalars(select(EventRow.message)).all() == ["kept"]


def test_a_reading_session_refuses_to_write(database: Database) -> None:
    with database.reading() as session:
        session.add(TrajectoryRow(id="trj_1"))
        with pytest.raises(RuntimeError, match="reading session"):
            session.flush()


def test_rows_outlive_their_session(database: Database) -> None:
    with database.session() as session:
        row = recordings.create(session, robot="cell1")
    with database.reading() as session:
        again = recordings.get(session, row.id)
    assert (row.robot, again.path) == ("cell1", row.path)


def test_times_come_back_aware_and_in_utc(database: Database) -> None:
    noon = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    with database.session() as session:
        row = recordings.create(session, robot="cell1")
        row.started_at = noon
    with database.reading() as session:
        back = recordings.get(session, row.id).started_at
    assert back == noon
    assert back.tzinfo is UTC
    with pytest.raises(StorageRefusedError, match="time zone"), database.session() as session:
        session.add(
            RecordingRow(id="x", robot="r", state="recording", path="p", started_at=datetime(2026, 7, 1), details={})
        )


def test_what_is_wrong_with_the_database_is_told_from_what_is_wrong_with_the_data(database: Database) -> None:
    refused = (
        lambda session: session.add(RecordingRow(id="x", robot="r", state="recording", path="p")),  # NOT NULL
        lambda session: session.add(TrajectoryRow(id="x", name=object())),  # no type of the database's
    )
    for write in refused:
        with pytest.raises(StorageRefusedError), database.session() as session:
            write(session)
    with database.session() as session:
        session.connection().exec_driver_sql("ALTER TABLE recordings RENAME TO elsewhere")
    with pytest.raises(StorageError, match="no such table") as caught, database.session() as session:
        recordings.create(session, robot="cell1")
    assert caught.value.code == "storage-unusable"


def test_not_a_number_in_a_document_is_refused(database: Database) -> None:
    with pytest.raises(InputError, match="JSON"), database.session() as session:
        trajectories.create(session, name="n", definition={"a": float("nan")}, n_joints=6, duration=1.0)
    with pytest.raises(InputError, match="JSON") as caught, database.session() as session:
        recordings.create(session, robot="cell1", details={"value": float("nan")})
    assert caught.value.code == "document-invalid"


def test_foreign_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite3"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE music (title TEXT)")
    other.close()
    with pytest.raises(StorageError, match="not a dynid database") as caught:
        Database(url(path)).create()
    assert caught.value.code == "database-foreign"
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("music",)]
    other.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("just some notes\n" * 100)
    with pytest.raises(StorageError, match="not a SQLite database") as caught:
        Database(url(path)).create()
    assert caught.value.code == "database-foreign"


@pytest.mark.parametrize(("version", "code"), [(99, "database-newer"), (0, "database-older")])
def test_other_schema_version_is_refused(tmp_path: Path, version: int, code: str) -> None:
    path = tmp_path / "dynid.sqlite3"
    Database(url(path)).create()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE dynid_schema SET version = ?", (version,))
    raw.close()
    with pytest.raises(StorageError, match=f"schema version {version}") as caught:
        Database(url(path)).create()
    assert caught.value.code == code


@pytest.mark.parametrize("bad", ["sqlite://", "sqlite:///:memory:", "not a url", "nosuchdialect://host/db"])
def test_unusable_urls_are_named(bad: str) -> None:
    with pytest.raises(StorageError) as caught:
        Database(bad)
    assert caught.value.code == "database-url-invalid"


def test_tables_can_be_made_in_postgresql() -> None:
    for table in Base.metadata.sorted_tables:
        assert str(CreateTable(table).compile(dialect=postgresql.dialect())).strip().startswith("CREATE TABLE")
        for index in table.indexes:
            assert "INDEX" in str(CreateIndex(index).compile(dialect=postgresql.dialect()))


def test_missing_database_and_unwritable_folder(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no database at"):
        Database(url(tmp_path / "absent.sqlite3")).verify()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make the folder"):
        Database(url(tmp_path / "file" / "dynid.sqlite3")).create()
