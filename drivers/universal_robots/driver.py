"""The driver the device host loads for ``driver = "universal_robots"``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from drivers.contract import ApproachSpeed, Capabilities, ProtectiveStop
from drivers.motion_player import MotionOrder, ProcessPlayer
from drivers.trajectory import PlayableTrajectory
from drivers.universal_robots.dashboard import SAFE, Dashboard
from drivers.universal_robots.outputs import N_JOINTS
from drivers.universal_robots.stream import RtdeStreamReader


class UniversalRobotsDriver:
    """A `drivers.contract.RobotDriver` for one e-Series arm; creating it connects to nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(N_JOINTS, max_rate_hz=500.0, motion=True)

    def __init__(self, host: str, rate_hz: float) -> None:
        self.host = host
        self.rate_hz = rate_hz

    def source(self) -> RtdeStreamReader:
        return RtdeStreamReader(self.host, self.rate_hz)

    def player(self, trajectory: Path, approach: ApproachSpeed | None, settle_time: float) -> ProcessPlayer:
        PlayableTrajectory.load(trajectory, N_JOINTS)
        rate = self.capabilities.max_rate_hz
        order = MotionOrder(self.host, rate, str(trajectory), approach, settle_time, os.getpid())
        return ProcessPlayer("drivers.universal_robots.motion_process", order)

    def halt(self) -> None:
        with Dashboard(self.host) as dashboard:
            dashboard.stop()

    def recover(self) -> None:
        with Dashboard(self.host) as dashboard:
            safety = dashboard.safety_status()
            if safety == "PROTECTIVE_STOP":
                dashboard.unlock_protective_stop()
            elif safety not in SAFE:
                raise ProtectiveStop(
                    f"{self.host}: the safety status is {safety}, which only somebody at the robot can release",
                    code="fault-persists",
                )


create = UniversalRobotsDriver
