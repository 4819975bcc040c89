"""Motion over servo points: what every driver promises, and how the controller sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from core.errors import InputError
from core.streaming.samples import SampleBlock
from drivers.contract import ApproachSpeed, MotionFinish, MotionRefused
from drivers.vendor_socket.driver import VendorSocketDriver, create
from drivers.virtual.process import VirtualComanR5
from tests.drivers.motion_contract import Fault, MovedRobot, ProcessMotionContract, Refusal, halted, injected


@pytest.fixture
def virtual(virtual_coman_r5: VirtualComanR5) -> VirtualComanR5:
    return virtual_coman_r5


@pytest.fixture
def driver(virtual: VirtualComanR5) -> VendorSocketDriver:
    return VendorSocketDriver(virtual.host, 1000.0, "coman_r5")


def stopped_before(robot: MovedRobot, virtual: VirtualComanR5, trajectory: Callable[..., Path]) -> MotionFinish:
    virtual.request("protective-stop")
    return robot.play(trajectory())


class TestVendorMotion(ProcessMotionContract):
    home = np.array([0.0, 0.0, 1.2, 0.3, 0.9, 0.0])
    sway = np.array([0.3, 0.0, 0.15, 0.0, 0.0, 0.3])
    approach = ApproachSpeed(1.0, 4.0)
    far, approach_slowly = 0.5, ApproachSpeed(0.4, 2.0)
    near, gentle = 0.009, 0.5  # a jump by 9 mrad would be 560 rad/s²
    following, on_path, largest_step = 0.005, 1e-6, 0.05
    stops_at_once = 0.5
    faults: ClassVar = {
        "protective-stop": Fault(injected("protective-stop"), {"protective-stop"}),
        "drop": Fault(injected("drop"), {"connection-lost"}),
        # What is seen first.
        "drop-commands": Fault(injected("drop-commands"), {"connection-lost", "program-stopped"}),
        "halt": Fault(halted, {"program-stopped", "command-refused"}),  # what is seen first
        "stall": Fault(injected("stall", seconds=0.4), {"samples-stale"}),
    }
    refusals: ClassVar = {"stopped": Refusal(stopped_before, "protective-stop")}
    hung_codes: ClassVar = {"motion-too-late", "program-stopped"}

    @pytest.fixture(autouse=True)
    def _points_before(self, virtual: VirtualComanR5) -> None:
        self.points_before = virtual.request("statistics")["points"]

    def check_played(self, robot: MovedRobot, finish: MotionFinish, virtual: VirtualComanR5) -> None:
        """Points go by the controller's clock.

        Many were sent ahead; none came so late that the robot had to wait, and none were left over.
        """
        assert finish.period_ms is not None
        assert finish.period_ms[0] == pytest.approx(4.0, abs=0.2)
        assert virtual.request("statistics")["points"] - self.points_before == finish.cycles
        assert finish.cycles == pytest.approx((self.duration + 2 * (0.1 + self.settle_time)) / 0.004, abs=60)
        path = robot.path
        moving = path[path["target_qd"][:, 0] != 0.0]
        elapsed = moving["controller_time"] - moving["controller_time"][0]
        expected = self.home[0] + 0.5 * self.sway[0] * (1 - np.cos(2 * np.pi / self.duration * elapsed))
        assert np.abs(moving["target_q"][:, 0] - expected).max() < 0.01

    def check_stopped_at_once(self, virtual: VirtualComanR5) -> None:
        assert virtual.request("statistics")["stop_reason"] == "told to stop"

    def check_killed(self, robot: MovedRobot, virtual: Any, trajectory: Callable[..., Path]) -> None:
        """Its points run out, or its connection closes, and the controller follows nobody then."""
        super().check_killed(robot, virtual, trajectory)
        assert virtual.request("statistics")["stop_reason"] in (
            "servo points ran out",
            "the connection of whoever sent the points was closed",
        )

    def check_gentle(self, samples: SampleBlock) -> None:
        speed = np.abs(samples["target_qd"])
        assert 0.01 < speed.max() < 0.12
        assert np.abs(np.diff(speed, axis=0)).max() < 1e-3  # rad/s in 1 ms

    def test_a_robot_that_can_only_be_listened_to_is_not_moved(
        self, virtual: VirtualComanR5, trajectory: Callable[..., Path]
    ) -> None:
        listened_to = create(virtual.host, 250.0, layout="xarm")
        assert not listened_to.capabilities.motion
        with pytest.raises(MotionRefused, match="can only be listened to: it describes no commands"):
            listened_to.player(trajectory(), None, 0.0)


def test_what_drivers_are_not_made_of() -> None:
    with pytest.raises(InputError, match="needs a layout"):
        create("nowhere", 1000.0)
    with pytest.raises(InputError, match="write rate_hz = 1000"):
        create("nowhere", 500.0, layout="coman_r5")
