"""A trajectory is designed in a worker and stored; a job that is asked to stop does."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import check_motion, trajectory_from_definition
from core.models import catalogue
from service.errors import NotFoundError
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

            impossible = {**REQUEST, "limits": {**limits, "floor": 0.5}}
            failed = await b.follow((await b.engine.submit("excite", impossible)).id, seconds=120.0)
            assert failed.state == "failed"
            assert failed.error.code == "excitation-infeasible"
            assert failed.error.context["excess"] > 0.0

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
