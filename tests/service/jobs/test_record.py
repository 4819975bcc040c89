"""Recording jobs: one per robot, and given up as soon as that is asked for."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from core.errors import InputError
from core.excitation import catalogue
from service.errors import ConflictError
from service.jobs.models import LogLine
from service.motion import PermitState
from service.storage import jobs, trajectories

REQUEST = {"robot": "r1", "duration": 60.0}


def test_a_robot_is_recorded_once_at_a_time(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            first = await b.engine.submit("record", REQUEST, idempotency_key="k")
            refusals = await asyncio.gather(
                *(b.engine.submit("record", REQUEST) for _ in range(5)), return_exceptions=True
            )
            assert [error.code for error in refusals] == ["robot-recording"] * 5
            assert refusals[0].context == {"robot": "r1", "job": first.id}
            assert (await b.engine.submit("record", REQUEST, idempotency_key="k")).id == first.id
            with b.database.reading() as session:
                assert [row.id for row in jobs.find(session)] == [first.id]
            await b.until(first.id, lambda u: u.phase == "record" and bool(u.message))
            with pytest.raises(ConflictError):
                await b.engine.submit("record", REQUEST)
            await b.engine.cancel(first.id)
            await b.follow(first.id)
            assert (await b.engine.submit("record", REQUEST)).id != first.id

    asyncio.run(scenario())


def test_a_recording_that_waits_for_samples_is_given_up_at_once(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with bench() as b:
            connecting = asyncio.Event()

            async def never(timeout: float) -> None:
                connecting.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(b.device, "wait_streaming", never)
            job = await b.engine.submit("record", REQUEST)
            await connecting.wait()
            await b.engine.cancel(job.id)
            assert (await b.follow(job.id)).state == "cancelled"

    asyncio.run(scenario())


@contextmanager
def without_recordings(b: Any) -> Iterator[None]:
    """The database has no table of recordings for a while."""
    for old, new in (("recordings", "gone"), ("gone", "recordings")):
        with b.database.session() as session:
            session.connection().exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")
        if new == "gone":
            yield


def test_a_motion_that_cannot_be_recorded_is_stopped(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            b.device.produce(200)
            b.device.steps = 10_000
            with b.database.session() as session:
                motion = catalogue("ur10e_validation")
                row = trajectories.create(
                    session, name="m", definition=motion.definition(), n_joints=6, duration=motion.duration
                )
            request = {"robot": "r1", "trajectory_id": row.id, "approach": {"speed": 0.3, "acceleration": 0.5}}
            with without_recordings(b):
                job = await b.engine.submit("play", request, lease_token=b.token)
                last = await b.follow(job.id)
            assert (last.state, last.error.code) == ("failed", "storage-unusable")
            assert any(line.message.startswith("stopping: the recording failed: ") for line in logged(b, job.id))
            assert b.engine.guards["r1"].permit.state is PermitState.DISARMED

    asyncio.run(scenario())


def logged(b: Any, job_id: str) -> list[LogLine]:
    return [line for update in b.updates[job_id] for line in update.log]


@pytest.mark.parametrize("duration", [0.0, -1.0, float("nan"), float("inf"), 86401.0])
def test_a_duration_has_bounds(bench: Callable[..., Any], duration: float) -> None:
    async def scenario() -> None:
        async with bench() as b:
            with pytest.raises(InputError, match="duration"):
                await b.engine.submit("record", {**REQUEST, "duration": duration})

    asyncio.run(scenario())
