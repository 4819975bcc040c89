"""The motion process of the vendor's client: what every driver promises, and what is particular to that client."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, ClassVar

import numpy as np
import pytest

from core.errors import MotionLimitError
from core.streaming.samples import SampleBlock
from drivers.contract import ApproachSpeed, MotionFinish
from drivers.universal_robots.driver import UniversalRobotsDriver
from drivers.universal_robots.motion_process import RECONNECTS
from drivers.virtual.process import VirtualUR10e
from tests.drivers.motion_contract import Fault, MovedRobot, ProcessMotionContract, Refusal, halted, injected


@pytest.fixture
def virtual(virtual_ur10e: VirtualUR10e) -> VirtualUR10e:
    return virtual_ur10e


@pytest.fixture
def driver(virtual: VirtualUR10e) -> UniversalRobotsDriver:
    return UniversalRobotsDriver(virtual.host, 500.0)


def switched_to_local(robot: MovedRobot, virtual: VirtualUR10e, trajectory: Callable[..., Path]) -> MotionFinish:
    virtual.request("remote-control", on=False)
    try:
        return robot.play(trajectory())
    finally:
        virtual.request("remote-control", on=True)


def too_fast(robot: MovedRobot, _: VirtualUR10e, trajectory: Callable[..., Path]) -> MotionFinish:
    return robot.play(trajectory(scale=20.0 / 3.0))


FOREIGN = """
    import sys, time
    from rtde_control import RTDEControlInterface

    control = RTDEControlInterface(sys.argv[1])
    print("connected", flush=True)
    while True:
        control.kickWatchdog()
        time.sleep(0.01)  # well within any watchdog's time; there is nothing to wait for
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


class TestURMotion(ProcessMotionContract):
    home = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    sway = np.array([0.3, 0.0, 0.15, 0.0, 0.0, 0.3])
    approach = ApproachSpeed(1.0, 4.0)
    far, approach_slowly = 0.5, ApproachSpeed(0.4, 2.0)
    near, gentle = 0.009, 0.11  # a jump by 9 mrad would be 16 rad/s²
    following, on_path, largest_step = 0.01, 0.01, 0.1
    faults: ClassVar = {
        "protective-stop": Fault(injected("protective-stop"), {"protective-stop"}),
        # A dropped link makes the vendor's client crash; that is its process's end and no other's. What is seen
        # first: the link, the client that died of it, or the program that the drop ended.
        "drop": Fault(injected("drop"), {"connection-lost", "motion-process-died", "program-stopped"}),
        "halt": Fault(halted, {"program-stopped", "command-refused"}),  # what is seen first
    }
    refusals: ClassVar = {
        "remote control": Refusal(switched_to_local, "remote-control-off", "switch it to remote control"),
        "limits": Refusal(too_fast, MotionLimitError.code, "joint 1 for 5.2"),
    }
    hung_codes: ClassVar = {"motion-too-late", "command-refused"}  # the latter where it hung during the approach

    def check_played(self, robot: MovedRobot, finish: MotionFinish, virtual: VirtualUR10e) -> None:
        assert finish.cycles == round((self.duration + self.settle_time) * 500) + 1
        assert finish.period_ms is not None
        assert finish.period_ms[0] == pytest.approx(2.0, abs=0.1)

    def check_gentle(self, samples: SampleBlock) -> None:
        left = np.abs(samples["target_q"] - (self.home + self.near)).max(axis=1)
        assert np.argmax(left < 1e-4) > 250  # half a second

    def test_another_program_is_not_killed(
        self, robot: MovedRobot, virtual: VirtualUR10e, trajectory: Callable[..., Path]
    ) -> None:
        with foreign_client(virtual.host):
            before = virtual.request("statistics")
            finish = robot.play(trajectory())
            assert (finish.outcome, finish.code) == ("faulted", "program-running")
            assert robot.seen == []
            after = virtual.request("statistics")
            assert (before["runtime"], before["scripts_started"]) == ("PLAYING", after["scripts_started"])
            assert after["runtime"] == "PLAYING"


def test_the_vendor_says_that_it_reconnects_in_the_words_that_are_listened_for(virtual: VirtualUR10e) -> None:
    """The only sign there is; another wording, and a motion would be resumed over a new connection."""
    with foreign_client(virtual.host) as printed:
        virtual.request("drop")
        assert any(RECONNECTS in line for line in printed)
