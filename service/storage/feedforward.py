"""Feedforward tables, numbered per robot."""

from __future__ import annotations

import zlib

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import InputError
from service.storage import counters, events, queries, results, trajectories
from service.storage.identifiers import new_id
from service.storage.tables import Document, FeedforwardTableRow, utc_now

_FLOAT32 = 4


def create(
    session: Session,
    *,
    result_id: str,
    trajectory_id: str,
    cycle_time: float,
    samples: int,
    n_joints: int,
    crc32: int,
    digest: str,
    torque: bytes,
    current: bytes | None,
    document: Document,
) -> FeedforwardTableRow:
    """Add a table under the robot's next version number.

    What the result was judged by (recordings, criteria) is added to ``document``, so that the table tells it by
    itself, whatever becomes of the result.

    Raises
    ------
    ConflictError
        ``result-not-validated``: tables are built only from a validated result or the one in force, and only
        while its last validation was passed.
    InputError
        The bytes do not have the stated size or checksum.
    """
    result = results.get(session, result_id)
    results.require_usable(result)
    validation = result.validation or {}
    trajectories.get(session, trajectory_id)
    _check_bytes(torque, current, samples * n_joints * _FLOAT32, crc32)
    row = FeedforwardTableRow(
        id=new_id("fft"),
        robot=result.robot,
        version=counters.next_value(session, f"feedforward/{result.robot}"),
        result_id=result_id,
        trajectory_id=trajectory_id,
        cycle_time=cycle_time,
        samples=samples,
        n_joints=n_joints,
        crc32=crc32,
        digest=digest,
        torque=torque,
        current=current,
        document={**document, "validation": {k: v for k, v in validation.items() if k != "report"}},
        created_at=utc_now(),
    )
    session.add(row)
    session.flush()
    events.record(
        session,
        "feedforward.created",
        f"feedforward table {row.id}, version {row.version} of {row.robot}",
        subject=row.id,
        robot=row.robot,
        result_id=result_id,
        trajectory_id=trajectory_id,
    )
    return row


def get(session: Session, identifier: str) -> FeedforwardTableRow:
    """Return the table or raise NotFoundError ``feedforward-table-not-found``."""
    return queries.get(session, FeedforwardTableRow, "feedforward-table", identifier)


def latest(session: Session, robot: str, trajectory_id: str | None = None) -> FeedforwardTableRow | None:
    """Return the robot's table of the highest version, of one trajectory where given; or None."""
    query = select(FeedforwardTableRow).where(FeedforwardTableRow.robot == robot)
    if trajectory_id is not None:
        query = query.where(FeedforwardTableRow.trajectory_id == trajectory_id)
    return session.scalar(query.order_by(FeedforwardTableRow.version.desc()).limit(1))


def latest_id(session: Session, robot: str) -> str | None:
    """Return the identifier of the robot's table of the highest version; None without any."""
    query = select(FeedforwardTableRow.id).where(FeedforwardTableRow.robot == robot)
    return session.scalar(query.order_by(FeedforwardTableRow.version.desc()).limit(1))


def find(
    session: Session,
    *,
    robot: str | None = None,
    result_id: str | None = None,
    trajectory_id: str | None = None,
    limit: int = queries.DEFAULT_LIMIT,
    before: str | None = None,
) -> list[FeedforwardTableRow]:
    """Return tables, newest first, without their bytes."""
    return queries.newest(
        session,
        FeedforwardTableRow,
        queries.equals(FeedforwardTableRow.robot, robot),
        queries.equals(FeedforwardTableRow.result_id, result_id),
        queries.equals(FeedforwardTableRow.trajectory_id, trajectory_id),
        limit=limit,
        before=before,
        without=(FeedforwardTableRow.torque, FeedforwardTableRow.current),
    )


def _check_bytes(torque: bytes, current: bytes | None, expected: int, crc32: int) -> None:
    for name, data in (("torque", torque), ("current", current)):
        if data is not None and len(data) != expected:
            raise InputError(f"feedforward table: {name} has {len(data)} bytes, expected {expected}")
    found = zlib.crc32(torque)
    if found != crc32:
        raise InputError(f"feedforward table: checksum {crc32:#010x} stated, the bytes have {found:#010x}")
