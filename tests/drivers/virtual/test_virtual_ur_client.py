"""The unmodified ur_rtde client against the virtual controller, over loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.virtual.process import VirtualUR10e

CHILD = Path(__file__).with_name("ur_rtde_child.py")
GOAL = [0.3, -1.3, 1.3, -1.2, -1.2, 0.2]
STOPPED, PLAYING, PAUSED = 1, 2, 4


@pytest.fixture(scope="module")
def shared_robot(loopback_hosts: Callable[[], str]) -> Iterator[VirtualUR10e]:
    with VirtualUR10e(loopback_hosts(), seed=7, unlock_delay=3.0) as running:
        yield running


@pytest.fixture
def robot(shared_robot: VirtualUR10e) -> Iterator[VirtualUR10e]:
    """The robot of all tests; afterwards it is in remote control, released, and runs no program."""
    yield shared_robot
    shared_robot.request("remote-control", on=True)
    with RemoteControl(shared_robot.host) as dashboard:
        deadline = time.monotonic() + 10.0
        while dashboard.ask("unlock protective stop").startswith("Cannot unlock"):
            assert time.monotonic() < deadline, "the protective stop is still locked"
            time.sleep(0.05)
        dashboard.ask("stop")
    while shared_robot.request("statistics")["runtime"] != "STOPPED":
        assert time.monotonic() < deadline, "a program is still running"
        time.sleep(0.01)


class RemoteControl:
    """A dashboard connection without the vendor's client."""

    def __init__(self, host: str) -> None:
        self._socket = socket.create_connection((host, 29999), timeout=5.0)
        self._lines = self._socket.makefile()
        self._lines.readline()  # its greeting

    def __enter__(self) -> RemoteControl:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def ask(self, command: str) -> str:
        self._socket.sendall(f"{command}\n".encode())
        return self._lines.readline().strip()


def run(host: str, scenario: str) -> dict[str, Any]:
    """Run a scenario to its end and return its result."""
    done = subprocess.run(
        [sys.executable, str(CHILD), host, scenario], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture
def start() -> Iterator[Callable[[str, str], subprocess.Popen[str]]]:
    children: list[subprocess.Popen[str]] = []

    def start_one(host: str, scenario: str) -> subprocess.Popen[str]:
        children.append(
            subprocess.Popen([sys.executable, str(CHILD), host, scenario], stdout=subprocess.PIPE, text=True)
        )
        return children[-1]

    yield start_one
    for child in children:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def test_moves_as_programmed(robot: VirtualUR10e) -> None:
    result = run(robot.host, "move")

    assert result["robot_mode"] == 7
    assert result["moved"] and result["running"] and result["within"] and not result["outside"]
    np.testing.assert_allclose(result["arrived"], GOAL, atol=2e-3)
    assert result["asynchronous"] and result["operations"][-2:] == [True, False]
    np.testing.assert_allclose(result["returned"], result["start"], atol=2e-3)
    assert result["path"] and result["stopped"]
    np.testing.assert_allclose(result["after_path"], result["start"], atol=1e-4)


def test_servoj_follows_a_sine_and_every_cycle_arrives(robot: VirtualUR10e) -> None:
    before = robot.request("statistics")
    result = run(robot.host, "servo")
    after = robot.request("statistics")
    counted = {name: after[name] - before[name] for name in ("inputs_received", "inputs_rejected", "servo_cycles")}

    assert result["stopped"]
    # each of the 1000 commands, servoStop, and the clears around them
    assert 1000 <= counted["inputs_received"] <= 1010 and counted["inputs_rejected"] == 0
    # a command stands until the next one; two clocks drift, so not one cycle each
    assert counted["servo_cycles"] > 800
    assert result["worst_deviation"] < 5e-3
    assert result["end_distance"] < 0.01


def test_watchdog_stops_the_robot_when_the_client_is_killed(
    robot: VirtualUR10e, start: Callable[..., Any], open_stream: Callable[..., Any]
) -> None:
    client = start(robot.host, "speed_with_watchdog")
    assert json.loads(client.stdout.readline())["moving"]
    stream = open_stream(robot.host, ["timestamp", "target_qd", "actual_qd", "runtime_state"])
    stream.until(lambda s: s["target_qd"][5] > 0.49)

    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    stream.until(lambda s: s["runtime_state"] == STOPPED and not any(s["target_qd"]))
    stream.until(lambda s: max(map(abs, s["actual_qd"])) < 1e-2)
    assert "watchdog" in robot.request("statistics")["stop_reason"]


def test_without_watchdog_only_a_stop_ends_the_motion(
    robot: VirtualUR10e, start: Callable[..., Any], open_stream: Callable[..., Any]
) -> None:
    client = start(robot.host, "speed_without_watchdog")
    assert json.loads(client.stdout.readline())["moving"]
    stream = open_stream(robot.host, ["timestamp", "target_qd", "runtime_state"])
    moving = stream.until(lambda s: s["target_qd"][5] > 0.49)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    later = stream.until(lambda s: s["timestamp"] > moving["timestamp"] + 0.5)
    assert later["target_qd"][5] > 0.49

    with RemoteControl(robot.host) as dashboard:
        assert dashboard.ask("stop") == "Stopped"
    stream.until(lambda s: s["runtime_state"] == STOPPED and not any(s["target_qd"]))


def test_protective_stop_is_unlocked_after_its_time_and_takes_the_program_with_it(
    robot: VirtualUR10e,
) -> None:
    result = run(robot.host, "protective_stop")

    assert result["moved"] is False
    assert result["stopped"] and result["safety_mode"] == 3
    assert "5s" in result["too_early"]
    assert result["unlocked"] and result["program_gone"] and result["uploaded"] and result["moves_again"]


def test_a_servo_jump_is_a_protective_stop(robot: VirtualUR10e) -> None:
    assert run(robot.host, "too_fast")["stopped"]
    assert "limit" in robot.request("statistics")["stop_reason"]


def test_local_control_refuses_the_client(robot: VirtualUR10e) -> None:
    robot.request("remote-control", on=False)
    assert "remote control" in run(robot.host, "connect")["refused"]


def test_registers_belong_to_one_client(robot: VirtualUR10e, start: Callable[..., Any]) -> None:
    first = start(robot.host, "speed_without_watchdog")
    assert json.loads(first.stdout.readline())["moving"]
    assert "already in use" in run(robot.host, "connect")["refused"]


def test_an_old_controller_lacks_what_came_later(loopback_host: str, open_stream: Callable[..., Any]) -> None:
    with VirtualUR10e(loopback_host, version="5.22.0.0"):
        open_stream(loopback_host, ["actual_q"])
        with pytest.raises(AssertionError, match="NOT_FOUND"):
            open_stream(loopback_host, ["actual_current_as_torque"])
