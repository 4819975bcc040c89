"""Jobs: created queued, moved along the transition table, never deleted."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.errors import InputError
from service.errors import ConflictError
from service.storage import events, queries
from service.storage.identifiers import new_id
from service.storage.states import JOB_TRANSITIONS, JobState, check_transition
from service.storage.tables import Document, JobRow, utc_now

UNFINISHED = frozenset({JobState.QUEUED, JobState.RUNNING})


def create(
    session: Session,
    *,
    kind: str,
    request: Document,
    robot: str | None = None,
    idempotency_key: str | None = None,
) -> tuple[JobRow, bool]:
    """Add a queued job; return it and True, or the one already made with this key and False.

    Raises
    ------
    ConflictError
        ``idempotency-key-reused``: the key belongs to a different request.
    """
    if idempotency_key is not None:
        earlier = session.scalar(select(JobRow).where(JobRow.idempotency_key == idempotency_key))
        if earlier is not None:
            _require_same_request(earlier, kind, request, robot)
            return earlier, False
    row = JobRow(
        id=new_id("job"),
        kind=kind,
        robot=robot,
        state=JobState.QUEUED,
        progress=0.0,
        request=request,
        created_at=utc_now(),
        idempotency_key=idempotency_key,
    )
    session.add(row)
    _tell(session, row)
    return row, True


def get(session: Session, identifier: str) -> JobRow:
    """Return the job or raise NotFoundError ``job-not-found``."""
    return queries.get(session, JobRow, "job", identifier)


def find(
    session: Session,
    *,
    robot: str | None = None,
    kind: str | None = None,
    states: Collection[str] | None = None,
    limit: int = queries.DEFAULT_LIMIT,
    before: str | None = None,
) -> list[JobRow]:
    """Return jobs, newest first."""
    return queries.newest(
        session,
        JobRow,
        queries.equals(JobRow.robot, robot),
        queries.equals(JobRow.kind, kind),
        None if states is None else JobRow.state.in_(list(states)),
        limit=limit,
        before=before,
    )


def count_by_state(session: Session) -> dict[str, int]:
    """Return how many jobs are in each state that any is in."""
    query = select(JobRow.state, func.count()).group_by(JobRow.state)
    return dict(session.execute(query).tuples().all())


def transition(
    session: Session,
    identifier: str,
    state: JobState,
    *,
    result: Document | None = None,
    error: Document | None = None,
) -> JobRow:
    """Move the job to ``state``; stamps, progress and the log follow.

    Raises
    ------
    ConflictError
        ``job-state-conflict``: the transition table does not allow it.
    """
    row = get(session, identifier)
    check_transition("job", JOB_TRANSITIONS, identifier, row.state, state)
    row.state = state
    if state is JobState.RUNNING:
        row.started_at = utc_now()
    else:
        row.ended_at = utc_now()
    if state is JobState.SUCCEEDED:
        row.progress = 1.0
    row.result = row.result if result is None else result
    row.error = row.error if error is None else error
    _tell(session, row)
    return row


def set_progress(session: Session, identifier: str, *, phase: str | None, progress: float) -> JobRow:
    """Note how far a running job is, ``progress`` in 0..1. Not an event: it would flood the log."""
    if not 0.0 <= progress <= 1.0:
        raise InputError(f"progress lies between 0 and 1, got {progress}")
    row = get(session, identifier)
    if row.state != JobState.RUNNING:
        raise ConflictError(
            f"job {identifier} is {row.state}, only a running job makes progress",
            code="job-state-conflict",
            id=identifier,
            state=row.state,
        )
    row.phase, row.progress = phase, progress
    return row


def interrupt_unfinished(session: Session, detail: str) -> list[JobRow]:
    """Declare all queued and running jobs interrupted; for start-up, when nothing can be running."""
    unfinished = session.scalars(select(JobRow).where(JobRow.state.in_(sorted(UNFINISHED))).order_by(JobRow.id))
    error: Document = {"code": "job-interrupted", "detail": detail, "context": {}}
    return [transition(session, row.id, JobState.INTERRUPTED, error=error) for row in unfinished.all()]


def _require_same_request(earlier: JobRow, kind: str, request: Document, robot: str | None) -> None:
    if (earlier.kind, earlier.request, earlier.robot) != (kind, request, robot):
        raise ConflictError(
            f"idempotency key {earlier.idempotency_key!r} was used for a different request "
            f"(job {earlier.id}); take a new key",
            code="idempotency-key-reused",
            id=earlier.id,
        )


def _tell(session: Session, row: JobRow) -> None:
    code = f" ({row.error['code']})" if row.error and "code" in row.error else ""
    events.record(
        session,
        f"job.{row.state}",
        f"{row.kind} job {row.id} is {row.state}{code}",
        subject=row.id,
        robot=row.robot,
    )
