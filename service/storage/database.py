"""The connection to the database: how it is opened, checked and used in transactions.

Called from threads and from several processes at once. A writing session takes SQLite's write lock when it
begins (``BEGIN IMMEDIATE``), so that two writers queue up; with SQLite's default they would both read first
and one would then fail at once, whatever its timeout. Reading sessions see one snapshot and block nobody.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from core.errors import DynidError
from service.errors import StorageError, StorageRefusedError
from service.storage.documents import to_json
from service.storage.tables import Base, SchemaVersionRow

SCHEMA_VERSION = 1
"""Goes up with every change of the tables; a migration takes a database from one version to the next."""

BUSY_TIMEOUT_MS = 15_000
"""How long a writer waits for another one: far longer than any transaction here takes."""

PASSING = (OperationalError, InternalError, PoolTimeoutError)
"""Locked, full, not reachable: what is wrong with the database, not with what it was asked for."""


class Database:
    """One per process. Opens nothing before it is first used.

    Parameters
    ----------
    url : SQLAlchemy URL, e.g. ``sqlite:////var/lib/dynid/dynid.sqlite3``.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
            self._file = _sqlite_file(parsed.database) if parsed.get_backend_name() == "sqlite" else None
            self._engine = create_engine(parsed, json_serializer=to_json)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise StorageError(
                f"cannot use database_url: {error}; give a SQLAlchemy URL whose driver is installed",
                code="database-url-invalid",
            ) from error
        self.name = str(self._file) if self._file else parsed.render_as_string(hide_password=True)
        self._reader = self._engine.execution_options(read_only=True)
        if self._file:
            event.listen(self._engine, "connect", _configure_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)

    def create(self) -> None:
        """Make the tables in an empty database; in one that has them, check that they are ours and current.

        Raises
        ------
        StorageError
            ``database-foreign`` (another program's), ``database-newer`` (a later dynid's),
            ``database-older`` (needs a migration), ``storage-unusable`` (cannot be opened or written).
        """
        if self._file:
            self._prepare_file(self._file)
        with self._explained(), self._engine.begin() as connection:
            if not inspect(connection).get_table_names():
                Base.metadata.create_all(connection)
                connection.execute(insert(SchemaVersionRow).values(id=1, version=SCHEMA_VERSION))
            self._check_version(connection)

    def verify(self) -> None:
        """Check version and ownership without creating anything. Raises as `create` does."""
        if self._file and not self._file.is_file():
            raise StorageError(f"no database at {self.name}", path=self.name)
        with self._explained(), self._reader.begin() as connection:
            self._check_version(connection)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction that may write: committed at the end, rolled back on any exception.

        Rows stay usable after it, as they were when it ended.

        Raises
        ------
        StorageError
            The database cannot be used now.
        StorageRefusedError
            It does not take what was written.
        """
        with self._explained(), Session(self._engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view of the database that takes no lock. Writing in it is an error."""
        with self._explained(), Session(self._reader, expire_on_commit=False) as session:
            event.listen(session, "before_flush", _refuse_flush)
            yield session

    def close(self) -> None:
        """Close all connections; the object opens new ones if it is used again."""
        self._engine.dispose()

    def _prepare_file(self, file: Path) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder of {file}: {error}", path=str(file)) from error
        # WAL is a property of the file and changing to it ignores the busy timeout, so it is not set per
        # connection: in a transaction of its own, repeated while another process does the same.
        with self._explained():
            for _ in range(BUSY_TIMEOUT_MS // 50):
                connection = sqlite3.connect(file, timeout=0.05, isolation_level=None)
                try:
                    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                        return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                        raise
                finally:
                    connection.close()
        raise StorageError(f"{file} stays locked by another program", code="database-locked", path=str(file))

    def _check_version(self, connection: Connection) -> None:
        if SchemaVersionRow.__tablename__ not in inspect(connection).get_table_names():
            raise StorageError(
                f"{self.name} is not a dynid database; give another database_url or data_dir",
                code="database-foreign",
                path=self.name,
            )
        found = connection.scalar(select(SchemaVersionRow.version))
        if found == SCHEMA_VERSION:
            return
        newer = found is None or found > SCHEMA_VERSION
        advice = "update dynid" if newer else "migrate it first"
        raise StorageError(
            f"{self.name} has schema version {found}, this dynid works with {SCHEMA_VERSION}; {advice}",
            code="database-newer" if newer else "database-older",
            path=self.name,
            found=found,
            expected=SCHEMA_VERSION,
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            if isinstance(cause, DynidError):  # raised while a value was being stored
                raise cause from error
            if _is_not_a_database(cause):
                raise self._not_a_database() from error
            kind = StorageError if isinstance(error, PASSING) else StorageRefusedError
            raise kind(f"database {self.name}: {cause or error}", path=self.name) from error
        except sqlite3.DatabaseError as error:
            if _is_not_a_database(error):
                raise self._not_a_database() from error
            raise StorageError(f"database {self.name}: {error}", path=self.name) from error

    def _not_a_database(self) -> StorageError:
        return StorageError(
            f"{self.name} is not a SQLite database; give another database_url or data_dir",
            code="database-foreign",
            path=self.name,
        )


def _sqlite_file(database: str | None) -> Path:
    if not database or database == ":memory:" or database.startswith("file:"):
        raise StorageError(
            "database_url must name a SQLite file: a database in memory would forget the recordings",
            code="database-url-invalid",
        )
    return Path(database).absolute()


def _is_not_a_database(error: BaseException | None) -> bool:
    # Errors of the module itself, not of SQLite, have no code.
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver's own rules
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    read_only = connection.get_execution_options().get("read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _refuse_flush(session: Session, *_: object) -> None:
    if session.new or session.dirty or session.deleted:
        raise RuntimeError("a reading session cannot write; use Database.session()")
