"""The append-only log of what happened."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.storage.queries import DEFAULT_LIMIT
from service.storage.tables import EventRow, utc_now


def record(
    session: Session,
    /,
    kind: str,
    message: str,
    *,
    subject: str | None = None,
    robot: str | None = None,
    **details: Any,
) -> EventRow:
    """Add one event in the transaction of what it tells about.

    Parameters
    ----------
    kind : dotted, stable, e.g. ``recording.salvaged``.
    message : for a person.
    subject : identifier of the row it is about.
    details : JSON-serialisable.
    """
    row = EventRow(at=utc_now(), kind=kind, subject=subject, robot=robot, message=message, details=details)
    session.add(row)
    return row


def find(
    session: Session,
    *,
    after: int = 0,
    kind: str | None = None,
    subject: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> list[EventRow]:
    """Return events in the order they happened, those numbered above ``after``."""
    query = select(EventRow).where(EventRow.id > after)
    if kind is not None:
        query = query.where(EventRow.kind == kind)
    if subject is not None:
        query = query.where(EventRow.subject == subject)
    return list(session.scalars(query.order_by(EventRow.id).limit(limit)))
