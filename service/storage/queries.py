"""What the table modules have in common: fetching by identifier, and paging from new to old."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, defer

from service.access import in_sight, robots_in_sight
from service.errors import NotFoundError
from service.storage.tables import Identified

Row = TypeVar("Row", bound=Identified)

DEFAULT_LIMIT = 100


def get(session: Session, kind: type[Row], noun: str, identifier: str) -> Row:
    """Return the row, or raise NotFoundError ``<noun>-not-found``, also for what is out of sight."""
    row = session.get(kind, identifier)
    if row is None or not in_sight(getattr(row, "robot", None)):
        raise NotFoundError(f"no {noun} {identifier!r}", code=f"{noun}-not-found", id=identifier)
    return row


def newest(
    session: Session,
    kind: type[Row],
    *conditions: ColumnElement[bool] | None,
    limit: int | None = DEFAULT_LIMIT,
    before: str | None = None,
    without: Sequence[InstrumentedAttribute[Any]] = (),
) -> list[Row]:
    """Return up to ``limit`` rows (None: all), newest first, older than the identifier ``before``.

    Identifiers sort by creation, so the last one of a page is the ``before`` of the next. Columns named in
    ``without`` are not fetched, and asking for them later is an error: fetch the row itself then.
    """
    query = select(kind).where(*(c for c in (*conditions, _in_sight(kind)) if c is not None))
    if before is not None:
        query = query.where(kind.id < before)
    query = query.options(*(defer(column, raiseload=True) for column in without))
    return list(session.scalars(query.order_by(kind.id.desc()).limit(limit)))


def _in_sight(kind: type[Identified]) -> ColumnElement[bool] | None:
    """A filter for what a request may see, left out when it may see all."""
    seen, robot = robots_in_sight(), getattr(kind, "robot", None)
    return None if seen is None or robot is None else or_(robot.is_(None), robot.in_(sorted(seen)))


def equals(column: Mapped[str] | Mapped[str | None], value: str | None) -> ColumnElement[bool] | None:
    """A filter that is left out when its value is."""
    return None if value is None else column == value
