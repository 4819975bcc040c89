"""API keys: names, roles, robots and digests. The keys themselves are nowhere."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import InputError
from service.access import Principal, Role, key_digest, new_key
from service.errors import ConflictError
from service.storage import queries
from service.storage.identifiers import new_id
from service.storage.tables import ApiKeyRow, utc_now


def create(
    session: Session, *, name: str, role: Role, robots: Collection[str] | None, created_by: str
) -> tuple[ApiKeyRow, str]:
    """Add a key; return its row, and the key itself for the only time.

    Raises
    ------
    ConflictError
        ``key-exists``: the name is taken, by a revoked key too: the audit names keys.
    InputError
        ``key-without-robots``: an empty list, which would see nothing.
    """
    if robots is not None and not robots:
        raise InputError("a key for no robot sees nothing; name robots, or none to mean all", code="key-without-robots")
    if session.scalar(select(ApiKeyRow.id).where(ApiKeyRow.name == name)) is not None:
        raise ConflictError(f"there is or was a key named {name!r}; take another name", code="key-exists", name=name)
    key = new_key()
    row = ApiKeyRow(
        id=new_id("key"),
        name=name,
        role=str(role),
        robots=None if robots is None else sorted(robots),
        digest=key_digest(key),
        created_at=utc_now(),
        created_by=created_by,
        revoked_at=None,
    )
    session.add(row)
    session.flush()
    return row, key


def revoke(session: Session, identifier: str) -> ApiKeyRow:
    """End a key's use; doing it again changes nothing. Raises NotFoundError ``key-not-found``."""
    row = queries.get(session, ApiKeyRow, "key", identifier)
    row.revoked_at = row.revoked_at or utc_now()
    return row


def named(session: Session, name: str) -> ApiKeyRow | None:
    return session.scalar(select(ApiKeyRow).where(ApiKeyRow.name == name))


def find(session: Session, *, limit: int = queries.DEFAULT_LIMIT, before: str | None = None) -> list[ApiKeyRow]:
    """Return keys, newest first."""
    return queries.newest(session, ApiKeyRow, limit=limit, before=before)


def principals(session: Session) -> dict[str, Principal]:
    """Return whom each key that is in use stands for, by its digest."""
    rows = session.scalars(select(ApiKeyRow).where(ApiKeyRow.revoked_at.is_(None)))
    return {
        row.digest: Principal(row.name, Role(row.role), None if row.robots is None else frozenset(row.robots))
        for row in rows
    }
