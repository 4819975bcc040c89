"""Identification results and which of them is in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.errors import ConflictError
from service.storage import events, queries
from service.storage.identifiers import new_id
from service.storage.states import RESULT_TRANSITIONS, ResultState, check_transition
from service.storage.tables import Document, ResultRow, utc_now

USABLE = frozenset({ResultState.VALIDATED, ResultState.ACTIVE})
"""States from which a feedforward table may be built, as long as the last validation was passed."""

AFTER_VALIDATION: Mapping[tuple[str, bool], ResultState] = {
    (ResultState.CANDIDATE, True): ResultState.VALIDATED,
    (ResultState.VALIDATED, False): ResultState.CANDIDATE,
}
"""What a verdict makes of a result in a state; all others keep theirs."""


def create(
    session: Session,
    *,
    robot: str,
    recording_ids: Sequence[str],
    settings: Document,
    document: Document,
    job_id: str | None = None,
    kind: str = "identification",
) -> ResultRow:
    """Add a candidate."""
    row = ResultRow(
        id=new_id("res"),
        robot=robot,
        kind=kind,
        state=ResultState.CANDIDATE,
        recording_ids=list(recording_ids),
        settings=settings,
        document=document,
        job_id=job_id,
        created_at=utc_now(),
    )
    session.add(row)
    session.flush()
    _tell(session, row, f"{kind} {row.id} of {robot} is a candidate")
    return row


def get(session: Session, identifier: str) -> ResultRow:
    """Return the result or raise NotFoundError ``result-not-found``."""
    return queries.get(session, ResultRow, "result", identifier)


def get_active(session: Session, robot: str) -> ResultRow | None:
    """Return the robot's result in force, or None."""
    return session.scalar(select(ResultRow).where(ResultRow.robot == robot, ResultRow.state == ResultState.ACTIVE))


def find(
    session: Session,
    *,
    robot: str | None = None,
    state: str | None = None,
    limit: int = queries.DEFAULT_LIMIT,
    before: str | None = None,
) -> list[ResultRow]:
    """Return results, newest first, without their (large) documents."""
    return queries.newest(
        session,
        ResultRow,
        queries.equals(ResultRow.robot, robot),
        queries.equals(ResultRow.state, state),
        limit=limit,
        before=before,
        without=(ResultRow.document,),
    )


def set_validation(session: Session, identifier: str, validation: Document) -> ResultRow:
    """Store the verdict of a validation, whose ``passed`` moves the result; see `ResultState`."""
    row = get(session, identifier)
    row.validation = validation
    verdict = "passed" if validation["passed"] else "did not pass"
    message = f"result {identifier} ({row.state}) {verdict} its validation"
    after = AFTER_VALIDATION.get((row.state, validation["passed"]))
    if after is None:
        events.record(session, "result.checked", message, subject=identifier, robot=row.robot)
    else:
        _move(session, row, after, message)
    return row


def require_usable(row: ResultRow) -> None:
    """Raise ConflictError ``result-not-validated`` unless a feedforward table may be built from the result."""
    if row.state not in USABLE or not _passed(row):
        failed = ", and did not pass its last validation" if row.validation and not _passed(row) else ""
        raise ConflictError(
            f"result {row.id} is {row.state}{failed}; a feedforward table needs one that is validated or active "
            "and passed its last validation",
            code="result-not-validated",
            id=row.id,
            state=row.state,
        )


def activate(session: Session, identifier: str) -> ResultRow:
    """Put the result in force; the robot's present one is superseded in the same transaction.

    Raises
    ------
    ConflictError
        ``result-not-validated`` unless it passed its last validation, ``result-state-conflict`` for the one in
        force already.
    """
    row = get(session, identifier)
    if row.state != ResultState.ACTIVE and not _passed(row):
        raise ConflictError(
            f"result {identifier} has not passed a validation, or not its last one; validate it on another "
            "recording first",
            code="result-not-validated",
            id=identifier,
            state=row.state,
        )
    check_transition("result", RESULT_TRANSITIONS, identifier, row.state, ResultState.ACTIVE)
    row.supersedes_id = _supersede_active(session, row.robot, identifier)
    return _put_in_force(session, row, f"result {identifier} is in force for {row.robot}")


def roll_back(session: Session, robot: str) -> ResultRow:
    """Put the result in force that the present one superseded, and return it.

    Each call undoes one activation, so that calling it again goes further back.

    Raises
    ------
    ConflictError
        ``nothing-to-roll-back``: no result is in force, or it is the first one.
    """
    present = get_active(session, robot)
    if present is None or present.supersedes_id is None:
        what = "no result is in force" if present is None else f"{present.id} superseded none"
        raise ConflictError(f"{robot}: {what}", code="nothing-to-roll-back", robot=robot)
    earlier = get(session, present.supersedes_id)
    present.supersedes_id = None
    _supersede_active(session, robot, earlier.id)
    return _put_in_force(session, earlier, f"{robot}: rolled back from result {present.id} to {earlier.id}")


def _passed(row: ResultRow) -> bool:
    return row.validation is not None and bool(row.validation["passed"])


def _supersede_active(session: Session, robot: str, successor: str) -> str | None:
    present = get_active(session, robot)
    if present is None:
        return None
    _move(session, present, ResultState.SUPERSEDED, f"result {present.id} is superseded by {successor}")
    session.flush()  # before the successor's update: the database allows one active result at any moment
    return present.id


def _put_in_force(session: Session, row: ResultRow, message: str) -> ResultRow:
    _move(session, row, ResultState.ACTIVE, message)
    row.activated_at = utc_now()
    session.flush()
    return row


def _move(session: Session, row: ResultRow, state: ResultState, message: str) -> None:
    check_transition("result", RESULT_TRANSITIONS, row.id, row.state, state)
    row.state = state
    _tell(session, row, message)


def _tell(session: Session, row: ResultRow, message: str) -> None:
    events.record(session, f"result.{row.state}", message, subject=row.id, robot=row.robot)
