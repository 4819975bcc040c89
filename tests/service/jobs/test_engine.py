"""The engine's own mechanics, with kinds of jobs made for the purpose."""

import asyncio
import logging
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Session

from core.errors import DynidError, IdentificationError, InputError
from service.errors import ConflictError, NotFoundError, StorageError
from service.jobs.context import JobContext, Kind
from service.jobs.journal import Journal
from service.jobs.models import JobKind
from service.jobs.worker import TaskChannel
from service.storage import JobState, events, jobs


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal[JobKind.IDENTIFY] = JobKind.IDENTIFY
    robot: str = "r1"
    do: str = "count"
    seconds: float = 0.0


class Result(BaseModel):
    pid: int


class Unstorable(BaseModel):
    value: float


# --- run by workers --------------------------------------------------------------------------------------


def count(channel: TaskChannel, *, do: str, seconds: float) -> int:
    if do == "refuse":
        raise IdentificationError("joint 2 never moves", code="too-little-motion", joints=[2])
    if do == "bug":
        raise ZeroDivisionError("nobody foresaw this")
    if do == "deaf":
        time.sleep(seconds)
        return os.getpid()
    deadline = time.monotonic() + seconds
    while do == "keep" and not channel.stop_requested():
        channel.tell(0.5, str(os.getpid()))
        time.sleep(0.01)
    while do != "keep" and time.monotonic() < deadline:
        channel.report(1.0 - (deadline - time.monotonic()) / seconds, str(os.getpid()))
        time.sleep(0.01)
    return os.getpid()


# ---------------------------------------------------------------------------------------------------------


async def run(context: JobContext, request: Request) -> BaseModel:
    context.enter("work")
    context.job.log(f"doing {request.do}")
    if request.do == "result-then-fail":
        context.job.partial_result = {"recording_id": "rec_x"}
        raise DynidError("half done", code="half-done")
    if request.do == "odd":
        raise DynidError("not JSON", code="odd", path=Path("/x"), ratio=float("nan"), who=object)
    if request.do == "unstorable":
        return Unstorable(value=float("inf"))
    if request.do == "hang":
        context.limit(0.2)
        await context.job.stop.bound(asyncio.sleep(60))
    grace = 0.3 if request.do == "deaf" else 30.0
    result = Result(pid=await context.compute(count, grace=grace, do=request.do, seconds=request.seconds))
    context.job.partial_result = result.model_dump()
    context.job.stop.raise_if_requested()
    return result


def check(_session: Session, request: Request) -> None:
    if request.do == "unacceptable":
        raise ConflictError("not like this", code="unacceptable")


KIND = Kind(
    name=JobKind.IDENTIFY,
    request=Request,
    phases={"work": 1.0},
    computes=True,
    moves=False,
    time_limit=60.0,
    robot=lambda _, request: request.robot,
    check=check,
    run=run,
)


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.jobs.engine.KINDS", {JobKind.IDENTIFY: KIND})


def submit(bench: Any, **request: Any) -> Any:
    key = request.pop("key", None)
    return bench.engine.submit("identify", request, idempotency_key=key)


def test_a_job_is_durable_and_can_be_followed(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            row = await submit(b, seconds=1.0)
            assert (row.state, row.robot, row.kind) == ("queued", "r1", "identify")
            last = await b.follow(row.id)
            assert last.state == "succeeded"
            assert last.progress == 1.0
            assert last.result is not None and last.result["pid"] != os.getpid()
            progress = [u.progress for u in b.updates[row.id]]
            assert progress == sorted(progress)
            assert any(0.0 < p < 1.0 for p in progress)
            assert [line.message for u in b.updates[row.id] for line in u.log] == ["work", "doing count"]
            stored = b.row(row.id)
            assert (stored.state, stored.phase, stored.result) == ("succeeded", "work", last.result)
            assert stored.started_at is not None and stored.ended_at is not None
            again = await b.follow(row.id)  # of a job that is over
            assert again.state == "succeeded"
            assert [line.message for line in again.log] == ["work", "doing count"]
            with b.database.reading() as session:
                happened = [e.kind for e in events.find(session, subject=row.id)]
            assert happened == ["job.queued", "job.running", "job.log", "job.log", "job.succeeded"]
            assert not (b.settings.runtime_path / "jobs" / row.id).exists()
            with pytest.raises(NotFoundError):
                await b.follow("job_unknown")

    asyncio.run(scenario())


def test_errors_become_the_job_s_error(bench: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with bench() as b:
            refused = await b.follow((await submit(b, do="refuse")).id)
            assert refused.state == "failed"
            assert refused.error.model_dump() == {
                "code": "too-little-motion",
                "detail": "joint 2 never moves",
                "context": {"joints": [2]},
            }
            row = await submit(b, do="bug")
            failed = await b.follow(row.id)
            assert (failed.state, failed.error.code) == ("failed", "internal-error")
            assert "ZeroDivisionError" not in failed.error.detail
            assert row.id in failed.error.detail
            half = await b.follow((await submit(b, do="result-then-fail")).id)
            assert (half.state, half.result, half.error.code) == (
                "failed",
                {"recording_id": "rec_x"},
                "half-done",
            )
            assert b.row(half.id).result == {"recording_id": "rec_x"}
            logged = [r for r in caplog.records if r.levelno >= logging.ERROR]
            assert len(logged) == 1 and row.id in logged[0].getMessage()
            assert "in count" in caplog.text  # the worker's own traceback

    asyncio.run(scenario())


def test_what_cannot_be_stored_fails_the_job_and_nothing_else(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            odd = await b.follow((await submit(b, do="odd")).id)
            assert odd.error.context["path"] == "/x"
            assert odd.error.context["ratio"] is None
            last = await b.follow((await submit(b, do="unstorable")).id)
            assert (last.state, last.error.code) == ("failed", "document-invalid")
            assert b.row(last.id).state == "failed"
            assert (await b.follow((await submit(b)).id)).state == "succeeded"

    asyncio.run(scenario())


@contextmanager
def altered(b: Any, before: str, after: str) -> Iterator[None]:
    """Change the database under the service, and change it back."""
    for statement in (before, after):
        with closing(sqlite3.connect(b.settings.data_dir / "dynid.sqlite3")) as connection, connection:
            connection.execute(statement)
        if statement == before:
            yield


def test_an_end_that_the_database_refuses_fails_the_job(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            refuse = (
                "CREATE TRIGGER refuse BEFORE UPDATE ON jobs WHEN NEW.state = 'succeeded' "
                "BEGIN SELECT RAISE(ABORT, 'not like this'); END"
            )
            with altered(b, refuse, "DROP TRIGGER refuse"):
                row = await submit(b)
                last = await b.follow(row.id)
            assert (last.state, last.error.code) == ("failed", "storage-refused")
            assert "not like this" in last.error.detail
            assert b.row(row.id).state == "failed"
            assert b.engine.live(row.id) is None
            assert (await b.follow((await submit(b)).id)).state == "succeeded"

    asyncio.run(scenario())


def test_what_an_unusable_database_missed_is_stored_when_it_is_back(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            row = await submit(b, seconds=0.5)
            await b.until(row.id, lambda u: u.progress > 0)
            with altered(b, "ALTER TABLE jobs RENAME TO gone", "ALTER TABLE gone RENAME TO jobs"):
                last = await b.follow(row.id)
                assert (last.state, last.error.code) == ("failed", "storage-unusable")
                assert b.engine.live(row.id) is None
                with pytest.raises(StorageError):
                    await submit(b)
            async with asyncio.timeout(30):
                while (stored := await asyncio.to_thread(b.row, row.id)).state != "failed":
                    assert stored.state == "running"
                    await asyncio.sleep(0.02)
            assert [line.message for line in (await b.follow(row.id)).log] == ["work", "doing count"]
            assert (await b.follow((await submit(b)).id)).state == "succeeded"

    asyncio.run(scenario())


def test_an_entry_that_can_never_be_written_holds_up_no_other(
    bench: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    def impossible(_session: Session) -> None:
        raise UnicodeEncodeError("utf-8", "\udc80", 0, 1, "surrogates not allowed")

    async def scenario() -> None:
        async with bench() as b:
            journal = Journal(b.database)
            for note in (partial(events.record, kind="first", message=""), impossible):
                journal.note(note)
            journal.note(partial(events.record, kind="last", message=""))
            await journal.close()
            with b.database.reading() as session:
                assert [e.kind for e in events.find(session)] == ["first", "last"]
            assert "an entry is dropped" in caplog.text

    asyncio.run(scenario())


def test_a_client_that_goes_away_while_submitting_leaves_a_job_that_runs(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            client = asyncio.create_task(submit(b))
            await asyncio.sleep(0)  # it has begun
            client.cancel()
            await asyncio.gather(client, return_exceptions=True)
            async with asyncio.timeout(30):
                while not (rows := await asyncio.to_thread(all_jobs, b)):
                    await asyncio.sleep(0.01)
            assert (await b.follow(rows[0].id)).state == "succeeded"

    asyncio.run(scenario())


def all_jobs(b: Any) -> list[Any]:
    with b.database.reading() as session:
        return jobs.find(session)


def test_requests_that_are_not_valid_or_not_acceptable_leave_no_job(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            for request, kind, code in (
                ({"sedonds": 1}, InputError, "request-invalid"),
                ({"kind": "play"}, InputError, "request-invalid"),
                ({"robot": "r2"}, NotFoundError, "robot-not-found"),
                ({"do": "unacceptable"}, ConflictError, "unacceptable"),
            ):
                with pytest.raises(kind) as refused:
                    await submit(b, **request)
                assert refused.value.code == code
            with pytest.raises(InputError, match="known: play, record"):
                await b.engine.submit("dance", {})
            with b.database.reading() as session:
                assert jobs.find(session) == []
                assert events.find(session) == []

    asyncio.run(scenario())


def test_a_running_job_ends_when_it_is_cancelled(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            running = await submit(b, seconds=30.0)
            waiting = await submit(b, seconds=30.0)
            await b.until(running.id, lambda u: u.progress > 0)
            assert b.engine.live(waiting.id).state == "queued"
            await b.engine.cancel(waiting.id)
            await b.engine.cancel(running.id, "the user lost interest")
            ended = await b.follow(running.id)
            assert (ended.state, ended.error.code) == ("cancelled", "job-cancelled")
            assert ended.error.detail == "the user lost interest"
            never = await b.follow(waiting.id)
            assert never.state == "cancelled"
            assert b.row(waiting.id).started_at is None
            with pytest.raises(ConflictError) as refused:
                await b.engine.cancel(running.id)
            assert refused.value.code == "job-state-conflict"
            with pytest.raises(NotFoundError):
                await b.engine.cancel("job_unknown")

    asyncio.run(scenario())


def test_what_a_cancelled_computation_returns_is_kept(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            row = await submit(b, do="keep")
            await b.until(row.id, lambda u: u.message != "")
            await b.engine.cancel(row.id)
            ended = await b.follow(row.id)
            assert (ended.state, ended.error.code) == ("cancelled", "job-cancelled")
            assert ended.result["pid"] == int(ended.message)
            assert b.row(row.id).result == ended.result

    asyncio.run(scenario())


def test_a_computation_that_does_not_listen_is_killed(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            row = await submit(b, do="deaf", seconds=60.0)
            await b.until(row.id, lambda u: u.phase == "work")
            await b.engine.cancel(row.id)
            assert (await b.follow(row.id)).state == "cancelled"
            assert (await b.follow((await submit(b)).id)).state == "succeeded"

    asyncio.run(scenario())


def test_a_job_that_takes_too_long_fails(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            ended = await b.follow((await submit(b, do="hang")).id)
            assert (ended.state, ended.error.code) == ("failed", "job-timed-out")
            assert ended.error.detail == "not finished within 0.2 s"

    asyncio.run(scenario())


def test_a_killed_worker_interrupts_its_job_and_the_next_one_runs(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            row = await submit(b, seconds=30.0)
            await b.until(row.id, lambda u: bool(u.message))
            os.kill(int(b.engine.live(row.id).message), signal.SIGKILL)
            ended = await b.follow(row.id)
            assert (ended.state, ended.error.code) == ("interrupted", "worker-lost")
            assert b.row(row.id).error["code"] == "worker-lost"
            assert (await b.follow((await submit(b)).id)).state == "succeeded"

    asyncio.run(scenario())


def test_the_queue_is_bounded(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench(workers=1, queue_limit=1) as b:
            accepted = [await submit(b, seconds=30.0) for _ in range(2)]
            with pytest.raises(ConflictError) as refused:
                await submit(b)
            assert refused.value.code == "queue-full"
            for row in accepted:
                await b.engine.cancel(row.id)
                await b.follow(row.id)
            assert (await b.follow((await submit(b)).id)).state == "succeeded"

    asyncio.run(scenario())


def test_a_key_stands_for_one_request(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench(workers=1, queue_limit=1) as b:
            first = await submit(b, key="k1", seconds=30.0)
            assert (await submit(b, key="k1", seconds=30.0)).id == first.id
            with pytest.raises(ConflictError, match="different request"):
                await submit(b, key="k1", seconds=31.0)
            both = await asyncio.gather(*(submit(b, key="k2", seconds=30.0) for _ in range(2)))
            assert both[0].id == both[1].id
            assert (await submit(b, key="k1", seconds=30.0)).id == first.id  # although the queue is full
            for row in (first, both[0]):
                await b.engine.cancel(row.id)
                await b.follow(row.id)
            assert (await submit(b, key="k1", seconds=30.0)).state == "cancelled"

    asyncio.run(scenario())


def test_closing_interrupts_what_runs_and_refuses_what_comes(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            running, waiting = await submit(b, seconds=30.0), await submit(b, seconds=30.0)
            await b.until(running.id, lambda u: u.progress > 0)
            followed = asyncio.create_task(b.follow(running.id))
            await b.engine.close()
            assert (await followed).state == "interrupted"
            assert b.row(running.id).state == b.row(waiting.id).state == JobState.INTERRUPTED
            with pytest.raises(ConflictError) as refused:
                await submit(b)
            assert refused.value.code == "service-closing"

    asyncio.run(scenario())


def test_unfinished_jobs_of_a_service_that_died_are_interrupted(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            with b.database.session() as session:  # as a killed service leaves them
                row, _ = jobs.create(session, kind="play", request={}, robot="r1")
                jobs.transition(session, row.id, JobState.RUNNING)
                queued, _ = jobs.create(session, kind="identify", request={}, robot="r1")
        async with bench() as b:
            for identifier in (row.id, queued.id):
                stored = b.row(identifier)
                assert stored.state == "interrupted"
                assert "never resumed" in stored.error["detail"]
            assert b.device.requests == []
            assert b.engine.live(row.id) is None

    asyncio.run(scenario())
