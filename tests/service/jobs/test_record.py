"""Recording jobs: one per robot, and given up as soon as that is asked for."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from core.errors import InputError
from service.errors import ConflictError
from service.storage import jobs

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


@pytest.mark.parametrize("duration", [0.0, -1.0, float("nan"), float("inf"), 86401.0])
def test_a_duration_has_bounds(bench: Callable[..., Any], duration: float) -> None:
    async def scenario() -> None:
        async with bench() as b:
            with pytest.raises(InputError, match="duration"):
                await b.engine.submit("record", {**REQUEST, "duration": duration})

    asyncio.run(scenario())
