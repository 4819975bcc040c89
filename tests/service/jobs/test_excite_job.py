"""A trajectory is designed in a worker and stored; a job that is asked to stop does."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import check_motion, trajectory_from_definition
from core.models import catalogue
from service.errors import NotFoundError
from service.jobs.context import JobContext
from service.jobs.kinds.excite import EXCITE
from service.jobs.models import JobKind
from service.storage import trajectories

UPRIGHT = [0.0, -np.pi / 2, 0.0, -np.pi / 2, 0.0, 0.0]
REQUEST = {"robot": "r1", "name": "new", "harmonics": 2, "period": 8.0, "time_budget": 1.0}


def test_a_designed_trajectory_is_stored_and_playable(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            limits = {"start": UPRIGHT, "acceleration": [2.0] * 6, "velocity": [100.0] * 6, "floor": 0.05}
            row = await b.engine.submit("excite", {**REQUEST, "limits": limits})
            done = await b.follow(row.id, seconds=120.0)
            assert done.state == "succeeded", done.error
            result = done.result
            assert result["condition_number"] < 1e4
            assert result["least_clearance"] >= 0.0
            with b.database.reading() as session:
                stored = trajectories.get(session, result["trajectory_id"])
            assert (stored.name, stored.robot, stored.duration) == ("new", "r1", 8.0)
            samples = trajectory_from_definition(stored.definition).sample(0.002)
            # stated limits tighten those of the model and never loosen them
            report = check_motion(samples, catalogue("ur10e").with_limits(acceleration=2.0))
            assert {m.kind: max(m.use) for m in report.margins}["acceleration"] <= 1.0

            again = {**REQUEST, "limits": limits, "warm_start": result["trajectory_id"]}
            better = await b.follow((await b.engine.submit("excite", again)).id, seconds=120.0)
            assert better.result["value"] <= result["value"] * 1.0001  # verified on its own grid again

            each = [*["arctan"] * 5, "coulomb_viscous"]
            impossible = {**REQUEST, "limits": {**limits, "floor": 0.5}, "friction": each}
            failed = await b.follow((await b.engine.submit("excite", impossible)).id, seconds=120.0)
            assert failed.state == "failed"
            assert failed.error.code == "excitation-infeasible"
            assert failed.error.context["excess"] > 0.0

            remembering = {**REQUEST, "limits": limits, "friction": "arctan+hysteresis"}
            refused = await b.follow((await b.engine.submit("excite", remembering)).id, seconds=120.0)
            assert (refused.state, refused.error.code) == ("failed", "friction-invalid")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("timed_out", "state", "code"), [(False, "cancelled", "job-cancelled"), (True, "failed", "job-timed-out")]
)
def test_a_search_that_is_stopped_keeps_the_best_so_far(
    timed_out: bool, state: str, code: str, bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[JobContext] = []

    async def run(context: JobContext, request: Any) -> Any:
        contexts.append(context)
        return await EXCITE.run(context, request)

    monkeypatch.setattr("service.jobs.engine.KINDS", {JobKind.EXCITE: replace(EXCITE, run=run)})

    async def scenario() -> None:
        async with bench() as b:
            request = {**REQUEST, "limits": {"start": UPRIGHT, "acceleration": [2.0] * 6}, "time_budget": 600.0}
            row = await b.engine.submit("excite", request)
            await b.until(row.id, lambda update: "best cond" in update.message, seconds=120.0)
            if timed_out:
                contexts[0].limit(0.0)
            else:
                await b.engine.cancel(row.id)
            began = time.monotonic()
            ended = await b.follow(row.id, seconds=60.0)
            assert time.monotonic() - began < 1.0
            assert (ended.state, ended.error.code) == (state, code)
            with b.database.reading() as session:
                stored = trajectories.get(session, ended.result["trajectory_id"])
            assert b.row(row.id).result == ended.result
            samples = trajectory_from_definition(stored.definition).sample(0.001)
            check_motion(samples, catalogue("ur10e").with_limits(acceleration=2.0))
            assert ended.result["value"] < 1e5
            assert any(f"kept as {stored.id}" in line.message for seen in b.updates[row.id] for line in seen.log)

    asyncio.run(scenario())


def test_bad_requests_are_refused_at_once_and_a_search_can_be_cancelled(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            limits = {"start": UPRIGHT}
            with pytest.raises(NotFoundError):
                await b.engine.submit("excite", {**REQUEST, "limits": limits, "warm_start": "trj_none"})
            with pytest.raises(InputError, match="family"):
                await b.engine.submit("excite", {**REQUEST, "limits": limits, "family": "sine"})
            row = await b.engine.submit("excite", {**REQUEST, "limits": limits, "time_budget": 600.0})
            await b.engine.cancel(row.id)
            assert (await b.follow(row.id, seconds=60.0)).state == "cancelled"

    asyncio.run(scenario())
