"""What requests refer to, looked up and judged when they are submitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy.orm import Session

from service.errors import ConflictError
from service.jobs.computations import RecordingSource
from service.storage import RecordingRow, RecordingState, ResultRow, TrajectoryRow, recordings, results, trajectories

USABLE_RECORDINGS = frozenset({RecordingState.COMPLETE, RecordingState.SALVAGED})


class OfResult(Protocol):
    """A request about a stored result."""

    @property
    def result_id(self) -> str: ...


class OfPairedRuns(OfResult, Protocol):
    """A request about a robot's result, and runs with and without a payload."""

    @property
    def loaded(self) -> list[str]: ...

    @property
    def unloaded(self) -> list[str]: ...


def robot_of_result(session: Session, request: OfResult) -> str:
    """Return the robot of the result that a request names; NotFoundError ``result-not-found``."""
    return results.get(session, request.result_id).robot


def paired_runs(session: Session, request: OfPairedRuns) -> tuple[ResultRow, list[RecordingRow]]:
    """Return the result, and the recordings with, then without the payload; errors as of ``recordings_of``."""
    result = results.get(session, request.result_id)
    return result, recordings_of(session, [*request.loaded, *request.unloaded], result.robot)


def paired_sources(session: Session, request: OfPairedRuns, data_dir: Path) -> dict[str, Any]:
    """Return what computations on such runs take: ``document``, ``loaded`` and ``unloaded``."""
    result, rows = paired_runs(session, request)
    sources, split = sources_of(data_dir, rows), len(request.loaded)
    return {"document": result.document, "loaded": sources[:split], "unloaded": sources[split:]}


def trajectory_for(session: Session, identifier: str, robot: str) -> TrajectoryRow:
    """Return the trajectory if it is meant for this robot or for any.

    Raises
    ------
    NotFoundError
        ``trajectory-not-found``.
    ConflictError
        ``trajectory-of-other-robot``.
    """
    row = trajectories.get(session, identifier)
    if row.robot not in (None, robot):
        raise ConflictError(
            f"trajectory {identifier} is meant for {row.robot}, not for {robot}; store it for {robot} if it fits",
            code="trajectory-of-other-robot",
            id=identifier,
            robot=row.robot,
        )
    return row


def recordings_of(session: Session, identifiers: Sequence[str], robot: str) -> list[RecordingRow]:
    """Return finished recordings of this robot.

    Raises
    ------
    NotFoundError
        ``recording-not-found``.
    ConflictError
        ``recording-of-other-robot``, ``recording-not-finished``, or ``recording-repeated`` when one is
        named twice: it would count twice.
    """
    rows = [recordings.get(session, identifier) for identifier in identifiers]
    for index, row in enumerate(rows):
        if row.robot != robot:
            raise ConflictError(
                f"recording {row.id} is of {row.robot}, not of {robot}",
                code="recording-of-other-robot",
                id=row.id,
                robot=row.robot,
            )
        if row.state not in USABLE_RECORDINGS:
            raise ConflictError(
                f"recording {row.id} is {row.state}; only a finished one can be used",
                code="recording-not-finished",
                id=row.id,
                state=row.state,
            )
        if row.id in identifiers[:index]:
            raise ConflictError(
                f"recording {row.id} is named twice; it would count twice",
                code="recording-repeated",
                id=row.id,
            )
    return rows


def sources_of(data_dir: Path, rows: Sequence[RecordingRow]) -> list[RecordingSource]:
    """Return where a worker finds the recordings, and what their files must be."""
    return [RecordingSource(row.id, recordings.file_of(data_dir, row), row.sha256 or "") for row in rows]
