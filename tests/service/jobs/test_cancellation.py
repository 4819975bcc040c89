"""Every kind of job has a limit and ends within a second of being cancelled, also where its worker hangs."""

import asyncio
import os
import signal
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from core.excitation import catalogue
from service.jobs.kinds import KINDS
from service.jobs.models import JobKind
from service.jobs.pool import WorkerPool
from service.storage import RecordingState, feedforward, recordings, results, trajectories

WITHIN = 1.0  # s
COMPLETING = (
    2.0  # s more for a recording: its file is completed, by a process that then ends, on a machine that is busy
)

REQUESTS: dict[JobKind, Callable[[dict[str, str]], dict[str, Any]]] = {
    JobKind.IDENTIFY: lambda has: {"robot": "r1", "recordings": [has["other"]], "gains": [10.0] * 6},
    JobKind.VALIDATE: lambda has: {"result_id": has["result"], "recordings": [has["other"]]},
    JobKind.FEEDFORWARD: lambda has: {
        "result_id": has["result"],
        "trajectory_id": has["trajectory"],
        "cycle_time": 0.002,
    },
    JobKind.LOAD_FEEDFORWARD: lambda has: {"robot": "r1", "table_id": has["table"]},
    JobKind.PAYLOAD: lambda has: {"result_id": has["result"], "loaded": [has["other"]]},
    JobKind.DRIVE_GAINS: lambda has: {
        "result_id": has["result"],
        "loaded": [has["recording"]],
        "unloaded": [has["other"]],
        "payload_mass": 2.0,
    },
    JobKind.CALIBRATE_SENSORS: lambda has: {"robot": "r1", "recordings": [has["other"]]},
    JobKind.LEG_DRIVES: lambda has: {"result_id": has["result"], "recordings": [has["other"]]},
    JobKind.PLAY: lambda has: {
        "robot": "r1",
        "trajectory_id": has["trajectory"],
        "approach": {"speed": 0.5, "acceleration": 1.0},
    },
    JobKind.CALIBRATE: lambda has: {
        "robot": "r1",
        "trajectory_id": has["trajectory"],
        "approach": {"speed": 0.5, "acceleration": 1.0},
    },
    JobKind.RECORD: lambda has: {"robot": "r1", "duration": 60.0},
}


def material(b: Any) -> dict[str, str]:
    """Store what requests refer to; nobody will read it."""
    with b.database.session() as session:
        rows = [recordings.create(session, robot="r1") for _ in range(2)]
        for row in rows:
            figures = {"sha256": row.id, "size": 1, "samples": 1, "lost": 0, "lapped": 0}
            recordings.finish(session, row.id, RecordingState.COMPLETE, **figures)
        result = results.create(session, robot="r1", recording_ids=[rows[0].id], settings={}, document={})
        results.set_validation(session, result.id, {"passed": True, "reasons": [], "report": {}})
        results.activate(session, result.id)
        definition = catalogue("ur10e_excitation").definition()
        trajectory = trajectories.create(session, name="t", definition=definition, n_joints=6, duration=12.0)
        numbers = bytes(4 * 6)
        table = feedforward.create(
            session,
            result_id=result.id,
            trajectory_id=trajectory.id,
            cycle_time=0.002,
            samples=1,
            n_joints=6,
            crc32=zlib.crc32(numbers),
            digest="0" * 64,
            torque=numbers,
            current=numbers,
            document={},
        )
    return {
        "recording": rows[0].id,
        "other": rows[1].id,
        "result": result.id,
        "trajectory": trajectory.id,
        "table": table.id,
    }


def test_every_kind_has_a_limit() -> None:
    assert set(REQUESTS) == set(KINDS) - {JobKind.EXCITE}  # a search may take longer: it keeps the best it has found
    assert all(0.0 < kind.time_limit < 5000.0 for kind in KINDS.values())


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_job_whose_worker_hangs_ends_within_a_second_of_being_cancelled(
    bench: Callable[..., Any], hanging: WorkerPool, kind: JobKind
) -> None:
    async def scenario() -> None:
        async with bench(executor=hanging) as b:
            request = REQUESTS[kind](material(b))
            if KINDS[kind].moves:
                await b.arm()
            elif KINDS[kind].occupies:
                b.token = (await b.engine.guards["r1"].acquire_lease("test", 60.0)).token
            job = await b.engine.submit(kind, request, lease_token=b.token)
            await b.until(job.id, lambda update: update.phase != "")
            if kind is JobKind.RECORD:  # by a process of its own, which takes a while to start
                await b.until(job.id, lambda update: float(update.message.partition(" ")[0] or 0.0) > 3.0)
            b.device.produce(50)
            await asyncio.sleep(0.1)  # into the computation
            began = time.monotonic()
            await b.engine.cancel(job.id)
            ended = await b.follow(job.id)
            assert time.monotonic() - began < WITHIN + COMPLETING * (kind is JobKind.RECORD)
            assert (ended.state, ended.error.code) == ("cancelled", "job-cancelled")

    asyncio.run(scenario())


@pytest.fixture
def hanging() -> Any:
    """A pool whose worker neither computes nor hears anything any more."""
    pool = WorkerPool(1)
    os.kill(pool.submit(os.getpid).result(timeout=30.0), signal.SIGSTOP)
    yield pool
    pool.shutdown()
