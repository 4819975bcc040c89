"""What the motion of every driver has to do, as tests: `MotionContract`.

A driver's test file subclasses it, describes its robot in the class attributes, has a fixture ``driver`` for a
virtual robot that stands still, and adds what only that driver promises. The three drivers here are the examples.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from core.streaming.samples import STATUS_MOVING, STATUS_PROGRAM_RUNNING, STATUS_PROTECTIVE_STOP, SampleBlock
from drivers.contract import KEEP_ALIVE_PERIOD, ApproachSpeed, DriverError, MotionFinish, MotionPlayer, RobotDriver
from drivers.trajectory import TrajectoryFileError

UNDER_WAY = 0.25  # s of the trajectory after which things happen to it: it is fast, and much of it is left
UNLOCK_DELAY = 0.2  # s before which the virtual robots do not release a protective stop


class Motion:
    """Listens to one motion, lets its trajectory begin, and does ``on_the_path`` once when it is under way."""

    def __init__(self, player: MotionPlayer, on_the_path: Callable[[Motion], object]) -> None:
        self.player = player
        self.seen: list[str] = []
        self.finish: MotionFinish | None = None
        self.over = threading.Event()
        self.silenced_at: float | None = None
        self.started_at = 0
        """Host's clock [ns] when the robot stood at the first pose."""
        self._on_the_path = on_the_path

    def accepted(self) -> None:
        self.seen.append("accepted")

    def at_start(self) -> None:
        self.seen.append("at_start")
        self.started_at = time.monotonic_ns()
        self.player.proceed()

    def progress(self, time: float) -> None:
        if time >= UNDER_WAY and "under-way" not in self.seen:
            self.seen.append("under-way")
            self._on_the_path(self)

    def finished(self, finish: MotionFinish) -> None:
        assert self.finish is None
        self.finish = finish
        self.over.set()

    def fall_silent(self) -> None:
        """Have nobody watch over it any more."""
        self.silenced_at = time.monotonic()


def nothing(_: Motion) -> None:
    """Leave the motion alone."""


class MovedRobot:
    """A robot with all its samples, read by a thread, as a client that is slow misses some; one motion at a time."""

    def __init__(self, driver: RobotDriver, approach: ApproachSpeed, settle_time: float) -> None:
        self.driver = driver
        self.motion: Motion | None = None
        """The newest one."""
        self._approach = approach
        self._settle_time = settle_time
        self._blocks: list[SampleBlock] = []
        self._streams = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        assert self._streams.wait(10.0)

    def _read(self) -> None:
        with closing(self.driver.source()) as source:
            while not self._closing.is_set():
                try:
                    source.connect()
                    while not self._closing.is_set():
                        block = source.read(0.1)
                        if block is not None:
                            self._blocks.append(block)
                            self._streams.set()
                except DriverError:
                    self._closing.wait(0.02)  # before the next attempt; the controller may be down for a while

    @property
    def samples(self) -> SampleBlock:
        return np.concatenate(self._blocks)

    @property
    def newest(self) -> Any:
        """The newest sample."""
        return self._blocks[-1][-1]

    @property
    def path(self) -> SampleBlock:
        """The samples since the newest motion stood at its first pose."""
        assert self.motion is not None
        samples = self.samples
        return samples[samples["receive_time"] >= self.motion.started_at]

    @property
    def seen(self) -> list[str]:
        """What the newest motion told."""
        assert self.motion is not None
        return self.motion.seen

    def play(
        self,
        path: Path,
        on_the_path: Callable[[Motion], object] = nothing,
        *,
        on_the_way: Callable[[Motion], object] = nothing,
        approach: ApproachSpeed | str | None = "usual",
    ) -> MotionFinish:
        """Play and watch over it to its end; ``on_the_way`` is done once when the robot approaches."""
        chosen = self._approach if isinstance(approach, str) else approach
        player = self.driver.player(path, chosen, self._settle_time)
        motion = self.motion = Motion(player, on_the_path)
        player.start(motion)
        approaching = False
        deadline = time.monotonic() + 60.0  # on a machine that is far too busy; hung otherwise
        while not motion.over.wait(KEEP_ALIVE_PERIOD):
            assert time.monotonic() < deadline
            if motion.silenced_at is None:
                player.keep_alive()
            if not approaching and motion.seen == ["accepted"] and np.abs(self.newest["target_qd"]).max() > 1e-3:
                approaching = True
                on_the_way(motion)
        assert motion.finish is not None
        return motion.finish

    def until_rest(self, seconds: float) -> None:
        """Wait until fresh samples show a robot at rest that follows nobody; fails when they do not in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            newest = self.newest
            fresh = time.monotonic_ns() - newest["receive_time"] < 100_000_000
            if fresh and not newest["status"] & (STATUS_MOVING | STATUS_PROGRAM_RUNNING):
                return
            time.sleep(0.005)  # the next sample
        pytest.fail(f"the robot still moves after {seconds} s")

    def close(self) -> None:
        """Leave the robot as the next test needs it."""
        self._closing.set()
        self._thread.join()
        self.driver.halt()
        if self.newest["status"] & STATUS_PROTECTIVE_STOP:
            time.sleep(UNLOCK_DELAY)  # until it may be unlocked, which nothing tells
        self.driver.recover()


class Fault(NamedTuple):
    """What happens to a moving robot, and the codes that may tell of it: more where what is seen first is chance."""

    inject: Callable[[MovedRobot, Any], object]
    codes: set[str]


class Refusal(NamedTuple):
    """A way to ask for a motion that is refused, the code, a part of the reason, and what the player tells before.

    ``ask`` is given the robot, the virtual robot and a maker of trajectories. Only a controller that checks the
    approach itself refuses what the player had accepted.
    """

    ask: Callable[[MovedRobot, Any, Callable[..., Path]], MotionFinish]
    code: str
    says: str = ""
    told: tuple[str, ...] = ()


def injected(do: str, **arguments: object) -> Callable[[MovedRobot, Any], object]:
    """Return an ``inject`` of `Fault`: a request to the virtual robot."""
    return lambda _, virtual: virtual.request(do, **arguments)


def halted(robot: MovedRobot, _: object) -> None:
    """``inject`` of `Fault`: somebody else stops the robot."""
    robot.driver.halt()


class MotionContract:
    """Tests of `drivers.contract.MotionPlayer`; positions in the driver's unit.

    The subclass's file has the fixtures ``driver`` and ``virtual``: what faults are injected into.
    """

    home: np.ndarray
    """Where trajectories begin and end."""
    sway: np.ndarray
    """How far each joint goes from there; the first goes somewhere."""
    duration = 1.2
    """s; how long the way there and back takes."""
    grid = 0.008
    """s between rows of the file; no multiple of the controller's cycle needs to be."""
    approach: ApproachSpeed
    settle_time = 0.05
    far: float
    """How far off is a first pose to which the way takes more than a second at the speed ``approach_slowly``."""
    approach_slowly: ApproachSpeed
    near: float
    """What may be left of the way to the first pose without an approach."""
    gentle: float
    """Largest acceleration on that rest of the way."""

    following: float
    """How well the joints are where they are meant to be."""
    on_path: float
    """How well the commanded joints stay on the path while they are stopped."""
    largest_step: float
    """Of the commanded speeds from one sample to the next."""
    stops_at_once = 1.0
    """s to rest after an immediate stop."""

    faults: ClassVar[Mapping[str, Fault]]
    at_rest_after_fault = 1.5  # s
    refusals: ClassVar[Mapping[str, Refusal]]
    killed_code = "motion-process-died"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test for each fault of the driver."""
        if "fault" in metafunc.fixturenames:
            metafunc.parametrize("fault", self.faults.values(), ids=list(self.faults))

    @pytest.fixture
    def robot(self, driver: RobotDriver) -> Iterator[MovedRobot]:
        with closing(MovedRobot(driver, self.approach, self.settle_time)) as robot:
            yield robot

    @pytest.fixture
    def trajectory(self, tmp_path: Path) -> Callable[..., Path]:
        """Make a trajectory: one sway from the home pose, shifted by ``start``, and back."""

        def make(scale: float = 1.0, start: float = 0.0, duration: float = 0.0, grid: float = 0.0) -> Path:
            duration = duration or self.duration
            t = np.arange(0.0, duration + 1e-9, grid or self.grid)
            w = 2 * np.pi / duration
            half = 0.5 * scale * self.sway
            path = tmp_path / f"sway-{scale:g}-{start:g}-{duration:g}.npz"
            q = self.home + start + np.outer(1 - np.cos(w * t), half)
            np.savez(path, t=t, q=q, qd=np.outer(w * np.sin(w * t), half))
            return path

        return make

    # --- what a driver may promise beyond --------------------------------------------------------------

    def check_played(self, robot: MovedRobot, finish: MotionFinish, virtual: Any) -> None:
        """After a motion that was played as it was meant."""

    def check_stopped_at_once(self, virtual: Any) -> None:
        """After an immediate stop."""

    def check_killed(self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path]) -> None:
        """After the end of a player without its help."""

    def check_gentle(self, samples: SampleBlock) -> None:
        """Given all of a motion that began nearly at its first pose."""

    # --- what every driver promises --------------------------------------------------------------------

    def test_a_trajectory_is_played_as_it_was_meant(
        self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path]
    ) -> None:
        finish = robot.play(trajectory())
        assert (finish.outcome, finish.code) == ("completed", None), finish
        assert robot.seen == ["accepted", "at_start", "under-way"]
        robot.until_rest(1.0)
        assert robot.samples["lost"].sum() == 0
        path = robot.path
        way = path["q"] - self.home
        np.testing.assert_allclose(way.max(axis=0), np.maximum(self.sway, 0.0), atol=self.following)
        np.testing.assert_allclose(way.min(axis=0), np.minimum(self.sway, 0.0), atol=self.following)
        np.testing.assert_allclose(way[-1], 0.0, atol=self.following)
        assert np.abs(np.diff(path["target_qd"], axis=0)).max() < self.largest_step
        self.check_played(robot, finish, virtual)

    def test_a_stop_that_leaves_time_stays_on_the_path(
        self, robot: MovedRobot, trajectory: Callable[..., Path]
    ) -> None:
        finish = robot.play(trajectory(), lambda motion: motion.player.stop("lunch", immediately=False))
        assert (finish.outcome, finish.reason, finish.code) == ("stopped", "lunch", None)
        robot.until_rest(1.0)
        path = robot.path
        way = path["target_q"] - self.home
        along = way[:, :1] / self.sway[0]
        assert along.max() > 0.05  # it had begun
        np.testing.assert_allclose(way, along * self.sway, atol=self.on_path)
        assert np.abs(np.diff(path["target_qd"], axis=0)).max() < self.largest_step  # also while it ends

    def test_an_immediate_stop(self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path]) -> None:
        finish = robot.play(trajectory(), lambda motion: motion.player.stop("crash", immediately=True))
        assert (finish.outcome, finish.reason) == ("stopped", "crash")
        robot.until_rest(self.stops_at_once)
        self.check_stopped_at_once(virtual)

    def test_a_stop_on_the_way_to_the_first_pose(self, robot: MovedRobot, trajectory: Callable[..., Path]) -> None:
        finish = robot.play(
            trajectory(start=self.far),
            on_the_way=lambda motion: motion.player.stop("not there", immediately=False),
            approach=self.approach_slowly,
        )
        assert (finish.outcome, finish.reason) == ("stopped", "not there")
        assert robot.seen == ["accepted"]
        robot.until_rest(1.0)
        left = self.home + self.far - robot.newest["target_q"]
        assert left.max() > 0.3 * self.far

    @pytest.mark.parametrize("where", ["way", "path"])
    def test_a_host_that_falls_silent_leaves_a_robot_that_stops(
        self, robot: MovedRobot, trajectory: Callable[..., Path], where: str
    ) -> None:
        """It hangs, or its event loop does: on the way to the first pose, or on a path that would go on for long."""
        path = trajectory(start=self.far, duration=3.0) if where == "way" else trajectory(duration=3.0)
        finish = robot.play(
            path,
            **{f"on_the_{where}": Motion.fall_silent},
            approach=self.approach_slowly if where == "way" else "usual",
        )
        robot.until_rest(1.0)
        assert robot.motion is not None and robot.motion.silenced_at is not None
        assert time.monotonic() - robot.motion.silenced_at < 2.0
        assert (finish.outcome, finish.code) == ("faulted", "device-host-silent")
        assert finish.reason == "the device host said nothing for 0.3 s; it hangs"
        assert ("at_start" in robot.seen) == (where == "path")

    def test_a_player_that_is_killed_leaves_a_robot_that_stops(
        self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path]
    ) -> None:
        """Nobody halts it: the controller does when it hears no more."""
        finish = robot.play(trajectory(), lambda motion: motion.player.kill())
        assert (finish.outcome, finish.code) == ("faulted", self.killed_code)
        robot.until_rest(1.5)
        self.check_killed(robot, virtual, trajectory)

    def test_faults_while_moving(
        self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path], fault: Fault
    ) -> None:
        finish = robot.play(trajectory(), lambda _: fault.inject(robot, virtual))
        assert finish.outcome == "faulted"
        assert finish.code in fault.codes, finish
        robot.until_rest(self.at_rest_after_fault)

    def test_motions_that_are_refused_move_nothing(
        self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path], tmp_path: Path
    ) -> None:
        before = robot.newest["target_q"].copy()
        for name, refusal in self.refusals.items():
            finish = refusal.ask(robot, virtual, trajectory)
            assert (finish.outcome, finish.code) == ("faulted", refusal.code), (name, finish)
            assert refusal.says in finish.reason
            assert robot.seen == list(refusal.told)
        np.testing.assert_allclose(robot.newest["target_q"], before, atol=self.following)
        torn = tmp_path / "torn.npz"
        torn.write_bytes(trajectory().read_bytes()[:100])
        with pytest.raises(TrajectoryFileError):
            robot.driver.player(torn, None, 0.0)

    def test_a_robot_that_stands_nearly_at_the_first_pose_is_not_jerked_there(
        self, robot: MovedRobot, trajectory: Callable[..., Path]
    ) -> None:
        """Without an approach, what is left of the way must not become a jump of the first command."""
        assert robot.play(trajectory(scale=0.0, duration=0.1)).outcome == "completed"
        robot.until_rest(1.0)
        before = robot.samples.size
        finish = robot.play(trajectory(scale=0.1, start=self.near), approach=None)
        assert (finish.outcome, finish.code) == ("completed", None), finish
        samples = robot.samples[before:]
        left = np.abs(samples["target_q"] - (self.home + self.near)).max(axis=1)
        assert left[0] == pytest.approx(self.near, abs=1e-6)
        rest_of_the_way = samples[: int(np.argmax(left < 1e-4 * self.near / 0.009))]
        assert rest_of_the_way.size > 1
        speeding_up = (
            np.diff(rest_of_the_way["target_qd"], axis=0) / np.diff(rest_of_the_way["controller_time"])[:, None]
        )
        assert np.abs(speeding_up).max() < self.gentle
        self.check_gentle(samples)


class ProcessMotionContract(MotionContract):
    """For drivers whose robot is moved by a process of its own, a `drivers.motion_player.ProcessPlayer`."""

    hung_codes: ClassVar[set[str]]

    def check_killed(self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path]) -> None:
        assert robot.motion is not None and robot.motion.finish is not None
        assert "SIGKILL" in robot.motion.finish.reason

    def test_a_process_that_hangs_leaves_a_robot_that_stops(
        self, robot: MovedRobot, trajectory: Callable[..., Path]
    ) -> None:
        """Its connections stay open, and nobody halts the robot but the controller."""

        def hang(motion: Motion) -> None:
            pid = motion.player.pid  # type: ignore[attr-defined]
            os.kill(pid, signal.SIGSTOP)
            try:
                robot.until_rest(1.0)
            finally:
                os.kill(pid, signal.SIGCONT)

        finish = robot.play(trajectory(), hang)
        assert finish.outcome == "faulted"
        assert finish.code in self.hung_codes
