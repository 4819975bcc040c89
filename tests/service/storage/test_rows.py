"""What the repository functions promise: states, promotion, versions, paging."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from sqlalchemy.exc import InvalidRequestError

from core.errors import InputError
from service.errors import ConflictError, NotFoundError, StorageRefusedError
from service.storage import (
    Database,
    JobState,
    RecordingState,
    ResultState,
    counters,
    events,
    feedforward,
    jobs,
    recordings,
    results,
    trajectories,
)
from service.storage.states import JOB_TRANSITIONS, RECORDING_TRANSITIONS, RESULT_TRANSITIONS

FILE: dict[str, Any] = {"sha256": "0" * 64, "size": 100, "samples": 10, "lost": 0, "lapped": 0}


def candidate(database: Database, robot: str = "cell1") -> str:
    with database.session() as session:
        return results.create(session, robot=robot, recording_ids=["rec_1"], settings={}, document={"model": robot}).id


def validated(database: Database, robot: str = "cell1") -> str:
    identifier = candidate(database, robot)
    with database.session() as session:
        results.set_validation(session, identifier, {"passed": True, "criteria": {"x": 0.1}, "report": [1.0]})
    return identifier


def activate(database: Database, identifier: str) -> None:
    with database.session() as session:
        results.activate(session, identifier)


def roll_back(database: Database, robot: str = "cell1") -> str:
    with database.session() as session:
        return results.roll_back(session, robot).id


def states(database: Database) -> dict[str, str]:
    with database.reading() as session:
        return {row.id: row.state for row in results.find(session)}


def test_every_state_has_its_transitions() -> None:
    for kind, table in (
        (RecordingState, RECORDING_TRANSITIONS),
        (JobState, JOB_TRANSITIONS),
        (ResultState, RESULT_TRANSITIONS),
    ):
        assert set(table) == set(kind)
        assert set().union(*table.values()) <= set(kind)


def test_a_recording_is_finished_once(database: Database) -> None:
    with database.session() as session:
        identifier = recordings.create(session, robot="cell1", details={"operator": "A"}).id
    with database.session() as session:
        recordings.finish(session, identifier, RecordingState.COMPLETE, **FILE, details={"rate": 500})
    with pytest.raises(ConflictError, match="cannot become failed") as caught, database.session() as session:
        recordings.fail(session, identifier, "too late")
    assert caught.value.code == "recording-state-conflict"
    with database.reading() as session:
        row = recordings.get(session, identifier)
        told = [event.kind for event in events.find(session, subject=identifier)]
    assert (row.state, row.samples, row.details) == ("complete", 10, {"operator": "A", "rate": 500})
    assert told == ["recording.started", "recording.complete"]


def test_a_failed_recording_may_still_be_salvaged(database: Database) -> None:
    with database.session() as session:
        identifier = recordings.create(session, robot="cell1").id
        recordings.fail(session, identifier, "disk full")
        recordings.finish(session, identifier, RecordingState.SALVAGED, **FILE)
        assert recordings.get(session, identifier).state == "salvaged"


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.mcap", "a/../../b", ""])
def test_recordings_stay_inside_the_data_directory(database: Database, path: str) -> None:
    if not path:
        with database.reading() as session, pytest.raises(InputError):
            recordings.find_by_path(session, path)
        return
    with pytest.raises(InputError, match="data directory"), database.session() as session:
        recordings.create(session, robot="cell1", path=path)


def test_paging_goes_from_new_to_old(database: Database) -> None:
    with database.session() as session:
        made = [recordings.create(session, robot=f"cell{i % 2}").id for i in range(5)]
    with database.reading() as session:
        first = recordings.find(session, limit=2)
        second = recordings.find(session, limit=2, before=first[-1].id)
        assert [row.id for row in first + second] == made[:0:-1]
        assert [row.id for row in recordings.find(session, robot="cell1")] == [made[3], made[1]]


def test_jobs_follow_their_table(database: Database) -> None:
    with database.session() as session:
        job, created = jobs.create(session, kind="identify", request={"a": 1}, robot="cell1")
        assert created
    with pytest.raises(ConflictError, match="queued"), database.session() as session:
        jobs.transition(session, job.id, JobState.SUCCEEDED)
    with database.session() as session:
        jobs.transition(session, job.id, JobState.RUNNING)
        jobs.set_progress(session, job.id, phase="fit", progress=0.5)
    with database.session() as session:
        done = jobs.transition(session, job.id, JobState.SUCCEEDED, result={"result_id": "res_1"})
    assert (done.progress, done.phase, done.result) == (1.0, "fit", {"result_id": "res_1"})
    assert done.started_at is not None
    assert done.ended_at is not None
    assert done.created_at <= done.started_at <= done.ended_at
    with pytest.raises(ConflictError, match="only a running job"), database.session() as session:
        jobs.set_progress(session, job.id, phase="fit", progress=0.6)


def test_a_key_makes_one_job(database: Database) -> None:
    with database.session() as session:
        first, _ = jobs.create(session, kind="record", request={"s": 1}, robot="r", idempotency_key="k")
    with database.session() as session:
        again, created = jobs.create(session, kind="record", request={"s": 1}, robot="r", idempotency_key="k")
    assert (again.id, created) == (first.id, False)
    with pytest.raises(ConflictError) as caught, database.session() as session:
        jobs.create(session, kind="record", request={"s": 2}, robot="r", idempotency_key="k")
    assert caught.value.code == "idempotency-key-reused"


def test_unfinished_jobs_are_interrupted_at_start(database: Database) -> None:
    with database.session() as session:
        queued, running, done = (jobs.create(session, kind="record", request={})[0].id for _ in range(3))
        jobs.transition(session, running, JobState.RUNNING)
        jobs.transition(session, done, JobState.CANCELLED)
    with database.session() as session:
        interrupted = jobs.interrupt_unfinished(session, "the service was restarted")
    assert [row.id for row in interrupted] == [queued, running]
    with database.reading() as session:
        assert jobs.get(session, done).state == "cancelled"
        assert [row.id for row in jobs.find(session, states=[JobState.INTERRUPTED])] == [running, queued]
        error = jobs.get(session, running).error
    assert error == {"code": "job-interrupted", "detail": "the service was restarted", "context": {}}


def test_promotion_supersedes_and_rolls_back(database: Database) -> None:
    first, second, other = validated(database), validated(database), validated(database, "cell2")
    for identifier in (first, other, second):
        activate(database, identifier)
    assert states(database) == {first: "superseded", second: "active", other: "active"}
    assert roll_back(database) == first
    assert states(database) == {first: "active", second: "superseded", other: "active"}
    with pytest.raises(ConflictError) as caught:
        roll_back(database)
    assert caught.value.code == "nothing-to-roll-back"


def test_each_roll_back_undoes_one_activation(database: Database) -> None:
    a, b = validated(database), validated(database)
    for identifier in (a, b, a):
        activate(database, identifier)
    assert [roll_back(database), roll_back(database)] == [b, a]
    with pytest.raises(ConflictError):
        roll_back(database)
    assert states(database) == {a: "active", b: "superseded"}


def test_what_may_not_be_activated(database: Database) -> None:
    fresh, good = candidate(database), validated(database)
    with pytest.raises(ConflictError) as caught:
        activate(database, fresh)
    assert caught.value.code == "result-not-validated"
    activate(database, good)
    with pytest.raises(ConflictError, match="is active and cannot become active"):
        activate(database, good)
    assert states(database) == {fresh: "candidate", good: "active"}


def judge(database: Database, identifier: str, *, passed: bool) -> str:
    with database.session() as session:
        return results.set_validation(session, identifier, {"passed": passed}).state


def refusal(function: Any, *args: Any) -> str:
    with pytest.raises(ConflictError) as caught:
        function(*args)
    return caught.value.code


def test_a_result_that_fails_a_later_validation_is_a_candidate_again(database: Database) -> None:
    result = candidate(database)
    verdicts = (False, True, True, False, True)
    states = [judge(database, result, passed=passed) for passed in verdicts]
    assert states == ["candidate", "validated", "validated", "candidate", "validated"]
    judge(database, result, passed=False)
    assert refusal(activate, database, result) == refusal(table, database, result) == "result-not-validated"
    with database.reading() as session:
        happened = [e.kind.removeprefix("result.") for e in events.find(session, subject=result)]
    assert happened == ["candidate", "checked", "validated", "checked", "candidate", "validated", "candidate"]


def test_the_result_in_force_stays_so_but_no_more_is_built_from_it(database: Database) -> None:
    first, second = validated(database), validated(database)
    activate(database, first)
    table(database, first)
    assert judge(database, first, passed=False) == "active"
    assert refusal(table, database, first) == "result-not-validated"
    activate(database, second)
    assert judge(database, first, passed=False) == "superseded"
    assert refusal(activate, database, first) == "result-not-validated"  # while going back is a person's right:
    assert roll_back(database) == first
    assert judge(database, first, passed=True) == "active"
    table(database, first)


def test_the_database_itself_allows_one_active_result(database: Database) -> None:
    first, second = validated(database), validated(database)
    activate(database, first)
    with pytest.raises(StorageRefusedError, match=r"UNIQUE|unique constraint"), database.session() as session:
        results.get(session, second).state = ResultState.ACTIVE


def test_lists_leave_large_documents_out(database: Database) -> None:
    identifier = candidate(database)
    with database.reading() as session:
        listed = results.find(session)[0]
        with pytest.raises(InvalidRequestError):
            _ = listed.document
    with database.reading() as session:
        assert results.get(session, identifier).document == {"model": "cell1"}


def table(database: Database, result_id: str, **changes: Any) -> Any:
    torque = bytes(4 * 6 * 2)
    with database.session() as session:
        trajectory = trajectories.create(session, name="t", definition={"kind": "fourier"}, n_joints=6, duration=1.0)
        values: dict[str, Any] = {
            "result_id": result_id,
            "trajectory_id": trajectory.id,
            "cycle_time": 0.002,
            "samples": 2,
            "n_joints": 6,
            "crc32": zlib.crc32(torque),
            "digest": "d",
            "torque": torque,
            "current": None,
            "document": {},
        }
        return feedforward.create(session, **{**values, **changes})


def test_feedforward_tables_count_per_robot(database: Database) -> None:
    one, two = validated(database), validated(database, "cell2")
    made = [table(database, identifier) for identifier in (one, one, two)]
    assert made[0].document == {"validation": {"passed": True, "criteria": {"x": 0.1}}}
    assert [(row.robot, row.version) for row in made] == [("cell1", 1), ("cell1", 2), ("cell2", 1)]
    with database.reading() as session:
        newest = feedforward.latest(session, "cell1")
        assert newest is not None
        assert (newest.id, newest.torque) == (made[1].id, bytes(48))
        assert feedforward.latest(session, "cell3") is None
        assert [row.version for row in feedforward.find(session, robot="cell1")] == [2, 1]


def test_feedforward_only_from_a_validated_result_and_whole_bytes(database: Database) -> None:
    with pytest.raises(ConflictError) as caught:
        table(database, candidate(database))
    assert caught.value.code == "result-not-validated"
    good = validated(database)
    with pytest.raises(InputError, match="bytes"):
        table(database, good, samples=3)
    with pytest.raises(InputError, match="checksum"):
        table(database, good, crc32=1)
    with pytest.raises(NotFoundError):
        table(database, good, trajectory_id="trj_none")


def test_missing_rows_are_named(database: Database) -> None:
    with database.reading() as session:
        for fetch, code in (
            (recordings.get, "recording-not-found"),
            (trajectories.get, "trajectory-not-found"),
            (jobs.get, "job-not-found"),
            (results.get, "result-not-found"),
            (feedforward.get, "feedforward-table-not-found"),
        ):
            with pytest.raises(NotFoundError, match="'nowhere'") as caught:
                fetch(session, "nowhere")
            assert caught.value.code == code


def test_counters_only_grow(database: Database) -> None:
    seen = []
    for _ in range(3):
        with database.session() as session:
            seen.append(counters.next_value(session, "lease/cell1"))
    with pytest.raises(LookupError), database.session() as session:
        counters.next_value(session, "lease/cell1")
        raise LookupError
    with database.session() as session:
        assert counters.next_value(session, "lease/cell1") == 4
        assert counters.next_value(session, "lease/cell2") == 1
    assert seen == [1, 2, 3]
