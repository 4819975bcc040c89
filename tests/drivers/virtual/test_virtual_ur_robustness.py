"""The virtual controller among bad clients, on taken ports, under injected faults, and at its end."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drivers.virtual.process import VirtualRobotError, VirtualUR10e

PORTS = (29999, 30001, 30002, 30003, 30004)


@pytest.fixture(scope="module")
def robot(loopback_hosts: Callable[[], str]) -> Iterator[VirtualUR10e]:
    """One for all tests after which it goes on as before."""
    with VirtualUR10e(loopback_hosts(), seed=3) as running:
        yield running


@pytest.fixture
def doomed(loopback_host: str) -> Iterator[VirtualUR10e]:
    """Another, that the test may bring down."""
    with VirtualUR10e(loopback_host, seed=4) as running:
        yield running


def gaps(samples: list[dict[str, Any]]) -> list[int]:
    """Return the number of missing samples at each step."""
    cycles = [round(sample["timestamp"] / 0.002) for sample in samples]
    return [b - a - 1 for a, b in itertools.pairwise(cycles)]


def test_bad_bytes_end_only_their_own_connection(doomed: VirtualUR10e, open_stream: Callable[..., Any]) -> None:
    stream = open_stream(doomed.host, ["timestamp", "actual_q"])
    stream.sample()
    noise = random.Random(1)  # noqa: S311
    for port in PORTS:
        for size in (1, 40, 4000):
            with socket.create_connection((doomed.host, port), timeout=5.0) as bad:
                bad.sendall(noise.randbytes(size))
    with socket.create_connection((doomed.host, 30004), timeout=5.0) as bad:
        bad.sendall(b"\x00\x01O")
        while bad.recv(4096):  # an error message, then the end
            pass

    assert sum(gaps(list(stream.samples(0.3)))) == 0
    counters = doomed.request("statistics")
    assert counters["violations"] >= 1 and counters["clients"] == 1


def test_endless_program_and_line_are_cut_off(robot: VirtualUR10e) -> None:
    for port, head in ((30003, b"def endless():\n"), (29999, b"")):
        with (
            socket.create_connection((robot.host, port), timeout=10.0) as bad,
            pytest.raises(OSError, match=r"reset|pipe"),
        ):
            bad.sendall(head)
            for _ in range(2000):  # more than buffers on the way hold
                bad.sendall(b" " * 65536)


def test_foreign_programs_do_not_run_and_are_told(robot: VirtualUR10e) -> None:
    with socket.create_connection((robot.host, 30003), timeout=5.0) as client:
        client.sendall(b"def other():\n  movej([0,0,0,0,0,0])\nend\nset_digital_out(1, True)\n")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert robot.request("statistics")["runtime"] == "STOPPED"
    deadline = time.monotonic() + 5.0
    while "set_digital_out" not in robot.log and time.monotonic() < deadline:
        time.sleep(0.01)  # the log is collected by a thread
    assert "'other' refused" in robot.log and "set_digital_out" in robot.log


def test_dashboard_says_that_the_robot_is_virtual(robot: VirtualUR10e) -> None:
    with socket.create_connection((robot.host, 29999), timeout=5.0) as client, client.makefile("rw") as lines:
        assert lines.readline().startswith("Connected: Universal Robots Dashboard Server")
        answers = {}
        for command in (
            "get robot model",
            "get serial number",
            "PolyscopeVersion",
            "is in remote control",
            "robotmode",
            "safetystatus",
            "programState",
            "running",
            "stop",
            "nonsense",
            "quit",
        ):
            lines.write(command + "\n")
            lines.flush()
            answers[command] = lines.readline().strip()
        assert lines.readline() == ""
    assert answers == {
        "get robot model": "UR10e VIRTUAL",
        "get serial number": "0000000003",
        "PolyscopeVersion": "URSoftware 5.25.1.0 (virtual)",
        "is in remote control": "true",
        "robotmode": "Robotmode: RUNNING",
        "safetystatus": "Safetystatus: NORMAL",
        "programState": "STOPPED rtde_control",
        "running": "Program running: false",
        "stop": "Stopped",
        "nonsense": "could not understand: 'nonsense'",
        "quit": "Disconnected",
    }


def test_two_robots_on_two_addresses_are_two_individuals(
    robot: VirtualUR10e, doomed: VirtualUR10e, open_stream: Callable[..., Any]
) -> None:
    names = ["timestamp", "actual_current", "target_moment"]
    samples = [list(open_stream(one.host, names).samples(0.3)) for one in (robot, doomed)]
    assert all(sum(gaps(one)) == 0 for one in samples)
    first, second = samples
    assert first[0]["target_moment"] == second[0]["target_moment"]  # the same type of robot
    mean = [sum(s["actual_current"][1] for s in one) / len(one) for one in samples]
    assert abs(mean[0] - mean[1]) > 0.05  # yet not the same robot


def test_skipped_packages_show_as_gaps_and_are_counted(robot: VirtualUR10e, open_stream: Callable[..., Any]) -> None:
    stream = open_stream(robot.host, ["timestamp"])
    samples = [stream.sample()]
    before = robot.request("statistics")["packages_skipped"]
    robot.request("skip", packages=5)
    samples += stream.samples(0.3)
    assert [gap for gap in gaps(samples) if gap] == [5]
    assert robot.request("statistics")["packages_skipped"] == before + 5


def test_a_stall_is_silence_on_an_open_connection(robot: VirtualUR10e, open_stream: Callable[..., Any]) -> None:
    stream = open_stream(robot.host, ["timestamp"])
    samples = [stream.sample()]
    robot.request("stall", seconds=0.4)
    samples += stream.samples(0.8)
    missing = [gap for gap in gaps(samples) if gap]
    assert len(missing) == 1 and 180 <= missing[0] <= 210


def test_a_client_that_does_not_read_is_skipped_others_are_not(
    robot: VirtualUR10e, open_stream: Callable[..., Any]
) -> None:
    before = robot.request("statistics")["packages_skipped"]
    slow = [open_stream(robot.host, ["timestamp", *["actual_q"] * 200]) for _ in range(2)]
    reader = open_stream(robot.host, ["timestamp"])

    def skipped() -> int:
        return int(robot.request("statistics")["packages_skipped"])

    for sample in reader.samples(20.0):
        if round(sample["timestamp"] / 0.002) % 50 == 0 and skipped() > before:
            break
    assert skipped() > before
    assert sum(gaps(list(reader.samples(0.3)))) == 0
    assert sum(gaps(list(slow[0].samples(0.5)))) > 0  # it gets the newest, with a gap before


def test_dropped_connections(robot: VirtualUR10e, open_stream: Callable[..., Any]) -> None:
    stream = open_stream(robot.host, ["timestamp"])
    assert robot.request("drop")["dropped"] >= 1  # whoever was there before may be among them
    with pytest.raises(ConnectionError):
        list(stream.samples(2.0))
    open_stream(robot.host, ["timestamp"]).sample()  # it takes new clients


def test_emergency_stop_powers_off(doomed: VirtualUR10e, open_stream: Callable[..., Any]) -> None:
    stream = open_stream(doomed.host, ["safety_mode", "robot_mode", "safety_status_bits"])
    doomed.request("emergency-stop")
    sample = stream.until(lambda s: s["safety_mode"] == 7)
    assert sample["robot_mode"] == 3 and sample["safety_status_bits"] & 1 << 7


def test_unknown_requests_are_refused(robot: VirtualUR10e) -> None:
    with pytest.raises(VirtualRobotError, match="explode"):
        robot.request("explode")
    with pytest.raises(VirtualRobotError, match="seconds"):
        robot.request("stall")


@pytest.mark.parametrize("port", [29999, 30004])
def test_a_taken_port_is_named(loopback_host: str, port: int) -> None:
    with socket.create_server((loopback_host, port)):
        with pytest.raises(VirtualRobotError, match=f"{loopback_host}:{port}") as caught:
            VirtualUR10e(loopback_host).start()
        assert caught.value.code == "port-in-use"
        assert caught.value.context == {"host": loopback_host, "port": port}


def test_a_taken_port_ends_the_program_with_its_reason(loopback_host: str) -> None:
    with socket.create_server((loopback_host, 30004)):
        command = [sys.executable, "-m", "drivers.virtual.ur10e", "--host", loopback_host]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 69
    assert json.loads(done.stdout)["code"] == "port-in-use"


def test_a_foreign_address_is_an_error_not_a_traceback() -> None:
    with pytest.raises(VirtualRobotError, match=r"192\.0\.2\.1") as caught:
        VirtualUR10e("192.0.2.1").start()
    assert caught.value.code == "port-unavailable"


def test_a_killed_robot_is_told(doomed: VirtualUR10e) -> None:
    os.kill(doomed.pid, signal.SIGKILL)
    with pytest.raises(VirtualRobotError, match="exit code -9"):
        doomed.request("statistics")


def test_the_robot_ends_with_whoever_started_it(loopback_host: str) -> None:
    program = (
        "import sys, time; from drivers.virtual.process import VirtualUR10e\n"
        "robot = VirtualUR10e(sys.argv[1]).start(); print(robot.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, loopback_host], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert int(owner.stdout.readline()) > 0
        with socket.create_connection((loopback_host, 30004), timeout=5.0) as client:
            owner.kill()
            owner.wait()
            client.settimeout(10.0)
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""  # the robot is gone
