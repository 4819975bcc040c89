"""Recordings: the row that goes with each file in the data directory."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from sqlalchemy.orm import Session

from core.errors import InputError
from service.storage import events, queries
from service.storage.identifiers import new_id
from service.storage.states import RECORDING_TRANSITIONS, RecordingState, check_transition
from service.storage.tables import Document, RecordingRow, utc_now

FOLDER = "recordings"
"""Where recordings lie in the data directory."""


def create(
    session: Session,
    *,
    robot: str,
    job_id: str | None = None,
    model_digest: str | None = None,
    details: Document | None = None,
    identifier: str | None = None,
    path: str | None = None,
) -> RecordingRow:
    """Add a recording in state ``recording``, before its file is begun.

    ``path`` is relative to the data directory; ``recordings/<robot>/<id>.mcap`` by default.
    """
    identifier = identifier or new_id("rec")
    row = RecordingRow(
        id=identifier,
        robot=robot,
        state=RecordingState.RECORDING,
        path=_relative(path or f"{FOLDER}/{robot}/{identifier}.mcap"),
        started_at=utc_now(),
        job_id=job_id,
        model_digest=model_digest,
        details=details or {},
    )
    session.add(row)
    events.record(session, "recording.started", f"recording {identifier} of {robot}", subject=identifier, robot=robot)
    return row


def get(session: Session, identifier: str) -> RecordingRow:
    """Return the recording or raise NotFoundError ``recording-not-found``."""
    return queries.get(session, RecordingRow, "recording", identifier)


def find(
    session: Session,
    *,
    robot: str | None = None,
    state: str | None = None,
    job_id: str | None = None,
    limit: int | None = queries.DEFAULT_LIMIT,
    before: str | None = None,
) -> list[RecordingRow]:
    """Return recordings, newest first."""
    return queries.newest(
        session,
        RecordingRow,
        queries.equals(RecordingRow.robot, robot),
        queries.equals(RecordingRow.state, state),
        queries.equals(RecordingRow.job_id, job_id),
        limit=limit,
        before=before,
    )


def find_by_path(session: Session, path: str) -> RecordingRow | None:
    """Return the newest recording with this relative path, or None."""
    found = queries.newest(session, RecordingRow, RecordingRow.path == _relative(path), limit=1)
    return found[0] if found else None


def finish(
    session: Session,
    identifier: str,
    state: RecordingState,
    *,
    sha256: str,
    size: int,
    samples: int,
    lost: int,
    lapped: int,
    reason: str | None = None,
    details: Document | None = None,
) -> RecordingRow:
    """Enter what the finished file holds; ``state`` is ``complete`` or ``salvaged``.

    Raises
    ------
    ConflictError
        ``recording-state-conflict``: it has been finished already.
    """
    row = get(session, identifier)
    check_transition("recording", RECORDING_TRANSITIONS, identifier, row.state, state)
    row.state, row.reason, row.ended_at = state, reason, utc_now()
    row.sha256, row.bytes, row.samples, row.lost, row.lapped = sha256, size, samples, lost, lapped
    row.details = {**row.details, **(details or {})}
    note = f": {reason}" if reason else ""
    events.record(
        session,
        f"recording.{state}",
        f"recording {identifier} is {state}, {samples} samples, {lost} lost, {lapped} overwritten{note}",
        subject=identifier,
        robot=row.robot,
        samples=samples,
        lost=lost,
        lapped=lapped,
    )
    return row


def fail(session: Session, identifier: str, reason: str) -> RecordingRow:
    """Declare the recording failed; what file there is stays where it is."""
    row = get(session, identifier)
    check_transition("recording", RECORDING_TRANSITIONS, identifier, row.state, RecordingState.FAILED)
    row.state, row.reason, row.ended_at = RecordingState.FAILED, reason, utc_now()
    events.record(
        session,
        "recording.failed",
        f"recording {identifier} failed: {reason}",
        subject=identifier,
        robot=row.robot,
    )
    return row


def remove(session: Session, identifier: str, reason: str) -> RecordingRow:
    """Enter that the file is deleted, which comes after it."""
    row = get(session, identifier)
    check_transition("recording", RECORDING_TRANSITIONS, identifier, row.state, RecordingState.REMOVED)
    row.state, row.reason = RecordingState.REMOVED, reason
    events.record(
        session,
        "recording.removed",
        f"recording {identifier} is removed: {reason}",
        subject=identifier,
        robot=row.robot,
    )
    return row


def file_of(data_dir: Path, row: RecordingRow) -> Path:
    """Where the recording's file is (or, while it is written, will be)."""
    return data_dir / row.path


def _relative(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.name:
        raise InputError(
            f"a recording's path must lie inside the data directory and be relative to it, got {path!r}",
            path=path,
        )
    return str(pure)
