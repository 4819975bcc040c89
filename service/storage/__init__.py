"""What is kept: recordings, trajectories, jobs, results, feedforward tables, and the log of what happened.

One module per table; its functions take the session first, so that several changes make one transaction::

    with database.session() as session:
        results.activate(session, result_id)
        events.record(session, "note", "after the gearbox change", robot="cell1")

Everything here blocks: call it from asyncio through `asyncio.to_thread`.
"""

from service.storage import api_keys, audit, counters, events, feedforward, jobs, recordings, results, trajectories
from service.storage.database import Database
from service.storage.identifiers import new_id
from service.storage.states import JobState, RecordingState, ResultState
from service.storage.tables import (
    ApiKeyRow,
    AuditRow,
    EventRow,
    FeedforwardTableRow,
    JobRow,
    RecordingRow,
    ResultRow,
    TrajectoryRow,
    utc_now,
)

__all__ = [
    "ApiKeyRow",
    "AuditRow",
    "Database",
    "EventRow",
    "FeedforwardTableRow",
    "JobRow",
    "JobState",
    "RecordingRow",
    "RecordingState",
    "ResultRow",
    "ResultState",
    "TrajectoryRow",
    "api_keys",
    "audit",
    "counters",
    "events",
    "feedforward",
    "jobs",
    "new_id",
    "recordings",
    "results",
    "trajectories",
    "utc_now",
]
