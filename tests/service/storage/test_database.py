"""Opening, checking and sharing the database file."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import select

from core.errors import InputError
from service.errors import StorageError, StorageRefusedError
from service.storage import Database, EventRow, events, new_id, recordings, trajectories
from service.storage.migration import HEAD, steps_from
from service.storage.tables import RecordingRow, TrajectoryRow

WRITER = """
import sys
from service.storage import Database, counters, events
database = Database(sys.argv[1])
database.create()
for number in range(15):
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


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
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


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_processes_create_and_write_at_once(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    where = url(tmp_path / "dynid.sqlite3") if kind == "sqlite" else request.getfixturevalue("postgresql_url")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, where]) for _ in range(3)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    database = Database(where)
    with database.reading() as session:
        assert [row.details["number"] for row in events.find(session, limit=1000)] == list(range(1, 46))
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
    truncate = [] if database.name.endswith("sqlite3") else ["TRUNCATE events"]
    for statement in ("UPDATE events SET message = 'changed'", "DELETE FROM events", *truncate):
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
    with pytest.raises(StorageError, match=r"no such table|does not exist") as caught, database.session() as session:
        recordings.create(session, robot="cell1")
    assert caught.value.code == "storage-unusable"


def test_a_text_that_cannot_be_stored_is_told_from_a_database_that_cannot(database: Database) -> None:
    def store() -> None:
        with database.session() as session:
            trajectories.create(session, name="a\0b", definition={}, n_joints=1, duration=1.0)

    if database.name.startswith("postgresql"):
        with pytest.raises(InputError) as caught:
            store()
        assert caught.value.code == "text-invalid"
    else:
        store()  # SQLite takes it


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


def test_a_later_version_is_refused(database: Database) -> None:
    with database.session() as session:
        session.connection().exec_driver_sql("UPDATE dynid_migrations SET version_num = '9999'")
    for look in (database.create, database.verify):
        with pytest.raises(StorageError, match="schema version 9999") as caught:
            look()
        assert caught.value.code == "database-newer"


def old_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(Path(__file__).with_name("schema_1.sql").read_text())


def test_an_older_database_is_copied_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "dynid.sqlite3"
    old_database(path)
    database = Database(url(path))
    with pytest.raises(StorageError, match="start the service once") as caught:
        database.verify()
    assert caught.value.code == "database-older"
    database.create()
    database.verify()
    with database.reading() as session:
        assert [row.message for row in events.find(session)] == ["kept"]
    database.close()
    with closing(sqlite3.connect(tmp_path / "dynid.sqlite3.before-0002")) as copy:
        assert copy.execute("SELECT version FROM dynid_schema").fetchone() == (1,)
        assert copy.execute("SELECT message FROM events").fetchone() == ("kept",)


def test_the_steps_lead_to_the_tables_that_a_new_database_has(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("old", "new")]
    old_database(paths[0])
    schemas = []
    for path in paths:
        Database(url(path)).create()
        with closing(sqlite3.connect(path)) as raw:
            schemas.append({row[0]: columns(raw, row[0]) for row in raw.execute("SELECT name FROM sqlite_master")})
    assert schemas[0] == schemas[1]
    assert steps_from(HEAD) == 0


def columns(raw: sqlite3.Connection, name: str) -> list[tuple[object, ...]]:
    return [row[1:4] for row in raw.execute(f"PRAGMA table_info({name})")]


def test_a_step_that_fails_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dynid.sqlite3"
    old_database(path)

    def broken(table: str, dialect: str) -> list[str]:
        raise RuntimeError("no room")

    monkeypatch.setattr("service.storage.append_only.refuse_changes", broken)
    with pytest.raises(RuntimeError, match="no room"):
        Database(url(path)).create()
    with closing(sqlite3.connect(path)) as raw:
        names = {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "dynid_schema" in names
    assert not names & {"api_keys", "audit", "dynid_migrations"}


@pytest.mark.parametrize("bad", ["sqlite://", "sqlite:///:memory:", "not a url", "nosuchdialect://host/db"])
def test_unusable_urls_are_named(bad: str) -> None:
    with pytest.raises(StorageError) as caught:
        Database(bad)
    assert caught.value.code == "database-url-invalid"


def test_missing_database_and_unwritable_folder(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no database at"):
        Database(url(tmp_path / "absent.sqlite3")).verify()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make the folder"):
        Database(url(tmp_path / "file" / "dynid.sqlite3")).create()
