"""States of what is stored, and the one table per kind that says which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from service.errors import ConflictError


class RecordingState(StrEnum):
    """``failed`` may still become ``salvaged``: a full disk today, room for the footer tomorrow.

    ``removed``: the file was deleted for its age; what was known of it stays.
    """

    RECORDING = "recording"
    COMPLETE = "complete"
    SALVAGED = "salvaged"
    FAILED = "failed"
    REMOVED = "removed"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class ResultState(StrEnum):
    """``superseded`` becomes ``active`` again on roll-back, ``validated`` becomes ``active`` on promotion.

    A ``validated`` one that does not pass a later validation is a ``candidate`` again; an ``active`` one stays
    in force, as taking it out of force is a person's decision, but nothing more is built from it.
    """

    CANDIDATE = "candidate"
    VALIDATED = "validated"
    ACTIVE = "active"
    SUPERSEDED = "superseded"


Transitions = Mapping[str, frozenset[str]]

RECORDING_TRANSITIONS: Transitions = {
    RecordingState.RECORDING: frozenset({RecordingState.COMPLETE, RecordingState.SALVAGED, RecordingState.FAILED}),
    RecordingState.COMPLETE: frozenset({RecordingState.REMOVED}),
    RecordingState.SALVAGED: frozenset({RecordingState.REMOVED}),
    RecordingState.REMOVED: frozenset(),
    RecordingState.FAILED: frozenset({RecordingState.SALVAGED}),
}

JOB_TRANSITIONS: Transitions = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.FAILED, JobState.CANCELLED, JobState.INTERRUPTED}),
    JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.INTERRUPTED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.INTERRUPTED: frozenset(),
}

RESULT_TRANSITIONS: Transitions = {
    ResultState.CANDIDATE: frozenset({ResultState.VALIDATED}),
    ResultState.VALIDATED: frozenset({ResultState.ACTIVE, ResultState.CANDIDATE}),
    ResultState.ACTIVE: frozenset({ResultState.SUPERSEDED}),
    ResultState.SUPERSEDED: frozenset({ResultState.ACTIVE}),
}


def check_transition(kind: str, transitions: Transitions, identifier: str, old: str, new: str) -> None:
    """Raise ConflictError ``<kind>-state-conflict`` unless ``new`` may follow ``old``."""
    allowed = transitions[old]
    if new in allowed:
        return
    may = " or ".join(sorted(allowed)) if allowed else "nothing: this state is final"
    raise ConflictError(
        f"{kind} {identifier} is {old} and cannot become {new}; it can become {may}",
        code=f"{kind}-state-conflict",
        id=identifier,
        state=str(old),
        requested=str(new),
    )
