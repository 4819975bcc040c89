"""The audit: who asked for what, in a chain of hashes that shows whether a row was changed or taken out.

Each row's ``chain`` is the SHA-256 of the one before and of its own content. Whoever can write to the database can
recompute all of it, so the newest hash belongs into backups and logs that others keep: it seals what came before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.storage import queries
from service.storage.documents import document_digest
from service.storage.tables import AuditRow, utc_now

START = "0" * 64
_AT_ONCE = 500


def record(
    session: Session, *, principal: str, action: str, robot: str | None, request_id: str, **details: Any
) -> AuditRow:
    """Add a row behind the last one. Writers queue up, so the chain never forks."""
    last = session.scalar(select(AuditRow.chain).order_by(AuditRow.id.desc()).limit(1))
    row = AuditRow(
        at=utc_now(), principal=principal, action=action, robot=robot, request_id=request_id, details=details, chain=""
    )
    row.chain = _link(last or START, row)
    session.add(row)
    session.flush()
    return row


def find(
    session: Session, *, robot: str | None = None, limit: int = queries.DEFAULT_LIMIT, before: int | None = None
) -> list[AuditRow]:
    """Return rows, newest first, numbered below ``before``."""
    query = select(AuditRow)
    if robot is not None:
        query = query.where(AuditRow.robot == robot)
    if before is not None:
        query = query.where(AuditRow.id < before)
    return list(session.scalars(query.order_by(AuditRow.id.desc()).limit(limit)))


def first_broken(session: Session) -> int | None:
    """Return the number of the first row that does not continue the one before; None where all do."""
    chain = START
    for row in _all(session):
        chain = _link(chain, row)
        if row.chain != chain:
            return row.id
    return None


def newest(session: Session) -> tuple[int, str]:
    """Return number and hash of the newest row; 0 and zeros for an empty audit."""
    row = session.execute(select(AuditRow.id, AuditRow.chain).order_by(AuditRow.id.desc()).limit(1)).first()
    return (0, START) if row is None else (row.id, row.chain)


def _all(session: Session) -> Iterator[AuditRow]:
    after = 0
    while rows := list(
        session.scalars(select(AuditRow).where(AuditRow.id > after).order_by(AuditRow.id).limit(_AT_ONCE))
    ):
        yield from rows
        after = rows[-1].id
        session.expunge_all()


def _link(before: str, row: AuditRow) -> str:
    content = {
        "at": row.at.isoformat(),
        "principal": row.principal,
        "action": row.action,
        "robot": row.robot,
        "request_id": row.request_id,
        "details": row.details,
    }
    return hashlib.sha256((before + document_digest(content)).encode()).hexdigest()
