"""From stored recordings over a candidate to a feedforward table, with the real pipelines in real workers."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import catalogue as motion
from core.models import catalogue as robot_model
from core.recordings.mcap_log import McapSampleWriter
from core.signals import SignalSettings
from core.streaming.samples import sample_dtype
from service.errors import ConflictError, NotFoundError
from service.jobs.models import JobUpdate, SignalRequest
from service.storage import RecordingState, feedforward, recordings, results, trajectories

GAINS = [11.976, 11.976, 9.839, 10.763, 10.76, 11.33]
FRICTION = np.array([[12.0, 15.0], [14.0, 16.0], [8.0, 9.0], [3.0, 4.0], [2.5, 3.5], [2.0, 3.0]])
PERIOD = 0.004
COM = (0.05, -0.08, 0.1)


def record(
    b: Any,
    name: str,
    *,
    error: float = 0.0,
    state: RecordingState = RecordingState.COMPLETE,
    mass: float = 0.0,
) -> str:
    """Store a recording of a perfect robot that goes through a ready-made motion, with a payload or without."""
    model = robot_model("ur10e")
    model = model.with_payload(mass, COM) if mass else model
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


def test_what_the_library_lets_choose_a_job_lets_choose_too(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            train = record(b, "ur10e_excitation")
            request = {"robot": "r1", "recordings": [train], "gains": GAINS}
            done = await finished(
                b, "identify", **request, preferred=["mx6"], without=["my6"], stop_margin=0.5, moving_threshold=0.1
            )
            assert done.result is not None, done.error
            with b.database.reading() as session:
                document = results.get(session, done.result["result_id"]).document
            base = document["base_parameters"]
            assert base[0]["name"].startswith("mx6")
            assert done.result["base_parameters"] == len(base) == 35
            assert not any(parameter["name"].startswith("my6") for parameter in base)
            wrong = await finished(b, "identify", **request, without=["no_such"])
            assert wrong.error is not None and "no_such" in wrong.error.detail

    asyncio.run(scenario())


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
            assert 1.0 < done.result["normalised_condition_number"] < done.result["condition_number"]
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


def test_a_payload_and_drive_gains_from_runs_with_and_without_it(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            bare, loaded = record(b, "ur10e_excitation"), record(b, "ur10e_excitation", mass=4.0)
            nominal = [1.1 * GAINS[0], *GAINS[1:]]
            identify = {"robot": "r1", "recordings": [bare], "friction": ["coulomb_viscous"] * 6}
            for gains in (GAINS, nominal):
                done = await finished(b, "identify", **identify, gains=gains)
                assert done.state == "succeeded", done.error
                result_id = done.result["result_id"]
                runs = {"result_id": result_id, "loaded": [loaded], "unloaded": [bare]}
                if gains is GAINS:
                    found = await finished(b, "payload", **runs)
                    assert found.state == "succeeded", found.error
                    assert abs(found.result["mass"] - 4.0) < 0.04
                    assert found.result["centre"] == pytest.approx(COM, abs=0.01)
                    alone = await finished(b, "payload", result_id=result_id, loaded=[loaded])
                    assert abs(alone.result["mass"] - 4.0) < 0.1
                    assert "m" in alone.result["identified"]
            weighed = await finished(b, "drive_gains", **runs, payload_mass=4.0, payload_com=COM)
            assert weighed.state == "succeeded", weighed.error
            assert weighed.robot == "r1"
            assert weighed.result["nominal"] == pytest.approx(nominal)
            assert weighed.result["gains"][:5] == pytest.approx(GAINS[:5], rel=0.02)
            assert await refusal(b, "payload", result_id="res_x", loaded=[loaded]) == "result-not-found"
            assert await refusal(b, "drive_gains", **{**runs, "unloaded": [loaded]}, payload_mass=1.0) == (
                "recording-repeated"
            )
            with pytest.raises(InputError, match="payload_mass"):
                await b.engine.submit("drive_gains", {**runs, "payload_mass": 0.0})

    asyncio.run(scenario())


def test_signals_are_asked_for_like_in_the_library() -> None:
    """Field by field what ``SignalSettings`` has, with its words, and nothing that it has not."""
    asked, settings = SignalRequest.model_fields, get_type_hints(SignalSettings)
    assert list(asked) == list(settings)
    assert all(field.default is None for field in asked.values())
    with_words = {name: kind for name, kind in settings.items() if get_origin(kind) is Literal}
    assert len(with_words) == 6
    for name, kind in with_words.items():
        assert kind in get_args(asked[name].annotation)
    values = SignalSettings().to_document()
    assert SignalRequest(**values).settings() == {name: value for name, value in values.items() if value is not None}


def test_settings_that_do_not_go_together_are_refused_at_once(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            request = {"robot": "r1", "recordings": [record(b, "ur10e_validation")], "gains": GAINS}
            for signals, problem in (
                ({"periods": "averaged"}, "need the period of the excitation"),
                ({"rate": 20.0}, "needs a rate above"),
                ({"marked": "deleted"}, "marked"),
                ({"cutoff": 1.0}, "cutoff"),
            ):
                with pytest.raises(InputError, match=problem):
                    await b.engine.submit("identify", {**request, "signals": signals})

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
