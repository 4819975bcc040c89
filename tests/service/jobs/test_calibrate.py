"""A calibration at start-up: a motion, and what it says about the result in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.excitation import catalogue as motion
from core.models import catalogue as robot_model
from core.pipelines.identify import identify
from core.recordings import Recording
from core.streaming.samples import sample_dtype
from service.errors import ConflictError, NotFoundError
from service.jobs.calibration_profiles import calibrate_request
from service.settings import CalibrationProfile
from service.storage import events, results, trajectories

RATE = 500.0
VISCOUS = np.array([15.0, 16.0, 9.0, 4.0, 3.5, 3.0])
MODEL = robot_model("ur10e")


def moved(name: str, viscous: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Times, positions, speeds and currents of a robot that goes through a ready-made motion."""
    s = motion(name).sample(1.0 / RATE)
    assert MODEL.drive_gains is not None
    noise = np.random.default_rng(seed).normal(0.0, 0.5, s.q.shape)
    torque = MODEL.inverse_dynamics(s.q, s.qd, s.qdd) + 5.0 * np.sign(s.qd) + viscous * s.qd + noise
    return s.t, s.q, s.qd, torque / MODEL.drive_gains


def put_in_force(b: Any) -> str:
    """Identify the robot as it is at first, and put the result in force."""
    t, q, qd, current = moved("ur10e_excitation", VISCOUS, 1)
    made = Recording("training", t, q, qd, current=current)
    document = identify(MODEL, [made], gains=MODEL.drive_gains).to_document()
    with b.database.session() as session:
        row = results.create(session, robot="r1", recording_ids=[], settings={}, document=document)
        results.set_validation(session, row.id, {"passed": True})
        return results.activate(session, row.id).id


def plays(b: Any, viscous: np.ndarray) -> str:
    """Have the device move like the robot; return the trajectory it is asked for."""
    ready_made = motion("ur10e_validation")
    t, q, qd, current = moved("ur10e_validation", viscous, 2)
    stands = 400  # samples at the first pose: longer than what is recorded before a motion
    begun = b.device._written + stands
    b.device.steps = len(t) // 50

    def produce(count: int, offset: float = 0.0) -> int:
        block = np.zeros(count, sample_dtype(6))
        k = b.device._written + np.arange(count)
        at = np.clip(k - begun - 100, 0, len(t) - 1)  # it stands at the first pose during the approach
        block["sequence"] = k + 1
        block["controller_time"] = (k + 1) / RATE
        block["torque"] = np.nan
        block["q"], block["qd"], block["current"] = q[at], qd[at], current[at]
        b.device._written += count
        head: int = b.device.ring.push(block)
        b.device.status = b.device.status.model_copy(update={"samples": head})
        return head

    b.device.produce = produce
    b.device.step_seconds = 0.001
    produce(stands)
    with b.database.session() as session:
        return trajectories.create(
            session,
            name="short",
            robot="r1",
            definition=ready_made.definition(),
            n_joints=6,
            duration=ready_made.duration,
        ).id


async def calibrated(b: Any, viscous: np.ndarray) -> Any:
    trajectory_id = plays(b, viscous)
    await b.arm()
    request = {"robot": "r1", "trajectory_id": trajectory_id, "approach": {"speed": 0.3, "acceleration": 0.5}}
    job = await b.engine.submit("calibrate", request, lease_token=b.token)
    last = await b.follow(job.id, seconds=120.0)
    assert last.state == "succeeded", last.error
    return last.result


@pytest.mark.parametrize(
    ("factor", "outcome", "drifted"), [(1.0, "accepted", []), (1.6, "flagged", [3])], ids=["as it was", "worn"]
)
def test_a_robot_is_compared_with_its_result_in_force(
    bench: Callable[..., Any], factor: float, outcome: str, drifted: list[int]
) -> None:
    async def scenario() -> None:
        async with bench() as b:
            in_force = put_in_force(b)
            result = await calibrated(b, VISCOUS * [1, 1, factor, 1, 1, 1])
            assert (result["outcome"], result["drift"]["drifted"]) == (outcome, drifted)
            assert result["result_id"] == in_force
            with b.database.reading() as session:
                (told,) = events.find(session, kind=f"calibration.{outcome}")
                assert results.get(session, in_force).state == "active"
            assert told.subject == in_force
            if drifted:
                assert "friction of elbow_joint has changed" in result["summary"]

    asyncio.run(scenario())


def test_a_profile_is_the_newest_trajectory_of_its_name(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            profile = {"trajectory": "short", "approach": {"speed": 0.3, "acceleration": 0.5}, "time_limit": 50.0}
            robot = b.settings.robots["r1"].model_copy(
                update={"calibration": {"short": CalibrationProfile.model_validate(profile)}}
            )
            with b.database.reading() as session:
                with pytest.raises(ConflictError, match="none of that name") as refusal:
                    calibrate_request(session, robot, "short")
                assert refusal.value.code == "trajectory-not-stored"
                with pytest.raises(NotFoundError, match="its settings have short"):
                    calibrate_request(session, robot, "long")
            plays(b, VISCOUS)
            newest = plays(b, VISCOUS)
            with b.database.reading() as session:
                request = calibrate_request(session, robot, "short")
            assert (request.trajectory_id, request.time_limit) == (newest, 50.0)

    asyncio.run(scenario())


def test_a_calibration_that_takes_too_long_is_stopped(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            put_in_force(b)
            trajectory_id = plays(b, VISCOUS)
            await b.arm()
            request = {"robot": "r1", "trajectory_id": trajectory_id, "approach": None, "time_limit": 0.05}
            job = await b.engine.submit("calibrate", request, lease_token=b.token)
            last = await b.follow(job.id)
            assert (last.state, last.error.code) == ("failed", "job-timed-out")

    asyncio.run(scenario())


def test_without_a_result_in_force_nothing_moves(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench() as b:
            trajectory_id = plays(b, VISCOUS)
            await b.arm()
            request = {"robot": "r1", "trajectory_id": trajectory_id, "approach": None}
            with pytest.raises(ConflictError, match="nothing to compare") as refusal:
                await b.engine.submit("calibrate", request, lease_token=b.token)
            assert refusal.value.code == "no-active-result"
            assert b.device.requests == []

    asyncio.run(scenario())
