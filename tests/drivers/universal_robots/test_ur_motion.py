"""The motion process: it plays, stops along the path, refuses; and when it dies or hangs, the robot stops."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from core.errors import MotionLimitError
from core.streaming.samples import STATUS_MOVING, STATUS_PROGRAM_RUNNING, SampleBlock
from drivers.contract import KEEP_ALIVE_PERIOD, ApproachSpeed, ConnectionLost, MotionFinish
from drivers.motion_player import ProcessPlayer
from drivers.trajectory import TrajectoryFileError
from drivers.universal_robots.driver import UniversalRobotsDriver
from drivers.universal_robots.motion_process import RECONNECTS
from drivers.virtual.process import VirtualUR10e

HOME = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
AMPLITUDE, PERIOD = 0.15, 1.2
APPROACH = ApproachSpeed(1.0, 2.0)


def save(path: Path, amplitude: float = AMPLITUDE) -> Path:
    """One slow sway of joints 1, 3 and 6 from the home pose and back, on a grid coarser than the cycle."""
    t = np.arange(0.0, PERIOD + 1e-9, 0.008)
    w = 2 * np.pi / PERIOD
    joints = np.array([1.0, 0.0, 0.5, 0.0, 0.0, 1.0]) * amplitude
    q = HOME + joints * (1 - np.cos(w * t))[:, None]
    np.savez(path, t=t, q=q, qd=joints * w * np.sin(w * t)[:, None])
    return path


class Listener:
    """Lets the trajectory begin, and does ``during`` once when half is over."""

    def __init__(
        self,
        player: ProcessPlayer,
        during: Callable[[], object] = lambda: None,
    ) -> None:
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
    """The robot, and all its samples: read by a thread, as a client that is slow misses some."""

    def __init__(self, host: str) -> None:
        self.driver = UniversalRobotsDriver(host, 500.0)
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
    ) -> MotionFinish:
        player = self.driver.player(path, approach, settle_time=0.05)
        listener = Listener(player, lambda: during(player))
        player.start(listener)
        finish = listener.result()
        self.seen = listener.seen
        return finish

    def until_rest(self, seconds: float) -> None:
        """Wait until fresh samples show a robot at rest without a program; fails when they do not in time."""
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
def robot(virtual_ur10e: VirtualUR10e) -> Iterator[Robot]:
    with closing(Robot(virtual_ur10e.host)) as robot:
        yield robot


def test_a_trajectory_is_played_as_it_was_meant(robot: Robot, tmp_path: Path) -> None:
    finish = robot.play(save(tmp_path / "sway.npz"))
    assert (finish.outcome, finish.code) == ("completed", None)
    assert robot.seen == ["accepted", "at_start", "half"]
    assert finish.cycles == round((PERIOD + 0.05) * 500) + 1
    assert finish.period_ms is not None
    assert finish.period_ms[0] == pytest.approx(2.0, abs=0.1)
    robot.until_rest(1.0)
    samples = robot.samples
    assert samples["lost"].sum() == 0
    sway = samples["q"] - HOME
    np.testing.assert_allclose(sway.max(axis=0), [0.3, 0, 0.15, 0, 0, 0.3], atol=0.01)
    np.testing.assert_allclose(sway[-1], 0.0, atol=0.01)


def test_a_stop_that_leaves_time_stays_on_the_path(robot: Robot, tmp_path: Path) -> None:
    finish = robot.play(save(tmp_path / "sway.npz"), lambda player: player.stop("lunch", immediately=False))
    assert (finish.outcome, finish.reason) == ("stopped", "lunch")
    robot.until_rest(1.0)
    samples = robot.samples
    target = samples["target_q"] - HOME
    np.testing.assert_allclose(target[:, 2], 0.5 * target[:, 0], atol=0.01)  # on the path, also while it ends
    step = np.abs(np.diff(samples["target_qd"][:, 0]))
    assert step.max() < 0.1  # no jump of the speed, which is up to 0.8 rad/s


def test_an_immediate_stop(robot: Robot, tmp_path: Path) -> None:
    finish = robot.play(save(tmp_path / "sway.npz"), lambda player: player.stop("crash", immediately=True))
    assert (finish.outcome, finish.reason) == ("stopped", "crash")
    robot.until_rest(1.0)


def test_a_stop_on_the_way_to_the_first_pose(robot: Robot, tmp_path: Path) -> None:
    """The robot is at the home pose; a far first pose leaves time to stop on the way."""
    path = save(tmp_path / "far.npz")
    with np.load(path) as file:
        np.savez(path, t=file["t"], q=file["q"] + 1.0, qd=file["qd"])
    player = robot.driver.player(path, APPROACH, settle_time=0.0)
    listener = Listener(player)
    listener.accepted = lambda: player.stop("not there", immediately=False)  # type: ignore[method-assign]
    player.start(listener)
    finish = listener.result()
    assert (finish.outcome, finish.reason) == ("stopped", "not there")
    assert listener.seen == []
    robot.until_rest(1.0)


def test_a_process_that_is_killed_leaves_a_robot_that_stops(robot: Robot, tmp_path: Path) -> None:
    """Nobody halts it: the controller's watchdog does, when it hears no more commands."""
    finish = robot.play(save(tmp_path / "sway.npz"), lambda player: player.kill())
    assert (finish.outcome, finish.code) == ("faulted", "motion-process-died")
    assert "SIGKILL" in finish.reason
    robot.until_rest(1.0)


@pytest.mark.parametrize("when", ["accepted", "half"])
def test_a_parent_that_falls_silent_leaves_a_robot_that_stops(robot: Robot, tmp_path: Path, when: str) -> None:
    """It hangs, or its event loop does: on the way to the first pose, or on the path."""
    path = save(tmp_path / "far.npz")
    with np.load(path) as file:  # elsewhere, and so slow that it would go on for long
        np.savez(path, t=5.0 * file["t"], q=file["q"] + 1.0, qd=file["qd"] / 5.0)
    player = robot.driver.player(path, APPROACH, settle_time=0.0)
    silenced: list[float] = []

    def fall_silent() -> None:
        listener.silent = True
        silenced.append(time.monotonic())

    listener = Listener(player, fall_silent if when == "half" else lambda: None)
    if when == "accepted":
        listener.accepted = fall_silent  # type: ignore[method-assign]
    player.start(listener)
    finish = listener.result()
    robot.until_rest(1.0)
    assert time.monotonic() - silenced[0] < 2.0
    assert (finish.outcome, finish.code) == ("faulted", "device-host-silent")
    assert finish.reason == "the device host said nothing for 0.3 s; it hangs"


def test_a_process_that_hangs_leaves_a_robot_that_stops(robot: Robot, tmp_path: Path) -> None:
    def hang(player: ProcessPlayer) -> None:
        assert player.pid is not None
        os.kill(player.pid, signal.SIGSTOP)
        robot.until_rest(1.0)
        os.kill(player.pid, signal.SIGCONT)

    finish = robot.play(save(tmp_path / "sway.npz"), hang)
    assert (finish.outcome, finish.code) == ("faulted", "motion-too-late")


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        ("protective-stop", {"protective-stop"}),
        # What is seen first: the link, the client that died of it, or the program that the drop ended.
        ("drop", {"connection-lost", "motion-process-died", "program-stopped"}),
        ("halt", {"program-stopped"}),
    ],
)
def test_faults_while_moving(
    robot: Robot, virtual_ur10e: VirtualUR10e, tmp_path: Path, fault: str, codes: set[str]
) -> None:
    """A dropped link makes the vendor's client crash; that is its process's end and no other's."""

    def inject(_: ProcessPlayer) -> None:
        if fault == "halt":
            robot.driver.halt()
        else:
            virtual_ur10e.request(fault)

    finish = robot.play(save(tmp_path / "sway.npz"), inject)
    assert finish.outcome == "faulted"
    assert finish.code in codes
    robot.driver.halt()
    robot.until_rest(1.5)


def test_motions_that_are_refused_move_nothing(robot: Robot, virtual_ur10e: VirtualUR10e, tmp_path: Path) -> None:
    path = save(tmp_path / "sway.npz")
    virtual_ur10e.request("remote-control", on=False)
    finish = robot.play(path)
    virtual_ur10e.request("remote-control", on=True)
    assert (finish.outcome, finish.code) == ("faulted", "remote-control-off")
    assert "switch it to remote control" in finish.reason
    assert robot.seen == []
    finish = robot.play(save(tmp_path / "fast.npz", amplitude=1.0))
    assert (finish.outcome, finish.code) == ("faulted", MotionLimitError.code)
    assert "joint 1 for 5.2" in finish.reason
    assert robot.seen == []
    (tmp_path / "torn.npz").write_bytes(path.read_bytes()[:100])
    with pytest.raises(TrajectoryFileError):
        robot.driver.player(tmp_path / "torn.npz", None, 0.0)


FOREIGN = """
    import sys, time
    from rtde_control import RTDEControlInterface

    control = RTDEControlInterface(sys.argv[1])
    print("connected", flush=True)
    while True:
        control.kickWatchdog()
        time.sleep(0.01)
"""


@contextlib.contextmanager
def foreign_client(host: str) -> Iterator[IO[str]]:
    """Another program of the same vendor's, with no watchdog: it runs on the controller until it is stopped.

    What it prints is yielded, after its first word.
    """
    command = [sys.executable, "-c", textwrap.dedent(FOREIGN), host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "connected\n"
            yield client.stdout
        finally:
            client.kill()


def test_another_program_is_not_killed(robot: Robot, virtual_ur10e: VirtualUR10e, tmp_path: Path) -> None:
    with foreign_client(virtual_ur10e.host):
        before = virtual_ur10e.request("statistics")
        finish = robot.play(save(tmp_path / "sway.npz"))
        assert (finish.outcome, finish.code) == ("faulted", "program-running")
        assert robot.seen == []
        after = virtual_ur10e.request("statistics")
        assert (before["runtime"], before["scripts_started"]) == ("PLAYING", after["scripts_started"])
        assert after["runtime"] == "PLAYING"


def test_the_vendor_says_that_it_reconnects_in_the_words_that_are_listened_for(
    robot: Robot, virtual_ur10e: VirtualUR10e
) -> None:
    """The only sign there is; another wording, and a motion would be resumed over a new connection."""
    with foreign_client(virtual_ur10e.host) as printed:
        virtual_ur10e.request("drop")
        assert any(RECONNECTS in line for line in printed)


def test_a_robot_that_stands_nearly_at_the_first_pose_is_not_jerked_there(robot: Robot, tmp_path: Path) -> None:
    """Without an approach, what is left of the way must not become a jump of the first command."""
    near = save(tmp_path / "near.npz", amplitude=0.02)
    with np.load(near) as file:
        np.savez(near, t=file["t"], q=file["q"] + 0.009, qd=file["qd"])
    robot.play(save(tmp_path / "home.npz", amplitude=0.0))
    before = robot.samples.size
    finish = robot.play(near, approach=None)
    assert (finish.outcome, finish.code) == ("completed", None)
    samples = robot.samples[before:]
    way = np.abs(samples["target_q"] - (HOME + 0.009)).max(axis=1)
    arrived = int(np.argmax(way < 1e-4))
    assert way[0] == pytest.approx(0.009, abs=1e-6)
    assert arrived > 250  # half a second
    speeding_up = np.diff(samples["target_qd"][:arrived], axis=0) / 0.002
    assert np.abs(speeding_up).max() < 0.11  # rad/s²; a jump by 9 mrad would be 16
