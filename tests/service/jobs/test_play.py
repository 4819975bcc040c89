"""Playing and recording, on a real ring with the real recorder; the robot is played by FakeDevice."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.excitation import FourierQuintic
from core.recordings import read
from drivers.contract import MotionRefused
from service.errors import ConflictError, NotFoundError
from service.motion import PermitState
from service.storage import RecordingState, events, jobs, recordings, trajectories

APPROACH = {"speed": 0.3, "acceleration": 0.5}


def trajectory(b: Any, *, robot: str | None = None, amplitude: float = 0.1, n: int = 6) -> str:
    motion = FourierQuintic(
        period=2.0, a=np.full((n, 1), amplitude), b=np.zeros((n, 1)), start=np.zeros(n), end=np.zeros(n)
    )
    with b.database.session() as session:
        row = trajectories.create(
            session,
            name="test",
            robot=robot,
            definition=motion.definition(),
            n_joints=n,
            duration=motion.duration,
        )
    return row.id


async def play(b: Any, trajectory_id: str, **changes: Any) -> Any:
    request = {"robot": "r1", "trajectory_id": trajectory_id, "approach": APPROACH, **changes}
    return await b.engine.submit("play", request, lease_token=b.token)


def stored_recording(b: Any, identifier: str) -> tuple[Any, Any]:
    with b.database.reading() as session:
        row = recordings.get(session, identifier)
    return row, read(recordings.file_of(b.settings.data_dir, row), "mcap")


def test_a_motion_is_checked_played_and_recorded_exactly(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            b.device.produce(200)
            job = await play(b, trajectory(b))
            last = await b.follow(job.id)
            assert last.state == "succeeded", last.error
            phases = [phase for phase, _ in itertools.groupby(u.phase for u in b.updates[job.id])]
            assert phases == ["", "preflight", "approach", "play", "finish"]
            result = last.result
            assert result["outcome"] == "completed"
            assert (result["cycles"], result["late_cycles"]) == (250, 1)
            assert 0.0 < max(result["limit_use"]["speed"]) < 1.0
            (request,) = b.device.requests
            assert request.motion_id == job.id
            assert request.approach is not None and request.approach.speed == 0.3
            assert request.tracking_limit == (b.settings.robots["r1"].tracking_limit,) * 6
            row, recording = stored_recording(b, result["recording_id"])
            assert (row.state, row.job_id, row.reason) == (RecordingState.COMPLETE, job.id, None)
            assert row.model_digest is not None
            assert row.details["trajectory_id"] == request_trajectory(b, job.id)
            # 450 before and 100 of the approach, of which the last 0.5 s are rest; 5 x 50 of the motion; more life
            assert row.samples == 250 + 250
            assert row.lost == 0
            assert recording.t[0] == pytest.approx((550 - 250 + 1) / 500.0)
            guard = b.engine.guards["r1"]
            assert guard.permit.state is PermitState.DISARMED
            with pytest.raises(ConflictError, match="arm it first") as refused:
                await play(b, trajectory(b))
            assert refused.value.code == "robot-disarmed"
            with b.database.reading() as session:
                permit = [e.kind for e in events.find(session) if e.kind.startswith("permit.")]
            assert permit == ["permit.armed", "permit.moving", "permit.stopping", "permit.disarmed"]

    asyncio.run(scenario())


def request_trajectory(b: Any, job_id: str) -> str:
    identifier: str = b.row(job_id).request["trajectory_id"]
    return identifier


def test_what_is_played_is_the_file_that_was_checked(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            files: list[Any] = []

            def look() -> None:
                with np.load(b.device.requests[0].trajectory) as file:
                    files.append({name: file[name] for name in file.files})

            b.device.ends = look
            last = await b.follow((await play(b, trajectory(b), record=False)).id)
            assert last.state == "succeeded" and last.result["recording_id"] is None
            assert files[0]["q"].shape == files[0]["qd"].shape == (1001, 6)
            assert np.allclose(np.diff(files[0]["t"]), 0.002)
            with b.database.reading() as session:
                assert recordings.find(session) == []

    asyncio.run(scenario())


def test_motion_needs_trajectory_permit_lease_and_a_free_robot(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            with pytest.raises(ConflictError) as refused:
                await play(b, trajectory(b))
            assert refused.value.code == "robot-disarmed"
            token = await b.arm()
            for changes, code in (
                ({"trajectory_id": "trj_unknown"}, "trajectory-not-found"),
                ({"trajectory_id": trajectory(b, robot="r2")}, "trajectory-of-other-robot"),
                ({"approach": {"speed": 0.0, "acceleration": 1.0}}, "request-invalid"),
            ):
                with pytest.raises(Exception) as caught:
                    await play(b, **{"trajectory_id": trajectory(b), **changes})
                assert caught.value.code == code  # type: ignore[attr-defined]
            with pytest.raises(Exception, match="approach: Field required"):
                await b.engine.submit("play", {"robot": "r1", "trajectory_id": "t"}, lease_token=token)
            for token_sent, code in ((None, "lease-required"), ("wrong", "lease-invalid")):
                b.token = token_sent
                with pytest.raises(ConflictError) as refused:
                    await play(b, trajectory(b))
                assert refused.value.code == code
            b.token = token
            b.device.steps = 200
            job = await play(b, trajectory(b))
            with pytest.raises(ConflictError) as refused:
                await play(b, trajectory(b))
            assert (refused.value.code, refused.value.context["job"]) == ("robot-busy", job.id)
            await b.engine.cancel(job.id)
            await b.follow(job.id)
            with b.database.reading() as session:
                assert len(jobs.find(session)) == 1
            with pytest.raises(NotFoundError):
                await b.engine.submit("record", {"robot": "r9", "duration": 1.0})

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("amplitude", "n", "approach", "code", "text"),
    [
        (20.0, 6, APPROACH, "motion-outside-limits", "Nothing was moved"),
        (0.1, 5, APPROACH, "trajectory-joints-mismatch", "the robot has 6"),
        (0.1, 6, {"speed": 50.0, "acceleration": 1.0}, "motion-outside-limits", "slower approach"),
    ],
)
def test_a_motion_that_may_not_be_is_refused_before_anything_moves(
    bench: Callable[..., Any], amplitude: float, n: int, approach: dict[str, float], code: str, text: str
) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            last = await b.follow((await play(b, trajectory(b, amplitude=amplitude, n=n), approach=approach)).id)
            assert (last.state, last.phase, last.error.code) == ("failed", "preflight", code)
            assert text in last.error.detail
            if code == "motion-outside-limits":
                assert last.error.context["joint"] >= 1
            assert b.device.requests == []
            assert b.engine.guards["r1"].permit.state is PermitState.ARMED  # nothing used it

    asyncio.run(scenario())


def test_an_approach_from_beyond_the_limits_is_refused(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            b.device.produce(1, offset=7.0)
            last = await b.follow((await play(b, trajectory(b))).id)
            assert (last.state, last.phase, last.error.code) == ("failed", "preflight", "motion-outside-limits")
            assert "joint 1 (shoulder_pan_joint) stands at 7" in last.error.detail
            assert last.error.context["kind"] == "approach start"
            assert b.device.requests == []

    asyncio.run(scenario())


def test_a_device_that_refuses_disarms_without_a_fault(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            b.device.refusal = MotionRefused("joint 3 is 0.2 rad off the first pose", code="not-at-start")
            last = await b.follow((await play(b, trajectory(b), approach=None)).id)
            assert (last.state, last.error.code) == ("failed", "not-at-start")
            assert b.engine.guards["r1"].permit.state is PermitState.DISARMED

    asyncio.run(scenario())


def by_stop(b: Any, _job: str) -> Any:
    return b.engine.guards["r1"].stop("operator pressed stop")


def by_cancel(b: Any, job: str) -> Any:
    return b.engine.cancel(job, "cancelled by the user")


def by_release(b: Any, _job: str) -> Any:
    return b.engine.guards["r1"].release_lease(b.token)


def by_shutdown(b: Any, _job: str) -> Any:
    return b.engine.close()


@pytest.mark.parametrize(
    ("how", "state", "code", "reason"),
    [
        (by_stop, "failed", "motion-stopped", "operator pressed stop"),
        (by_cancel, "cancelled", "job-cancelled", "cancelled by the user"),
        (by_release, "failed", "motion-stopped", "the lease of r1 was released"),
        (by_shutdown, "interrupted", "job-interrupted", "the service was shut down"),
    ],
)
def test_a_stopped_motion_keeps_its_recording(
    bench: Callable[..., Any], how: Callable[[Any, str], Any], state: str, code: str, reason: str
) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            b.device.steps = 1000
            job = await play(b, trajectory(b))
            await b.until(job.id, lambda u: u.phase == "play" and u.progress > 0.251)
            following = asyncio.create_task(b.follow(job.id))
            await how(b, job.id)
            last = await following
            assert (last.state, last.error.code) == (state, code)
            assert reason in last.error.detail
            assert last.result["outcome"] == "stopped"
            row, _ = stored_recording(b, last.result["recording_id"])
            assert (row.state, row.reason) == (RecordingState.COMPLETE, f"motion stopped: {reason}")
            assert row.samples > 0 and row.samples % 50 == 0
            assert b.engine.guards["r1"].permit.state is PermitState.DISARMED

    asyncio.run(scenario())


def test_a_stop_that_comes_right_after_the_permit_prevents_the_motion(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permit says MOVING, the device has not been asked yet: a stop in between must not be overtaken."""

    async def scenario() -> None:
        async with bench() as b:
            guard = b.engine.guards["r1"]
            await b.arm()
            stops: list[asyncio.Task[None]] = []
            begin = guard.begin_motion

            def begin_and_stop(arming: int, reason: str) -> None:
                begin(arming, reason)
                stops.append(asyncio.create_task(guard.stop("operator pressed stop")))

            monkeypatch.setattr(guard, "begin_motion", begin_and_stop)
            last = await b.follow((await play(b, trajectory(b))).id)
            await stops[0]
            assert (last.state, last.error.code) == ("failed", "motion-stopped")
            assert "operator pressed stop" in last.error.detail
            assert b.device.requests == []
            assert guard.permit.state is PermitState.DISARMED

    asyncio.run(scenario())


@pytest.mark.parametrize("how", [by_stop, by_release])
def test_what_is_prepared_ends_with_its_arming_and_no_later_one_revives_it(
    bench: Callable[..., Any], how: Callable[[Any, str], Any]
) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            job = await play(b, trajectory(b))
            await b.until(job.id, lambda u: u.phase == "preflight")
            await how(b, job.id)
            await b.arm()
            last = await b.follow(job.id)
            assert (last.state, last.error.code, last.phase) == ("cancelled", "job-cancelled", "preflight")
            assert "operator pressed stop" in last.error.detail or "lease" in last.error.detail
            assert b.device.requests == []
            assert b.engine.guards["r1"].permit.state is PermitState.ARMED

    asyncio.run(scenario())


def test_a_lease_that_lapses_stops_the_motion(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm(seconds=60.0)
            b.device.steps = 2000
            job = await play(b, trajectory(b))
            await b.until(job.id, lambda u: u.phase == "play")
            b.engine.guards["r1"].renew_lease(b.token, 1.0)
            last = await b.follow(job.id)
            assert (last.state, last.error.code) == ("failed", "motion-stopped")
            assert "lapsed" in last.error.detail
            assert b.device.authority is None

    asyncio.run(scenario())


def test_a_fault_latches_and_keeps_the_recording(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            steps = itertools.count()
            b.device.ends = lambda: (
                b.device.finished("faulted", "protective stop", code="protective-stop") if next(steps) == 2 else None
            )
            last = await b.follow((await play(b, trajectory(b))).id)
            assert (last.state, last.error.code) == ("failed", "motion-faulted")
            assert last.error.context["cause"] == "protective-stop"
            row, _ = stored_recording(b, last.result["recording_id"])
            assert (row.state, row.samples) == (RecordingState.COMPLETE, 250 + 150)
            guard = b.engine.guards["r1"]
            assert guard.permit.state is PermitState.FAULTED
            with pytest.raises(ConflictError):
                guard.arm(b.token)
            await guard.reset(b.token)
            guard.arm(b.token)

    asyncio.run(scenario())


def test_a_stop_that_is_not_confirmed_is_a_fault(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            b.device.steps = 1000
            b.device.stop_confirmed = False
            job = await play(b, trajectory(b))
            await b.until(job.id, lambda u: u.phase == "play" and u.progress > 0.251)
            await b.engine.cancel(job.id)
            last = await b.follow(job.id)
            assert (last.state, last.error.code) == ("failed", "motion-faulted")
            assert last.error.context["cause"] == "stop-unconfirmed"
            assert last.result["outcome"] == "faulted"
            row, _ = stored_recording(b, last.result["recording_id"])
            assert row.state == RecordingState.COMPLETE
            assert b.engine.guards["r1"].permit.state is PermitState.FAULTED

    asyncio.run(scenario())


def test_a_motion_whose_recording_fails_is_stopped(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            await b.arm()
            b.device.steps = 1000
            (b.settings.data_dir / "recordings").write_text("a file where a folder has to be")
            last = await b.follow((await play(b, trajectory(b))).id)
            assert last.state == "failed"
            assert last.result["outcome"] == "stopped"
            assert last.result["recording_id"] is None
            assert "recording failed" in last.result["reason"]
            with b.database.reading() as session:
                (row,) = recordings.find(session)
            assert row.state == RecordingState.FAILED
            assert b.engine.guards["r1"].permit.state is PermitState.DISARMED

    asyncio.run(scenario())


def test_record_takes_what_comes_and_needs_no_permit(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            b.device.produce(300)
            job = await b.engine.submit("record", {"robot": "r1", "duration": 1.0})
            following = asyncio.create_task(b.follow(job.id))
            while not following.done():
                b.device.produce(5)
                await asyncio.sleep(0.01)
            last = following.result()
            assert last.state == "succeeded", last.error
            row, recording = stored_recording(b, last.result["recording_id"])
            assert row.samples == last.result["samples"] > 100
            assert recording.t[0] >= 551 / 500.0
            again = await b.engine.submit("record", {"robot": "r1", "duration": 60.0})
            await b.until(again.id, lambda u: u.phase == "record" and bool(u.message))
            b.device.produce(50)
            await b.engine.cancel(again.id)
            last = await b.follow(again.id)
            assert last.state == "cancelled"
            row, _ = stored_recording(b, last.result["recording_id"])
            assert (row.state, row.samples, row.reason) == ("complete", 50, "cancelled on request")

    asyncio.run(scenario())
