"""The player in the PLC, told and watched over ADS: what every driver promises, faults of a PLC, and its tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from core.errors import InputError
from core.models import resolve
from core.models.six_upru import SixUPRU
from core.streaming.samples import STATUS_MOVING, STATUS_PROGRAM_RUNNING
from drivers.beckhoff_ads import upload
from drivers.beckhoff_ads.driver import BeckhoffAdsDriver
from drivers.beckhoff_ads.variables import Variables
from drivers.contract import ApproachSpeed, DriverProtocolError, MotionFinish
from drivers.trajectory import PlayableTrajectory, TrajectoryFileError
from drivers.virtual.process import VirtualUpru6
from drivers.virtual.truth import truth_leg_current
from drivers.virtual.upru_parameters import perturbed_upru, upru_model
from tests.drivers.motion_contract import Fault, MotionContract, MovedRobot, Refusal, halted, injected

Sway = Callable[..., Path]


def home_of(name: str) -> np.ndarray:
    """Leg lengths at the home pose."""
    model = resolve(name)
    assert isinstance(model, SixUPRU)
    return model.leg_lengths(model.home)[0]


@pytest.fixture
def virtual(virtual_upru6: VirtualUpru6) -> VirtualUpru6:
    return virtual_upru6


def far_away(robot: MovedRobot, _: VirtualUpru6, trajectory: Sway) -> MotionFinish:
    return robot.play(trajectory(start=0.05), approach=None)


def out_of_stroke(robot: MovedRobot, _: VirtualUpru6, trajectory: Sway) -> MotionFinish:
    return robot.play(trajectory(scale=30.0))


def too_fast(robot: MovedRobot, _: VirtualUpru6, trajectory: Sway) -> MotionFinish:
    return robot.play(trajectory(start=0.02), approach=ApproachSpeed(5.0, 1.0))


def stopped_before(robot: MovedRobot, virtual: VirtualUpru6, trajectory: Sway) -> MotionFinish:
    virtual.request("emergency-stop", on=True)
    try:
        return robot.play(trajectory())
    finally:
        virtual.request("emergency-stop", on=False)


def fed_in(robot: MovedRobot, path: Path) -> bool:
    """Tell whether anything is added while ``path`` is played; what fades out before does not count."""
    before = robot.samples.size
    assert robot.play(path).outcome == "completed"
    samples = robot.samples[before:]
    played = samples[samples["status"] & STATUS_PROGRAM_RUNNING != 0]
    return bool(played["target_current"][played.size // 3 :].any())


class TestAdsMotion(MotionContract):
    home = home_of("upru6")
    sway = 0.02 * np.array([1.0, -1.0, 0.5, 0.5, -0.5, 0.2])  # of the legs
    duration, grid = 0.8, 0.002
    approach, settle_time = ApproachSpeed(0.2, 1.0), 0.15
    far, approach_slowly = 0.06, ApproachSpeed(0.05, 0.5)
    near, gentle = 0.003, 0.06  # m, m/s²
    following, on_path, largest_step = 2e-3, 1e-6, 0.01
    faults: ClassVar = {
        "drive-error": Fault(injected("drive-error", leg=2, number=0x8611), {"drive-fault"}),
        "download": Fault(injected("download"), {"motion-lost"}),
        "drop": Fault(injected("drop"), {"connection-lost", "controller-timeout"}),
        "stall": Fault(injected("stall", seconds=1.0), {"controller-timeout"}),
        "halt": Fault(halted, {"program-stopped"}),
    }
    at_rest_after_fault = 3.0
    refusals: ClassVar = {
        "far away": Refusal(far_away, "not-at-start", "ask for an approach"),
        "out of stroke": Refusal(out_of_stroke, "plc-upload-failed", "OUT_OF_STROKE"),
        "too fast": Refusal(too_fast, "approach-refused", told=("accepted",)),
        "emergency stop": Refusal(stopped_before, "emergency-stop"),
    }
    killed_code = "motion-abandoned"

    def check_played(self, robot: MovedRobot, finish: MotionFinish, virtual: VirtualUpru6) -> None:
        samples = robot.samples
        np.testing.assert_allclose(samples["q"][-1], self.home, atol=1e-3)
        assert np.abs(samples["q"] - samples["target_q"]).max() < 3e-3
        assert np.abs(np.diff(samples["target_qd"], axis=0)).max() < self.largest_step  # on the way there, too

    def check_killed(self, robot: MovedRobot, virtual: VirtualUpru6, trajectory: Sway) -> None:
        """The heart stopped beating: that has to be released before the next motion."""
        assert virtual.request("statistics")["error"] == "HEARTBEAT_LOST"
        refused = robot.play(trajectory())
        assert (refused.outcome, refused.code) == ("faulted", "heartbeat-lost")
        assert "find the cause, then release it" in refused.reason
        robot.driver.recover()
        assert robot.play(trajectory()).outcome == "completed"

    def test_the_emergency_stop_and_a_stopped_plc_are_told(
        self, robot: MovedRobot, virtual: VirtualUpru6, trajectory: Sway
    ) -> None:
        finish = robot.play(trajectory(), lambda _: virtual.request("emergency-stop", on=True))
        virtual.request("emergency-stop", on=False)
        assert (finish.outcome, finish.code) == ("faulted", "emergency-stop")
        robot.driver.recover()
        finish = robot.play(trajectory(), lambda _: virtual.request("plc-stop"))
        virtual.request("plc-run")
        assert (finish.outcome, finish.code) == ("faulted", "plc-heartbeat-lost")
        robot.until_rest(3.0)

    def test_a_motion_goes_on_over_an_online_change(
        self, robot: MovedRobot, virtual: VirtualUpru6, trajectory: Sway
    ) -> None:
        finish = robot.play(trajectory(), lambda _: virtual.request("online-change"))
        assert (finish.outcome, finish.code) == ("completed", None)
        robot.until_rest(1.0)
        assert robot.samples["lost"].sum() == 0

    # --- tables --------------------------------------------------------------------------------------------

    @pytest.fixture
    def table(self, tmp_path: Path) -> Callable[..., Path]:
        """Make a file of feedforward currents."""

        def make(current: np.ndarray, period: float = 0.002) -> Path:
            path = tmp_path / "feedforward.npz"
            np.savez(path, period=period, current=current)
            return path

        return make

    def test_a_feedforward_table_is_added_to_its_own_trajectory_only(
        self, robot: MovedRobot, trajectory: Sway, table: Callable[..., Path]
    ) -> None:
        path, other = trajectory(), trajectory(scale=1.5)
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

    def test_tables_that_cannot_be_are_refused_before_anything_is_written(
        self, driver: BeckhoffAdsDriver, trajectory: Sway, table: Callable[..., Path]
    ) -> None:
        for current in (np.zeros((5, 5)), np.zeros(6), np.full((5, 6), np.nan)):
            with pytest.raises(TrajectoryFileError):
                driver.load_feedforward(trajectory(), table(current))
        with pytest.raises(InputError, match=r"the PLC at .* holds 30001"):
            driver.load_feedforward(trajectory(), table(np.zeros((30002, 6))))

    def test_an_upload_that_somebody_else_disturbs_is_noticed(
        self, driver: BeckhoffAdsDriver, trajectory: Sway
    ) -> None:
        """Another program writes a row between writing and reading back."""
        rows = upload.trajectory_rows(PlayableTrajectory.load(trajectory(grid=0.0001), 6))  # several chunks
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
        self, robot: MovedRobot, trajectory: Sway, table: Callable[..., Path]
    ) -> None:
        """What the drives would need is taken from the virtual robot's truth, since this is about the way there."""
        path = trajectory()
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
