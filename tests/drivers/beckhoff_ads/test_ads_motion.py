"""The player in the PLC, told and watched over ADS: it plays, stops along the path, refuses, and stops unwatched."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.models import resolve
from core.models.six_upru import SixUPRU
from core.streaming.samples import STATUS_MOVING, STATUS_PROGRAM_RUNNING, SampleBlock
from drivers.beckhoff_ads import upload
from drivers.beckhoff_ads.driver import BeckhoffAdsDriver
from drivers.beckhoff_ads.motion import AdsMotionPlayer
from drivers.beckhoff_ads.variables import Variables
from drivers.contract import KEEP_ALIVE_PERIOD, ApproachSpeed, DriverError, DriverProtocolError, MotionFinish
from drivers.trajectory import PlayableTrajectory, TrajectoryFileError
from drivers.virtual.process import VirtualUpru6
from drivers.virtual.truth import truth_leg_current
from drivers.virtual.upru_parameters import perturbed_upru, upru_model

DURATION, AMPLITUDE = 0.8, 0.02
SWAY = np.array([1.0, -1.0, 0.5, 0.5, -0.5, 0.2])  # of the legs
APPROACH = ApproachSpeed(0.2, 1.0)


@pytest.fixture(scope="module")
def home() -> np.ndarray:
    model = resolve("upru6")
    assert isinstance(model, SixUPRU)
    return model.leg_lengths(model.home)[0]


@pytest.fixture
def sway(tmp_path: Path, home: np.ndarray) -> Callable[..., Path]:
    """Make a trajectory: the legs sway, and come back."""

    def make(amplitude: float = AMPLITUDE, start: float = 0.0, period: float = 0.002) -> Path:
        t = np.arange(0.0, DURATION + 1e-9, period)
        w = 2.0 * np.pi / DURATION
        q = home + start + 0.5 * amplitude * np.outer(1.0 - np.cos(w * t), SWAY)
        path = tmp_path / f"sway-{amplitude:g}-{start:g}.npz"
        np.savez(path, t=t, q=q, qd=0.5 * amplitude * w * np.outer(np.sin(w * t), SWAY))
        return path

    return make


class Listener:
    """Lets the trajectory begin, and does ``during`` once when half is over."""

    def __init__(self, player: AdsMotionPlayer, during: Callable[[], object]) -> None:
        self.seen: list[str] = []
        self.finish: MotionFinish | None = None
        self.over = threading.Event()
        self.silent = False
        self._player = player
        self._during = during

    def accepted(self) -> None:
        self.seen.append("accepted")

    def at_start(self) -> None:
        self.seen.append("at_start")
        self._player.proceed()

    def progress(self, time: float) -> None:
        if time >= DURATION / 3 and "third" not in self.seen:
            self.seen.append("third")
            self._during()

    def finished(self, finish: MotionFinish) -> None:
        assert self.finish is None
        self.finish = finish
        self.over.set()


class Robot:
    """The robot with all its samples, read by a thread, and one motion at a time."""

    def __init__(self, driver: BeckhoffAdsDriver) -> None:
        self.driver = driver
        self.listener: Listener | None = None
        self._blocks: list[SampleBlock] = []
        self._closing = threading.Event()
        self.streams = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        assert self.streams.wait(10.0)

    def _read(self) -> None:
        with closing(self.driver.source()) as source:
            while not self._closing.is_set():
                try:
                    source.connect()
                    self.streams.set()
                    while not self._closing.is_set():
                        block = source.read(0.1)
                        if block is not None:
                            self._blocks.append(block)
                except DriverError:
                    time.sleep(0.02)

    @property
    def samples(self) -> SampleBlock:
        return np.concatenate(self._blocks)

    def play(
        self,
        path: Path,
        during: Callable[[AdsMotionPlayer], object] = lambda _: None,
        approach: ApproachSpeed | None = APPROACH,
    ) -> MotionFinish:
        player = self.driver.player(path, approach, settle_time=0.15)
        listener = self.listener = Listener(player, lambda: during(player))
        player.start(listener)
        deadline = time.monotonic() + 20.0
        while not listener.over.wait(KEEP_ALIVE_PERIOD):
            assert time.monotonic() < deadline
            if not listener.silent:
                player.keep_alive()
        assert listener.finish is not None
        return listener.finish

    def until_rest(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            newest = self._blocks[-1][-1] if self._blocks else None
            fresh = newest is not None and time.monotonic_ns() - newest["receive_time"] < 100_000_000
            if fresh and not newest["status"] & (STATUS_MOVING | STATUS_PROGRAM_RUNNING):
                return
            time.sleep(0.005)
        pytest.fail(f"the robot still moves after {seconds} s")

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self.driver.halt()
        self.driver.recover()


@pytest.fixture
def robot(driver: BeckhoffAdsDriver) -> Iterator[Robot]:
    with closing(Robot(driver)) as robot:
        yield robot


Sway = Callable[..., Path]


def test_a_trajectory_is_played_as_it_was_meant(robot: Robot, sway: Sway, home: np.ndarray) -> None:
    finish = robot.play(sway(start=0.005))
    assert (finish.outcome, finish.code) == ("completed", None), finish
    assert robot.listener is not None
    assert robot.listener.seen == ["accepted", "at_start", "third"]
    robot.until_rest(1.0)
    samples = robot.samples
    assert samples["lost"].sum() == 0
    way = samples["q"] - home - 0.005
    np.testing.assert_allclose(way.max(axis=0)[[0, 2, 3, 5]], AMPLITUDE * SWAY[[0, 2, 3, 5]], atol=2e-3)
    np.testing.assert_allclose(way[-1], 0.0, atol=1e-3)
    assert np.abs(samples["q"] - samples["target_q"]).max() < 3e-3
    assert np.abs(np.diff(samples["target_qd"], axis=0)).max() < 0.01  # m/s in a cycle: no jump


def test_a_stop_that_leaves_time_stays_on_the_path(robot: Robot, sway: Sway, home: np.ndarray) -> None:
    finish = robot.play(sway(), lambda player: player.stop("lunch", immediately=False))
    assert (finish.outcome, finish.reason, finish.code) == ("stopped", "lunch", None)
    robot.until_rest(1.0)
    samples = robot.samples
    standing = np.flatnonzero(np.abs(samples["target_qd"]).max(axis=1) == 0.0)
    begun = standing[standing < samples.size - 300][-1]  # after the approach
    way = samples["target_q"][begun:] - samples["target_q"][begun]
    np.testing.assert_allclose(way, way[:, :1] * SWAY, atol=1e-6)


def test_an_immediate_stop(robot: Robot, sway: Sway) -> None:
    finish = robot.play(sway(), lambda player: player.stop("crash", immediately=True))
    assert (finish.outcome, finish.reason) == ("stopped", "crash")
    robot.until_rest(1.0)


def test_a_stop_on_the_way_to_the_first_pose(robot: Robot, sway: Sway) -> None:
    player = robot.driver.player(sway(start=0.1), ApproachSpeed(0.05, 0.5), settle_time=0.0)
    listener = Listener(player, lambda: None)
    listener.accepted = lambda: threading.Timer(0.3, player.stop, ("not there",), {"immediately": False}).start()  # type: ignore[method-assign]
    player.start(listener)
    while not listener.over.wait(KEEP_ALIVE_PERIOD):
        player.keep_alive()
    assert listener.finish is not None
    assert (listener.finish.outcome, listener.finish.reason) == ("stopped", "not there")
    assert listener.seen == []
    robot.until_rest(1.0)
    assert robot.samples["target_q"][-1, 0] < robot.samples["target_q"][0, 0] + 0.05


def test_a_host_that_falls_silent_leaves_a_robot_that_stops(robot: Robot, sway: Sway) -> None:
    def fall_silent(_: AdsMotionPlayer) -> None:
        assert robot.listener is not None
        robot.listener.silent = True

    finish = robot.play(sway(), fall_silent)
    assert (finish.outcome, finish.code) == ("faulted", "device-host-silent")
    robot.until_rest(1.0)


def test_an_abandoned_motion_is_stopped_by_the_plc(robot: Robot, sway: Sway, virtual_upru6: VirtualUpru6) -> None:
    finish = robot.play(sway(), lambda player: player.kill())
    assert (finish.outcome, finish.code) == ("faulted", "motion-abandoned")
    robot.until_rest(1.5)
    assert virtual_upru6.request("statistics")["error"] == "HEARTBEAT_LOST"
    refused = robot.play(sway())
    assert (refused.outcome, refused.code) == ("faulted", "heartbeat-lost")
    assert "find the cause, then release it" in refused.reason
    robot.driver.recover()
    assert robot.play(sway()).outcome == "completed"


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        ({"do": "drive-error", "leg": 2, "number": 0x8611}, {"drive-fault"}),
        ({"do": "download"}, {"motion-lost"}),
        ({"do": "drop"}, {"connection-lost", "controller-timeout"}),
        ({"do": "stall", "seconds": 1.0}, {"controller-timeout"}),
    ],
    ids=lambda value: value["do"] if isinstance(value, dict) else "",
)
def test_faults_while_moving(
    robot: Robot, virtual_upru6: VirtualUpru6, sway: Sway, fault: dict[str, object], codes: set[str]
) -> None:
    finish = robot.play(sway(), lambda _: virtual_upru6.request(**fault))  # type: ignore[arg-type]
    assert finish.outcome == "faulted"
    assert finish.code in codes, finish
    robot.until_rest(3.0)


def test_a_halt_from_elsewhere_is_told_as_what_it_is(robot: Robot, sway: Sway) -> None:
    finish = robot.play(sway(), lambda _: robot.driver.halt())
    assert (finish.outcome, finish.code) == ("faulted", "program-stopped")
    robot.until_rest(1.0)


def test_the_emergency_stop_and_a_stopped_plc_are_told(robot: Robot, virtual_upru6: VirtualUpru6, sway: Sway) -> None:
    finish = robot.play(sway(), lambda _: virtual_upru6.request("emergency-stop", on=True))
    virtual_upru6.request("emergency-stop", on=False)
    assert (finish.outcome, finish.code) == ("faulted", "emergency-stop")
    robot.driver.recover()
    finish = robot.play(sway(), lambda _: virtual_upru6.request("plc-stop"))
    virtual_upru6.request("plc-run")
    assert (finish.outcome, finish.code) == ("faulted", "plc-heartbeat-lost")
    robot.until_rest(3.0)


def test_a_motion_goes_on_over_an_online_change(robot: Robot, virtual_upru6: VirtualUpru6, sway: Sway) -> None:
    finish = robot.play(sway(), lambda _: virtual_upru6.request("online-change"))
    assert (finish.outcome, finish.code) == ("completed", None)
    robot.until_rest(1.0)
    assert robot.samples["lost"].sum() == 0


def test_motions_that_are_refused_move_nothing(
    robot: Robot, virtual_upru6: VirtualUpru6, sway: Sway, tmp_path: Path
) -> None:
    assert robot.play(sway()).outcome == "completed"
    before = robot.samples["target_q"][-1]
    far = robot.play(sway(start=0.05), approach=None)
    assert (far.outcome, far.code) == ("faulted", "not-at-start")
    assert "ask for an approach" in far.reason
    outside = robot.play(sway(amplitude=0.6))
    assert (outside.outcome, outside.code) == ("faulted", "plc-upload-failed")
    assert "OUT_OF_STROKE" in outside.reason
    too_fast = robot.play(sway(start=0.02), approach=ApproachSpeed(5.0, 1.0))
    assert (too_fast.outcome, too_fast.code) == ("faulted", "approach-refused")
    virtual_upru6.request("emergency-stop", on=True)
    stopped = robot.play(sway())
    virtual_upru6.request("emergency-stop", on=False)
    assert (stopped.outcome, stopped.code) == ("faulted", "emergency-stop")
    robot.driver.recover()
    np.testing.assert_allclose(robot.samples["target_q"][-1], before, atol=1e-3)
    (tmp_path / "torn.npz").write_bytes(sway().read_bytes()[:100])
    with pytest.raises(TrajectoryFileError):
        robot.driver.player(tmp_path / "torn.npz", None, 0.0)


def test_a_robot_that_stands_nearly_at_the_first_pose_is_not_jerked_there(robot: Robot, sway: Sway) -> None:
    robot.play(sway())
    before = robot.samples.size
    finish = robot.play(sway(start=0.003), approach=None)
    assert (finish.outcome, finish.code) == ("completed", None), finish
    samples = robot.samples[before:]
    arrived = int(np.argmax(np.abs(samples["target_q"][:, 1] - samples["target_q"][-1, 1]) < 1e-6))
    speeding_up = np.diff(samples["target_qd"][:arrived], axis=0) / 0.001
    assert np.abs(speeding_up).max() < 0.06  # m/s²


# --- tables --------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Make a file of feedforward currents."""

    def make(current: np.ndarray, period: float = 0.002) -> Path:
        path = tmp_path / "feedforward.npz"
        np.savez(path, period=period, current=current)
        return path

    return make


def test_a_feedforward_table_is_added_to_its_own_trajectory_only(
    robot: Robot, sway: Sway, table: Callable[..., Path]
) -> None:
    path, other = sway(), sway(amplitude=0.03)
    rows = np.load(path)["t"].size
    current = np.outer(np.linspace(0.0, 1.0, rows), [0.4, -0.3, 0.2, 0.1, -0.1, 0.05])
    assert robot.driver.load_feedforward(path, table(current)) > 0
    finish = robot.play(path)
    assert finish.outcome == "completed", finish
    robot.until_rest(1.0)
    fed = robot.samples["target_current"]
    np.testing.assert_allclose(np.abs(fed).max(axis=0), np.abs(current[-1]), rtol=0.01)
    assert not fed_in(robot, other)
    robot.driver.clear_feedforward()
    assert not fed_in(robot, path)


def fed_in(robot: Robot, path: Path) -> bool:
    """Tell whether anything is added while ``path`` is played; what fades out before does not count."""
    before = robot.samples.size
    assert robot.play(path).outcome == "completed"
    samples = robot.samples[before:]
    played = samples[samples["status"] & STATUS_PROGRAM_RUNNING != 0]
    return bool(played["target_current"][played.size // 3 :].any())


def test_tables_that_cannot_be_are_refused_before_anything_is_written(
    driver: BeckhoffAdsDriver, sway: Sway, table: Callable[..., Path]
) -> None:
    for current in (np.zeros((5, 5)), np.zeros(6), np.full((5, 6), np.nan)):
        with pytest.raises(TrajectoryFileError):
            driver.load_feedforward(sway(), table(current))
    with pytest.raises(InputError, match=r"the PLC at .* holds 30001"):
        driver.load_feedforward(sway(), table(np.zeros((30002, 6))))


def test_an_upload_that_somebody_else_disturbs_is_noticed(driver: BeckhoffAdsDriver, sway: Sway) -> None:
    """Another program writes a row between writing and reading back."""
    rows = upload.trajectory_rows(PlayableTrajectory.load(sway(period=0.0001), 6))  # several chunks
    with contextlib.closing(driver._link.session(1.0)) as session:
        variables = Variables(session)
        calls = iter(range(10**6))
        chunks = -(-rows.nbytes // upload.CHUNK)

        def disturb() -> None:
            if next(calls) == chunks - 1:  # all is written, nothing read back
                group, offset, _ = variables.elements("aTrajectory", 3, 1)
                session.write("a row", group, offset, b"\1")

        with pytest.raises(DriverProtocolError, match="is not what was written") as disturbed:
            upload.upload(variables, upload.TRAJECTORY, rows, 0.0001, meanwhile=disturb)
        assert disturbed.value.code == "plc-upload-failed"
        assert upload.upload(variables, upload.TRAJECTORY, rows, 0.0001) > 0
        upload.withdraw(variables, upload.TRAJECTORY)


def test_the_right_feedforward_makes_the_legs_follow_better(
    robot: Robot, sway: Sway, table: Callable[..., Path]
) -> None:
    """What the drives would need is taken from the virtual robot's truth, since this is about the way there."""
    path = sway()
    plant = perturbed_upru(upru_model(), 1)
    motion = PlayableTrajectory.load(path, 6)
    acceleration = np.gradient(motion.qd, motion.period, axis=0)
    current = truth_leg_current(plant, *plant.robot.from_joints(motion.q, motion.qd, acceleration))
    error = []
    for loaded in (False, True):
        if loaded:
            robot.driver.load_feedforward(path, table(current - current[0]))
        before = robot.samples.size
        assert robot.play(path).outcome == "completed"
        samples = robot.samples[before:]
        moving = samples[samples["status"] & STATUS_MOVING != 0]
        error.append(np.sqrt(np.mean((moving["q"] - moving["target_q"]) ** 2)))
    robot.driver.clear_feedforward()
    assert error[1] < 0.6 * error[0], error
