"""The connection to the database: how it is opened, checked and used in transactions.

Called from threads and from several processes at once. A writing session takes SQLite's write lock when it
begins (``BEGIN IMMEDIATE``), so that two writers queue up; with SQLite's default they would both read first
and one would then fail at once, whatever its timeout. On PostgreSQL an advisory lock does the same. Reading sessions
see one snapshot and block nobody.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, event, func, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from core.errors import DynidError, InputError
from service.errors import StorageError, StorageRefusedError
from service.storage.documents import to_json
from service.storage.migration import HEAD, steps_from, upgrade, version_of
from service.storage.tables import Base, VersionRow

log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 15_000
"""How long a writer waits for another one: far longer than any transaction here takes."""

_WRITERS = 0x64796E6964
"""The advisory lock that writers to PostgreSQL queue up for: "dynid" in bytes."""

_UNDEFINED_TABLE = "42P01"  # of PostgreSQL; SQLite's error is an OperationalError

_ADDED = "added"
"""Where a session keeps the kinds of rows that it adds."""

_UNSPEAKABLE = frozenset({"22021", "22P05"})

PASSING = (OperationalError, InternalError, PoolTimeoutError)
"""Locked, full, not reachable: what is wrong with the database, not with what it was asked for."""


class Database:
    """One per process. Opens nothing before it is first used.

    Parameters
    ----------
    url : SQLAlchemy URL, e.g. ``sqlite:////var/lib/dynid/dynid.sqlite3`` or ``postgresql://dynid@db/dynid``.
    """

    def __init__(self, url: str) -> None:
        self._added: Counter[type[Base]] = Counter()
        try:
            parsed = make_url(url)
            if parsed.drivername == "postgresql":
                parsed = parsed.set(drivername="postgresql+psycopg")
            self._file = _sqlite_file(parsed.database) if parsed.get_backend_name() == "sqlite" else None
            self._engine = create_engine(parsed, json_serializer=to_json)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise StorageError(
                f"cannot use database_url: {error}; give sqlite:////PATH or postgresql://USER@HOST/NAME (the latter "
                "needs pip install 'dynid[postgresql]')",
                code="database-url-invalid",
            ) from error
        if self._engine.dialect.name not in ("sqlite", "postgresql"):
            raise StorageError(
                f"database_url: {self._engine.dialect.name} is neither sqlite nor postgresql",
                code="database-url-invalid",
            )
        self.name = str(self._file) if self._file else parsed.render_as_string(hide_password=True)
        if self._file:
            self._reader = self._engine.execution_options(read_only=True)
            event.listen(self._engine, "connect", _configure_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        else:
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def create(self) -> None:
        """Make the tables in an empty database; bring an older one to the present version.

        Of a SQLite file that is older a copy is kept beside it, ``<name>.before-<version>``.

        Raises
        ------
        StorageError
            ``database-foreign`` (another program's), ``database-newer`` (a later dynid's), ``storage-unusable``
            (cannot be opened or written).
        """
        if self._file:
            self._prepare_file(self._file)
        with self._explained(), self._engine.begin() as connection:
            self._one_at_a_time(connection)
            if not inspect(connection).get_table_names():
                Base.metadata.create_all(connection)
                connection.execute(insert(VersionRow).values(version_num=HEAD))
            elif self._is_older(connection):
                self._keep_copy(connection)
                upgrade(connection)
            self._check_version(connection)

    def verify(self) -> None:
        """Check version and ownership without changing anything.

        Raises
        ------
        StorageError
            As `create`, or ``database-older``: it is still to be brought to the present version.
        """
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
        InputError
            ``text-invalid``: a text has a character that it cannot store.
        """
        with self._explained(), Session(self._engine, expire_on_commit=False) as session, session.begin():
            self._one_at_a_time(session.connection())
            event.listen(session, "after_flush", _note_added)
            event.listen(session, "after_commit", self._count_added)
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view of the database that takes no lock. Writing in it is an error."""
        with self._explained(), Session(self._reader, expire_on_commit=False) as session:
            event.listen(session, "before_flush", _refuse_flush)
            yield session

    def added(self, kind: type[Base]) -> int:
        """Return a number that grows whenever this object has committed new rows of a kind.

        While it stands, there are no others than before, unless another process has made them.
        """
        return self._added[kind]

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

    def _count_added(self, session: Session) -> None:
        self._added.update(session.info.get(_ADDED, ()))  # two at once may count as one: another number all the same

    def _is_older(self, connection: Connection) -> bool:
        version = version_of(connection)
        return version is not None and version != HEAD and steps_from(version) is not None

    def _check_version(self, connection: Connection) -> None:
        version = version_of(connection)
        if version is None:
            raise StorageError(
                f"{self.name} is not a dynid database; give another database_url or data_dir",
                code="database-foreign",
                path=self.name,
            )
        if version == HEAD:
            return
        older = self._is_older(connection)
        advice = "start the service once, which brings it up to date" if older else "update dynid"
        raise StorageError(
            f"{self.name} has schema version {version or 'unknown'}, this dynid works with {HEAD}; {advice}",
            code="database-older" if older else "database-newer",
            path=self.name,
            found=version,
            expected=HEAD,
        )

    def _keep_copy(self, connection: Connection) -> None:
        """Copy a SQLite file before its tables change; of a server's database whoever runs the server has one."""
        if self._file is None:
            return
        copy = self._file.with_name(f"{self._file.name}.before-{HEAD}")
        scratch = copy.with_name(f".{copy.name}")
        try:
            # Nobody writes meanwhile: the lock that this transaction began with is held.
            with closing(sqlite3.connect(self._file)) as source, closing(sqlite3.connect(scratch)) as target:
                source.backup(target)
            scratch.replace(copy)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"cannot keep a copy of {self._file} before its tables change: {error}", path=str(copy)
            ) from error
        log.info("%s is brought to version %s; as it was it lies in %s", self._file, HEAD, copy)

    def _one_at_a_time(self, connection: Connection) -> None:
        """Let writers queue up where the database would not: what they read must not change before they write."""
        if self._file is None:
            connection.execute(select(func.pg_advisory_xact_lock(_WRITERS)))

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
            if _is_unspeakable(cause):
                raise InputError(f"a text cannot be stored: {cause}", code="text-invalid") from error
            passing = isinstance(error, PASSING) or _lacks_a_table(cause)
            kind = StorageError if passing else StorageRefusedError
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


def _lacks_a_table(error: BaseException | None) -> bool:
    return getattr(error, "sqlstate", None) == _UNDEFINED_TABLE


def _is_unspeakable(error: BaseException | None) -> bool:
    """Whether PostgreSQL does not take a text because of its characters: NUL, of which psycopg says so itself."""
    return getattr(error, "sqlstate", None) in _UNSPEAKABLE or "NUL (0x00)" in str(error)


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver's own rules
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    read_only = connection.get_execution_options().get("read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _note_added(session: Session, _: object) -> None:
    session.info.setdefault(_ADDED, set()).update(type(row) for row in session.new)


def _refuse_flush(session: Session, *_: object) -> None:
    if session.new or session.dirty or session.deleted:
        raise RuntimeError("a reading session cannot write; use Database.session()")
