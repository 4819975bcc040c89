"""From recordings of a platform over its sensors and drives to a table in its controller, in real workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import InputError
from core.excitation import FourierQuintic, check_motion, trajectory_from_definition
from core.excitation.motion_check import joint_samples
from core.models import SixUPRU, resolve
from core.recordings.mcap_log import McapSampleWriter
from core.streaming.samples import sample_dtype
from service.errors import ConflictError
from service.jobs.models import JobUpdate
from service.motion.feedforward import prepare_feedforward
from service.motion.preflight import prepare_motion
from service.storage import recordings, results, trajectories

TARE = np.array([8.0, -5.0, 3.0, -9.0, 6.0, 1.0])
SENSOR_GAIN = 1.0 + np.array([0.01, -0.008, 0.004, -0.012, 0.009, -0.003])  # one in the mean
GRAVITY = 9.81 * np.array([0.01, -0.012, -np.sqrt(1.0 - 0.01**2 - 0.012**2)])
DRIVE_GAIN = np.array([250.0, 240.0, 263.0, 255.0, 246.0, 251.0])
SCREW = np.array([90.0, 85.0, 99.0, 80.0, 94.0, 92.0])
AXIAL = ["Ia1", "Ia2+Ia3+Ia4"]
PERIOD = 0.004
HEXAPOD = {
    "driver": "beckhoff_ads",
    "host": "127.0.0.1",
    "model": "upru6",
    "rate_hz": 500.0,
    "motion_enabled": True,
    "virtual": True,
    "ads": {"ams_net_id": "127.0.0.1.1.1"},
}


def platform() -> SixUPRU:
    model = resolve("upru6")
    assert isinstance(model, SixUPRU)
    return model


def motion(seed: int, size: float = 1.0) -> FourierQuintic:
    """A motion of the platform about its home; ``size`` 0.2 is within its limits."""
    random, home = np.random.default_rng(seed), platform().home
    a, b = random.uniform(-1.0, 1.0, (2, 6, 5)) * size * np.array([0.04, 0.04, 0.04, 0.1, 0.1, 0.1])[:, None]
    return FourierQuintic(10.0, a, b, home, home)


def record(b: Any, seed: int) -> str:
    """Store a recording of a perfect platform with imperfect sensors, under a base that is not level."""
    robot, s = platform().with_gravity(GRAVITY), motion(seed).sample(PERIOD)
    legs, random = joint_samples(s, robot), np.random.default_rng(seed)
    force = robot.inverse_dynamics(s.q, s.qd, s.qdd)
    carried = robot.motor_force(s.q, s.qd, s.qdd) + SCREW * legs.qdd + 50.0 * np.tanh(legs.qd / 1e-3) + 260.0 * legs.qd
    block = np.zeros(s.t.size, sample_dtype(6))
    block["sequence"], block["controller_time"] = 1 + np.arange(s.t.size), s.t
    block["q"], block["qd"] = legs.q, legs.qd
    block["torque"] = TARE + SENSOR_GAIN * force + random.normal(0.0, 0.5, force.shape)
    block["current"] = carried / DRIVE_GAIN + random.normal(0.0, 0.02, force.shape)
    with b.database.session() as session:
        row = recordings.create(session, robot="r1")
    writer = McapSampleWriter.create(recordings.file_of(b.settings.data_dir, row), 6, robot="r1")
    writer.write(block)
    stored = writer.finish()
    with b.database.session() as session:
        recordings.finish(
            session,
            row.id,
            recordings.RecordingState.COMPLETE,
            sha256=stored.sha256,
            size=stored.bytes,
            samples=stored.samples,
            lost=stored.lost,
            lapped=stored.lapped,
        )
    return row.id


async def succeeded(b: Any, kind: str, **request: Any) -> dict[str, Any]:
    done = await ended(b, kind, **request)
    assert done.state == "succeeded", done.error
    assert done.result is not None
    return done.result


async def ended(b: Any, kind: str, lease: str | None = None, **request: Any) -> JobUpdate:
    row = await b.engine.submit(kind, request, lease_token=lease)
    update: JobUpdate = await b.follow(row.id, seconds=120.0)
    return update


def test_the_way_from_sensors_over_drives_to_a_table_in_the_controller(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench(robots={"r1": HEXAPOD}) as b:
            train, held_out = record(b, 1), record(b, 2)
            data = {"robot": "r1", "recordings": [train], "without": AXIAL}

            calibration = await succeeded(b, "calibrate_sensors", **data)
            sensors = calibration["sensors"]
            for name, truth in (("tare", TARE), ("gain", SENSOR_GAIN), ("gravity", GRAVITY)):
                error = np.abs(np.array(sensors[name]) - truth)
                assert np.all(error < 5.0 * np.array(calibration[f"{name}_std"])), name
            assert calibration["gauge"] == "the mean of the gains is 1"

            identify = {**data, "gains": "configured", "friction": "none"}
            judge = {"recordings": [held_out], "criteria": {"max_relative_residual": 0.02}}
            raw = await succeeded(b, "identify", **identify)
            assert not (await succeeded(b, "validate", result_id=raw["result_id"], **judge))["passed"]
            forces = await succeeded(b, "identify", **identify, sensors=sensors)
            assert forces["base_parameters"] == 15
            assert max(forces["rms"]) < 0.6 < max(raw["rms"])
            verdict = await succeeded(b, "validate", result_id=forces["result_id"], **judge)
            assert verdict["passed"], verdict["reasons"]
            assert max(verdict["rms_moving"]) < 0.6
            short = {"tare": [0.0] * 5, "gain": [1.0] * 5, "gravity": GRAVITY.tolist()}
            refused = await ended(b, "identify", **identify, sensors=short)
            assert refused.error is not None and refused.error.code == "sensors-invalid"
            with pytest.raises(InputError, match="5 tares and 6 gains"):
                await b.engine.submit("identify", {**identify, "sensors": {**sensors, "tare": [0.0] * 5}})

            drives = await succeeded(b, "leg_drives", result_id=forces["result_id"], recordings=[train])
            assert drives["gain"] == pytest.approx(DRIVE_GAIN.tolist(), rel=0.02)
            assert drives["screw_inertia"] == pytest.approx(SCREW.tolist(), rel=0.2)
            with b.database.reading() as session:
                assert results.get(session, drives["result_id"]).state == "candidate"
            judged = {"result_id": drives["result_id"], "recordings": [held_out]}
            verdict = await succeeded(b, "validate", **judged, criteria={"max_relative_residual": 0.1})
            assert verdict["passed"], verdict["reasons"]
            again = await ended(b, "leg_drives", result_id=drives["result_id"], recordings=[train])
            assert again.error is not None and again.error.code == "sensors-needed"

            await _tables(b, drives["result_id"], forces["result_id"])

    asyncio.run(scenario())


async def _tables(b: Any, drives: str, forces: str) -> None:
    """Tables of what was found, and which of them the controller gets."""
    target = store(b, motion(2))
    build = {"trajectory_id": target, "cycle_time": 0.002}
    table = (await succeeded(b, "feedforward", result_id=drives, **build))["table_id"]
    load = {"robot": "r1", "table_id": table}
    with pytest.raises(ConflictError) as refused:
        await b.engine.submit("load_feedforward", load)
    assert refused.value.code == "lease-required"
    lease = (await b.engine.guards["r1"].acquire_lease("test", 60.0)).token

    told = await succeeded(b, "load_feedforward", lease=lease, **load)
    assert (told["controller_version"], told["rows"]) == (7, 5001)
    trajectory, added = b.device.loaded
    robot, s = platform(), motion(2).sample(0.002)
    np.testing.assert_array_equal(trajectory["q"], joint_samples(s, robot).q)
    assert added["period"] == 0.002
    assert not added["current"][0].any()
    standing = robot.with_gravity(GRAVITY).motor_force(s.q[:1], s.qd[:1], s.qdd[:1])[0] / DRIVE_GAIN
    assert told["standing_current"] == pytest.approx(standing.tolist(), abs=0.02)

    assert (await succeeded(b, "load_feedforward", lease=lease, robot="r1", table_id=None))["rows"] == 0
    assert b.device.loaded == []
    b.device.takes_tables = False
    unable = await ended(b, "load_feedforward", lease=lease, **load)
    assert unable.error is not None and unable.error.code == "feedforward-unsupported"

    of_forces = (await succeeded(b, "feedforward", result_id=forces, **build))["table_id"]
    with pytest.raises(ConflictError) as refused:
        await b.engine.submit("load_feedforward", {"robot": "r1", "table_id": of_forces}, lease_token=lease)
    assert refused.value.code == "table-without-current"


def store(b: Any, trajectory: FourierQuintic) -> str:
    with b.database.session() as session:
        return trajectories.create(
            session, name="sway", robot="r1", definition=trajectory.definition(), n_joints=6, duration=10.0
        ).id


def test_nothing_is_loaded_while_the_robot_moves(bench: Callable[..., Any]) -> None:
    async def scenario() -> None:
        async with bench(robots={"r1": HEXAPOD}) as b:
            b.device.steps = 10_000
            play = {"robot": "r1", "trajectory_id": store(b, motion(2, 0.2)), "approach": None, "record": False}
            lease = await b.arm()
            row = await b.engine.submit("play", play, lease_token=lease)
            await b.until(row.id, lambda update: update.phase == "play", seconds=120.0)
            with pytest.raises(ConflictError) as refused:
                await b.engine.submit("load_feedforward", {"robot": "r1", "table_id": None}, lease_token=lease)
            assert refused.value.code == "robot-busy"
            await b.engine.cancel(row.id)
            assert (await b.follow(row.id)).state == "cancelled"
            assert (await ended(b, "load_feedforward", lease, robot="r1", table_id=None)).state == "succeeded"

    asyncio.run(scenario())


def test_what_is_played_is_what_a_table_was_loaded_for(tmp_path: Path) -> None:
    """The controller tells trajectories by their bytes, so both ways have to give the same."""
    channel: Any = type("Channel", (), {"report": staticmethod(lambda *_: None)})
    definition, files = motion(2, 0.2).definition(), (tmp_path / "played.npz", tmp_path / "loaded.npz")
    prepare_motion(
        channel,
        definition=definition,
        model="upru6",
        period=PERIOD,
        approach=None,
        workspace={"floor": None, "box": None, "self_collision": None},
        ring=tmp_path / "ring",
        n_joints=6,
        trajectory=files[0],
    )
    prepare_feedforward(
        channel,
        definition=definition,
        model="upru6",
        period=PERIOD,
        cycle_time=PERIOD,
        current=np.ones((2501, 6), "<f4").tobytes(),
        n_joints=6,
        trajectory=files[1],
        table=tmp_path / "table.npz",
    )
    played, loaded = (dict(np.load(file)) for file in files)
    assert all(played[name].tobytes() == loaded[name].tobytes() for name in ("t", "q", "qd"))


def test_a_designed_motion_of_a_platform_is_one_that_may_be_played(bench: Callable[..., Any]) -> None:
    """It begins at home; stated limits tighten those of the model."""

    async def scenario() -> None:
        async with bench(robots={"r1": HEXAPOD}) as b:
            limits = {"joint_angle": 0.3, "condition": 6.0}
            request = {"robot": "r1", "name": "new", "friction": None, "harmonics": 2, "period": 2.0, "limits": limits}
            found = await succeeded(b, "excite", **request, time_budget=1.0)
            assert found["condition_number"] < 1e5
            with b.database.reading() as session:
                definition = trajectories.get(session, found["trajectory_id"]).definition
            samples = trajectory_from_definition(definition).sample(0.001)
            np.testing.assert_allclose(samples.q[0], platform().home, atol=1e-12)
            model = replace(platform(), joint_angle_limit=0.3, condition_limit=6.0)
            assert max(max(margin.use) for margin in check_motion(samples, model).margins) <= 1.0

    asyncio.run(scenario())
