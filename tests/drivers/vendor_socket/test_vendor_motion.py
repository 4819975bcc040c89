"""Motion over servo points: played, stopped along the path, refused; and when the process dies, the robot stops."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.streaming.samples import STATUS_MOVING, STATUS_PROGRAM_RUNNING, SampleBlock
from drivers.contract import KEEP_ALIVE_PERIOD, ApproachSpeed, ConnectionLost, MotionFinish, MotionRefused
from drivers.motion_player import ProcessPlayer
from drivers.trajectory import TrajectoryFileError
from drivers.vendor_socket.driver import VendorSocketDriver, create
from drivers.virtual.process import VirtualComanR5

HOME = np.array([0.0, 0.0, 1.2, 0.3, 0.9, 0.0])
AMPLITUDE, PERIOD = 0.15, 1.2
APPROACH = ApproachSpeed(1.0, 2.0)


def save(path: Path, amplitude: float = AMPLITUDE, first: float = 0.0) -> Path:
    """One slow sway of joints 1, 3 and 6 from near the home pose and back, on a grid coarser than the points."""
    t = np.arange(0.0, PERIOD + 1e-9, 0.008)
    w = 2 * np.pi / PERIOD
    joints = np.array([1.0, 0.0, 0.5, 0.0, 0.0, 1.0]) * amplitude
    q = HOME + first + joints * (1 - np.cos(w * t))[:, None]
    np.savez(path, t=t, q=q, qd=joints * w * np.sin(w * t)[:, None])
    return path


class Listener:
    """Lets the trajectory begin, and does ``during`` once when half is over."""

    def __init__(self, player: ProcessPlayer, during: Callable[[], object]) -> None:
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
        if time >= PERIOD / 2 and "half" not in self.seen:
            self.seen.append("half")
            self._during()

    def finished(self, finish: MotionFinish) -> None:
        self.finish = finish
        self.over.set()

    def result(self) -> MotionFinish:
        """Watch over the motion to its end."""
        deadline = time.monotonic() + 20.0
        while not self.over.wait(KEEP_ALIVE_PERIOD):
            assert time.monotonic() < deadline
            if not self.silent:
                self._player.keep_alive()
        assert self.finish is not None
        return self.finish


class Robot:
    """The robot, and all its samples."""

    def __init__(self, virtual: VirtualComanR5) -> None:
        self.virtual = virtual
        self.driver = VendorSocketDriver(virtual.host, 1000.0, "coman_r5")
        self.seen: list[str] = []
        self._blocks: list[SampleBlock] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with closing(self.driver.source()) as reader:
            while not self._closing.is_set():
                with contextlib.suppress(ConnectionLost):
                    reader.connect()
                    while not self._closing.is_set():
                        block = reader.read(0.1)
                        if block is not None:
                            self._blocks.append(block)

    @property
    def samples(self) -> SampleBlock:
        return np.concatenate(self._blocks)

    def play(
        self,
        path: Path,
        during: Callable[[ProcessPlayer], object] = lambda _: None,
        approach: ApproachSpeed | None = APPROACH,
        listener: type[Listener] = Listener,
    ) -> MotionFinish:
        player = self.driver.player(path, approach, settle_time=0.05)
        watching = listener(player, lambda: during(player))
        player.start(watching)
        finish = watching.result()
        self.seen = watching.seen
        return finish

    def until_rest(self, seconds: float) -> None:
        """Wait until fresh samples show a robot at rest that follows nobody; fails when they do not in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            newest = self._blocks[-1][-1] if self._blocks else None
            fresh = newest is not None and time.monotonic_ns() - newest["receive_time"] < 50_000_000
            if fresh and not newest["status"] & (STATUS_MOVING | STATUS_PROGRAM_RUNNING):
                return
            time.sleep(0.005)
        pytest.fail(f"the robot still moves after {seconds} s")

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        time.sleep(0.2)  # a protective stop cannot be released earlier
        self.driver.recover()
        self.driver.halt()


@pytest.fixture
def robot(virtual_coman_r5: VirtualComanR5) -> Iterator[Robot]:
    with closing(Robot(virtual_coman_r5)) as robot:
        yield robot


def test_a_trajectory_is_played_as_it_was_meant(robot: Robot, tmp_path: Path) -> None:
    finish = robot.play(save(tmp_path / "sway.npz"))
    assert (finish.outcome, finish.code) == ("completed", None)
    assert robot.seen == ["accepted", "at_start", "half"]
    assert finish.period_ms is not None
    assert finish.period_ms[0] == pytest.approx(4.0, abs=0.2)
    robot.until_rest(1.0)
    samples = robot.samples
    assert samples["lost"].sum() == 0
    sway = samples["q"] - HOME
    np.testing.assert_allclose(sway.max(axis=0), [0.3, 0, 0.15, 0, 0, 0.3], atol=0.005)
    np.testing.assert_allclose(sway[-1], 0.0, atol=0.005)
    moving = samples["target_qd"][:, 0] != 0.0
    w = 2 * np.pi / PERIOD
    times = samples["controller_time"][moving]
    expected = AMPLITUDE * (1 - np.cos(w * (times - times[0])))
    assert np.abs(samples["target_q"][moving][:, 0] - expected).max() < 0.01


def test_points_go_by_the_controllers_clock(robot: Robot, tmp_path: Path) -> None:
    """Many were sent ahead; none came so late that the robot had to wait, and none were left over."""
    before = robot.virtual.request("statistics")["points"]
    finish = robot.play(save(tmp_path / "sway.npz"))
    assert robot.virtual.request("statistics")["points"] - before == finish.cycles
    assert finish.cycles == pytest.approx((PERIOD + 2 * (0.1 + 0.05)) / 0.004, abs=60)


def test_a_stop_that_leaves_time_stays_on_the_path(robot: Robot, tmp_path: Path) -> None:
    finish = robot.play(save(tmp_path / "sway.npz"), lambda player: player.stop("lunch", immediately=False))
    assert (finish.outcome, finish.reason) == ("stopped", "lunch")
    robot.until_rest(1.0)
    target = robot.samples["target_q"] - HOME
    np.testing.assert_allclose(target[:, 2], 0.5 * target[:, 0], atol=1e-6)
    step = np.abs(np.diff(robot.samples["target_qd"][:, 0]))
    assert step.max() < 0.05  # no jump of the speed, which is up to 0.8 rad/s


def test_an_immediate_stop(robot: Robot, tmp_path: Path) -> None:
    finish = robot.play(save(tmp_path / "sway.npz"), lambda player: player.stop("crash", immediately=True))
    assert (finish.outcome, finish.reason) == ("stopped", "crash")
    robot.until_rest(0.5)
    assert robot.virtual.request("statistics")["stop_reason"] == "told to stop"


def test_a_stop_on_the_way_to_the_first_pose(robot: Robot, tmp_path: Path) -> None:
    class Stops(Listener):
        def accepted(self) -> None:
            self._player.stop("not there", immediately=False)

    finish = robot.play(save(tmp_path / "far.npz", first=1.0), listener=Stops)
    assert (finish.outcome, finish.reason) == ("stopped", "not there")
    assert robot.seen == []
    robot.until_rest(1.0)


def test_a_process_that_is_killed_leaves_a_robot_that_stops(robot: Robot, tmp_path: Path) -> None:
    """Nobody halts it: its points run out, or its connection closes, and the controller follows nobody then."""
    finish = robot.play(save(tmp_path / "sway.npz"), lambda player: player.kill())
    assert (finish.outcome, finish.code) == ("faulted", "motion-process-died")
    assert "SIGKILL" in finish.reason
    robot.until_rest(1.0)
    assert robot.virtual.request("statistics")["stop_reason"] in (
        "servo points ran out",
        "the connection of whoever sent the points was closed",
    )


def test_a_process_that_hangs_leaves_a_robot_that_stops(robot: Robot, tmp_path: Path) -> None:
    """Its connection stays open, but its points run out."""

    def hang(player: ProcessPlayer) -> None:
        assert player.pid is not None
        os.kill(player.pid, signal.SIGSTOP)
        robot.until_rest(1.0)
        os.kill(player.pid, signal.SIGCONT)

    finish = robot.play(save(tmp_path / "sway.npz"), hang)
    assert finish.outcome == "faulted"
    assert finish.code in ("motion-too-late", "program-stopped")


def test_a_parent_that_falls_silent_leaves_a_robot_that_stops(robot: Robot, tmp_path: Path) -> None:
    class FallsSilent(Listener):
        def accepted(self) -> None:
            self.silent = True

    finish = robot.play(save(tmp_path / "far.npz", first=0.6), listener=FallsSilent)
    assert (finish.outcome, finish.code) == ("faulted", "device-host-silent")
    robot.until_rest(1.0)


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        ("protective-stop", {"protective-stop"}),
        ("drop", {"connection-lost"}),
        ("drop-commands", {"connection-lost", "program-stopped"}),  # what is seen first
        ("halt", {"program-stopped", "command-refused"}),  # the same
        ("stall", {"samples-stale"}),
    ],
)
def test_faults_while_moving(robot: Robot, tmp_path: Path, fault: str, codes: set[str]) -> None:
    def inject(_: ProcessPlayer) -> None:
        if fault == "halt":
            robot.driver.halt()
        elif fault == "stall":
            robot.virtual.request(fault, seconds=0.4)
        else:
            robot.virtual.request(fault)

    finish = robot.play(save(tmp_path / "sway.npz"), inject)
    assert finish.outcome == "faulted"
    assert finish.code in codes
    robot.until_rest(1.5)


def test_motions_that_are_refused_move_nothing(robot: Robot, tmp_path: Path) -> None:
    path = save(tmp_path / "sway.npz")
    robot.virtual.request("protective-stop")
    finish = robot.play(path)
    assert (finish.outcome, finish.code) == ("faulted", "protective-stop")
    assert robot.seen == []
    (tmp_path / "torn.npz").write_bytes(path.read_bytes()[:100])
    with pytest.raises(TrajectoryFileError):
        robot.driver.player(tmp_path / "torn.npz", None, 0.0)
    listened_to = create(robot.virtual.host, 250.0, layout="xarm")
    assert not listened_to.capabilities.motion
    with pytest.raises(MotionRefused, match="can only be listened to: it describes no commands"):
        listened_to.player(path, None, 0.0)


def test_what_drivers_are_not_made_of() -> None:
    with pytest.raises(InputError, match="needs a layout"):
        create("nowhere", 1000.0)
    with pytest.raises(InputError, match="write rate_hz = 1000"):
        create("nowhere", 500.0, layout="coman_r5")


def test_a_robot_that_stands_nearly_at_the_first_pose_is_not_jerked_there(robot: Robot, tmp_path: Path) -> None:
    """Without an approach, what is left of the way must not become a jump of the first point."""
    robot.play(save(tmp_path / "home.npz", amplitude=0.0))
    before = robot.samples.size
    finish = robot.play(save(tmp_path / "near.npz", amplitude=0.02, first=0.009), approach=None)
    assert (finish.outcome, finish.code) == ("completed", None)
    speed = np.abs(robot.samples["target_qd"][before:])
    assert 0.01 < speed.max() < 0.12
    assert np.abs(np.diff(speed, axis=0)).max() < 1e-3  # rad/s in 1 ms
