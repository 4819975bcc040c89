"""Trajectories by their definitions."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.storage import queries
from service.storage.documents import document_digest
from service.storage.identifiers import new_id
from service.storage.tables import Document, TrajectoryRow, utc_now


def create(
    session: Session,
    *,
    name: str,
    definition: Document,
    n_joints: int,
    duration: float,
    robot: str | None = None,
) -> TrajectoryRow:
    """Add a trajectory. Its digest is taken of the definition, so equal motions have equal digests."""
    row = TrajectoryRow(
        id=new_id("trj"),
        name=name,
        robot=robot,
        n_joints=n_joints,
        duration=duration,
        definition=definition,
        digest=document_digest(definition),
        created_at=utc_now(),
    )
    session.add(row)
    session.flush()
    return row


def get(session: Session, identifier: str) -> TrajectoryRow:
    """Return the trajectory or raise NotFoundError ``trajectory-not-found``."""
    return queries.get(session, TrajectoryRow, "trajectory", identifier)


def find(
    session: Session,
    *,
    robot: str | None = None,
    name: str | None = None,
    digest: str | None = None,
    limit: int = queries.DEFAULT_LIMIT,
    before: str | None = None,
) -> list[TrajectoryRow]:
    """Return trajectories, newest first."""
    return queries.newest(
        session,
        TrajectoryRow,
        queries.equals(TrajectoryRow.robot, robot),
        queries.equals(TrajectoryRow.name, name),
        queries.equals(TrajectoryRow.digest, digest),
        limit=limit,
        before=before,
    )
