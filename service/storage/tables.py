"""The tables. Types are portable (SQLite now, PostgreSQL by URL); JSON columns are replaced, never edited."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    DDL,
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from service.storage.append_only import refuse_changes
from service.storage.migration import VERSION_TABLE

Document = dict[str, Any]


def utc_now() -> datetime:
    return datetime.now(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time. SQLite keeps no time zone, so UTC goes in and aware UTC comes out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a point in time needs its time zone, got {value.isoformat()}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        Document: JSON(none_as_null=True),
        list[str]: JSON(none_as_null=True),
        datetime: UtcDateTime,
        str: String(255),
    }


_Identifier = String(64).with_variant(String(64, collation="C"), "postgresql")
"""Compared byte by byte everywhere, as identifiers are made to sort."""


class Identified(Base):
    """A row that is known by an identifier of `new_id`, which sorts by creation."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(_Identifier, primary_key=True, sort_order=-1)


class VersionRow(Base):
    """One row: which version of these tables the database holds, as Alembic keeps it. It marks a database as ours."""

    __tablename__ = VERSION_TABLE

    version_num: Mapped[str] = mapped_column(String(32), primary_key=True)


class RecordingRow(Identified):
    """A recorded file. ``path`` is relative to the data directory, so that the directory can be moved."""

    __tablename__ = "recordings"

    robot: Mapped[str] = mapped_column(index=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    reason: Mapped[str | None] = mapped_column(Text)
    path: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str | None] = mapped_column(String(64))
    bytes: Mapped[int | None] = mapped_column(BigInteger)
    samples: Mapped[int | None] = mapped_column(BigInteger)
    lost: Mapped[int | None] = mapped_column(BigInteger)  # never sent or received: gaps in the sequence
    lapped: Mapped[int | None] = mapped_column(BigInteger)  # overwritten in the ring before they were read
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"), index=True)
    model_digest: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[Document]


class TrajectoryRow(Identified):
    """A motion by its definition, from which it is sampled when needed."""

    __tablename__ = "trajectories"

    name: Mapped[str]
    robot: Mapped[str | None] = mapped_column(index=True)
    n_joints: Mapped[int]
    duration: Mapped[float] = mapped_column(Float(53))  # s
    definition: Mapped[Document]
    digest: Mapped[str] = mapped_column(String(64), index=True)
    created_at: Mapped[datetime]


class JobRow(Identified):
    """A job; ``error`` is a problem: code, detail, context."""

    __tablename__ = "jobs"

    kind: Mapped[str] = mapped_column(String(32))
    robot: Mapped[str | None] = mapped_column(index=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    phase: Mapped[str | None]
    progress: Mapped[float] = mapped_column(Float(53))  # 0..1
    request: Mapped[Document]
    result: Mapped[Document | None]
    error: Mapped[Document | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    idempotency_key: Mapped[str | None] = mapped_column(unique=True)


class ResultRow(Identified):
    """An identification. ``document`` is the whole of it, model included, and stands alone."""

    __tablename__ = "results"
    __table_args__ = (
        Index(
            "one_active_result_per_robot",
            "robot",
            unique=True,
            sqlite_where=text("state = 'active'"),
            postgresql_where=text("state = 'active'"),
        ),
    )

    robot: Mapped[str] = mapped_column(index=True)
    kind: Mapped[str] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16), index=True)
    recording_ids: Mapped[list[str]]
    settings: Mapped[Document]
    document: Mapped[Document]
    validation: Mapped[Document | None]
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"))
    created_at: Mapped[datetime]
    activated_at: Mapped[datetime | None]
    supersedes_id: Mapped[str | None] = mapped_column(ForeignKey("results.id"))  # what roll-back returns to


class FeedforwardTableRow(Identified):
    """Torque and current of one trajectory at the controller's cycle, float32 little endian, row-major."""

    __tablename__ = "feedforward_tables"
    __table_args__ = (UniqueConstraint("robot", "version"),)

    robot: Mapped[str] = mapped_column(index=True)
    version: Mapped[int]  # counts per robot, from 1
    result_id: Mapped[str] = mapped_column(ForeignKey("results.id"), index=True)
    trajectory_id: Mapped[str] = mapped_column(ForeignKey("trajectories.id"), index=True)
    cycle_time: Mapped[float] = mapped_column(Float(53))  # s
    samples: Mapped[int]
    n_joints: Mapped[int]
    crc32: Mapped[int] = mapped_column(BigInteger)  # of ``torque``
    digest: Mapped[str] = mapped_column(String(64))
    torque: Mapped[bytes] = mapped_column(LargeBinary)  # N·m
    current: Mapped[bytes | None] = mapped_column(LargeBinary)  # A; None without drive gains
    document: Mapped[Document]
    created_at: Mapped[datetime]


class EventRow(Base):
    """What happened, in order. Append-only: the database itself refuses changes."""

    __tablename__ = "events"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 - SQLAlchemy's own declaration

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(64), index=True)
    subject: Mapped[str | None] = mapped_column(_Identifier, index=True)
    robot: Mapped[str | None]
    message: Mapped[str] = mapped_column(Text)
    details: Mapped[Document]


class ApiKeyRow(Identified):
    """Who may do what. Of the key itself only the SHA-256 is kept; ``robots`` None stands for all."""

    __tablename__ = "api_keys"

    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str] = mapped_column(String(16))
    robots: Mapped[list[str] | None]
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime]
    created_by: Mapped[str]
    revoked_at: Mapped[datetime | None]


class AuditRow(Base):
    """Who asked for what, and what came of it. Append-only, each row chained to the one before by its hash."""

    __tablename__ = "audit"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 - SQLAlchemy's own declaration

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    at: Mapped[datetime]
    principal: Mapped[str] = mapped_column(index=True)
    action: Mapped[str]
    robot: Mapped[str | None] = mapped_column(index=True)
    request_id: Mapped[str] = mapped_column(String(64))
    details: Mapped[Document]
    chain: Mapped[str] = mapped_column(String(64))


class CounterRow(Base):
    """Numbers that only grow, also across restarts: lease fencing, table versions."""

    __tablename__ = "counters"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int] = mapped_column(BigInteger)


for _name in (EventRow.__tablename__, AuditRow.__tablename__):
    for _dialect in ("sqlite", "postgresql"):
        for _statement in refuse_changes(_name, _dialect):
            _ddl = DDL(_statement).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call]
            event.listen(Base.metadata.tables[_name], "after_create", _ddl)
