"""From stored recordings over a candidate to a feedforward table, with the real pipelines in real workers."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import catalogue as motion
from core.models import catalogue as robot_model
from core.recordings.mcap_log import McapSampleWriter
from core.streaming.samples import sample_dtype
from service.errors import ConflictError, NotFoundError
from service.jobs.models import JobUpdate
from service.storage import RecordingState, feedforward, recordings, results, trajectories

GAINS = [11.976, 11.976, 9.839, 10.763, 10.76, 11.33]
FRICTION = np.array([[12.0, 15.0], [14.0, 16.0], [8.0, 9.0], [3.0, 4.0], [2.5, 3.5], [2.0, 3.0]])
PERIOD = 0.004


def record(b: Any, name: str, *, error: float = 0.0, state: RecordingState = RecordingState.COMPLETE) -> str:
    """Store a recording of a perfect robot that goes through a ready-made motion."""
    model = robot_model("ur10e")
    s = motion(name).sample(PERIOD)
    torque = model.inverse_dynamics(s.q, s.qd, s.qdd) + FRICTION[:, 0] * np.sign(s.qd) + FRICTION[:, 1] * s.qd
    rng = np.random.default_rng(1)
    block = np.zeros(s.t.size, sample_dtype(6))
    block["sequence"] = 1 + np.arange(s.t.size)
    block["controller_time"] = s.t
    block["torque"] = np.nan
    block["q"], block["qd"] = s.q, s.qd
    block["current"] = (torque * (1.0 + error) + rng.normal(0.0, 0.2, torque.shape)) / GAINS
    with b.database.session() as session:
        row = recordings.create(session, robot="r1")
    path = recordings.file_of(b.settings.data_dir, row)
    writer = McapSampleWriter.create(path, 6, robot="r1")
    writer.write(block)
    stored = writer.finish()
    with b.database.session() as session:
        if state is RecordingState.FAILED:
            recordings.fail(session, row.id, "test")
        else:
            recordings.finish(
                session,
                row.id,
                state,
                sha256=stored.sha256,
                size=stored.bytes,
                samples=stored.samples,
                lost=stored.lost,
                lapped=stored.lapped,
            )
    return row.id


def store_trajectory(b: Any, name: str, robot: str | None = "r1") -> str:
    with b.database.session() as session:
        return trajectories.create(
            session, name=name, robot=robot, definition=motion(name).definition(), n_joints=6, duration=12.0
        ).id


async def finished(b: Any, kind: str, **request: Any) -> JobUpdate:
    update: JobUpdate = await b.follow((await b.engine.submit(kind, request)).id, seconds=120.0)
    return update


async def refusal(b: Any, kind: str, **request: Any) -> str:
    with pytest.raises((ConflictError, NotFoundError)) as refused:
        await b.engine.submit(kind, request)
    return refused.value.code


def test_the_way_from_recordings_to_a_table(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            train, held_out = record(b, "ur10e_excitation"), record(b, "ur10e_validation")
            worse = record(b, "ur10e_validation", error=0.4)
            target = store_trajectory(b, "ur10e_validation")

            done = await finished(b, "identify", robot="r1", recordings=[train], gains=GAINS)
            assert done.state == "succeeded", done.error
            assert done.result is not None and done.result["base_parameters"] == 36
            assert max(done.result["rms"]) < 1.0
            result_id = done.result["result_id"]
            with b.database.reading() as session:
                row = results.get(session, result_id)
            assert (row.state, row.recording_ids, row.job_id) == ("candidate", [train], done.id)
            assert row.settings["gains"] == GAINS
            assert row.document["provenance"]["train"][0]["sha256"]

            build = {"result_id": result_id, "trajectory_id": target, "cycle_time": 0.002}
            assert await refusal(b, "feedforward", **build) == "result-not-validated"
            judge = {"result_id": result_id, "criteria": {"max_relative_residual": 0.1}}
            assert await refusal(b, "validate", **judge, recordings=[train]) == "validation-on-training-data"
            copy = record(b, "ur10e_excitation")  # the same bytes under another identifier
            with b.database.session() as session:
                recordings.get(session, copy).sha256 = recordings.get(session, train).sha256
            assert await refusal(b, "validate", **judge, recordings=[copy]) == "validation-on-training-data"

            failed = await finished(b, "validate", **judge, recordings=[worse])
            assert failed.state == "succeeded", failed.error
            assert failed.result is not None and failed.result["passed"] is False
            assert "joint 1: relative residual" in failed.result["reasons"][0]
            with b.database.reading() as session:
                row = results.get(session, result_id)
            assert row.state == "candidate"
            assert row.validation is not None and row.validation["recordings"] == [worse]

            passed = await finished(b, "validate", **judge, recordings=[held_out])
            assert passed.result is not None and passed.result["passed"], passed.result
            assert max(passed.result["relative_moving"]) < 0.1
            with b.database.reading() as session:
                row = results.get(session, result_id)
            assert row.state == "validated"
            assert row.validation is not None and row.validation["criteria"]["max_relative_residual"] == 0.1

            built = await finished(b, "feedforward", **build)
            assert built.state == "succeeded", built.error
            assert built.result is not None
            with b.database.reading() as session:
                table = feedforward.get(session, built.result["table_id"])
            assert (table.version, table.samples, table.n_joints) == (1, 6001, 6)
            assert table.document["validation"]["criteria"] == {"max_relative_residual": 0.1, "min_moving_samples": 200}
            assert table.document["validation"]["recordings"] == [held_out]
            assert zlib.crc32(table.torque) == table.crc32 == built.result["crc32"]
            samples = motion("ur10e_validation").sample(0.002)
            truth = robot_model("ur10e").inverse_dynamics(samples.q, samples.qd, samples.qdd)
            truth += FRICTION[:, 0] * np.sign(samples.qd) + FRICTION[:, 1] * samples.qd
            error = np.frombuffer(table.torque, "<f4").reshape(-1, 6) - truth
            assert np.all(np.sqrt((error**2).mean(0)) < 0.1 * np.sqrt((truth**2).mean(0)))

            again = await finished(b, "feedforward", **{**build, "cycle_time": 0.0013})
            assert (again.state, again.error and again.error.code) == ("failed", "period-does-not-divide")

            assert (await finished(b, "validate", **judge, recordings=[worse])).state == "succeeded"
            assert await refusal(b, "feedforward", **build) == "result-not-validated"
            for no_limit in (1.5, [0.1] * 5 + [float("inf")]):
                with pytest.raises(InputError, match="max_relative_residual"):
                    await b.engine.submit("validate", {**judge, "criteria": {"max_relative_residual": no_limit}})

    asyncio.run(scenario())


def test_references_are_judged_when_a_job_is_submitted(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            good = record(b, "ur10e_validation")
            torn = record(b, "ur10e_validation", state=RecordingState.FAILED)
            with b.database.session() as session:
                foreign = recordings.create(session, robot="r2").id
            identify = {"robot": "r1", "gains": GAINS}
            for ids, code in (
                (["rec_unknown"], "recording-not-found"),
                ([foreign], "recording-of-other-robot"),
                ([good, torn], "recording-not-finished"),
                ([good, good], "recording-repeated"),
            ):
                assert await refusal(b, "identify", **identify, recordings=ids) == code
            assert await refusal(b, "validate", result_id="res_x", recordings=[good]) == "result-not-found"

    asyncio.run(scenario())


def test_a_file_that_was_changed_after_recording_is_not_used(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            identifier = record(b, "ur10e_validation")
            with b.database.session() as session:
                recordings.get(session, identifier).sha256 = "0" * 64
            done = await finished(b, "identify", robot="r1", recordings=[identifier], gains=GAINS)
            assert (done.state, done.error and done.error.code) == ("failed", "recording-altered")

    asyncio.run(scenario())
