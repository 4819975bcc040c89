"""The dashboard client against the virtual controller, and against servers that misbehave."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from drivers.contract import (
    ConnectionLost,
    ControllerNotReady,
    DriverProtocolError,
    DriverTimeout,
    DriverUnreachable,
    ProtectiveStop,
)
from drivers.universal_robots.dashboard import Dashboard
from drivers.virtual.process import VirtualUR10e

Start = Callable[..., str]
BANNER = b"Connected: Universal Robots Dashboard Server\n"


def test_questions(virtual_ur10e: VirtualUR10e) -> None:
    with Dashboard(virtual_ur10e.host) as dashboard:
        assert dashboard.version() == (5, 25, 1)
        assert dashboard.serial_number() == virtual_ur10e.ready["serial"]
        assert dashboard.robot_model() == "UR10e VIRTUAL"
        assert dashboard.robot_mode() == "RUNNING"
        assert dashboard.safety_status() == "NORMAL"
        assert dashboard.remote_control()
        assert not dashboard.program_running()
        dashboard.stop()  # of nothing: fine too


def test_remote_control_is_seen(virtual_ur10e: VirtualUR10e) -> None:
    virtual_ur10e.request("remote-control", on=False)
    with Dashboard(virtual_ur10e.host) as dashboard:
        assert not dashboard.remote_control()
        virtual_ur10e.request("remote-control", on=True)
        assert dashboard.remote_control()


def test_a_protective_stop_is_released_when_its_time_has_come(virtual_ur10e: VirtualUR10e) -> None:
    with Dashboard(virtual_ur10e.host) as dashboard:
        virtual_ur10e.request("protective-stop")
        assert dashboard.safety_status() == "PROTECTIVE_STOP"
        with pytest.raises(ProtectiveStop, match="is not released: Cannot unlock"):
            dashboard.unlock_protective_stop()
        time.sleep(0.25)  # the controller's own lock time
        dashboard.unlock_protective_stop()


# --- servers that misbehave --------------------------------------------------------------------------------


def converse(*answers: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.sendall(BANNER)
        for answer in answers:
            connection.recv(100)
            connection.sendall(answer)

    return talk


def test_nobody_at_the_address(loopback_host: str) -> None:
    with pytest.raises(DriverUnreachable, match=rf"^{loopback_host}:29999: .*refused"), Dashboard(loopback_host):
        pass


def test_a_server_of_another_kind(controller: Start) -> None:
    host = controller(29999, lambda connection: connection.sendall(b"220 mail.example.org ESMTP\n"))
    with pytest.raises(DriverProtocolError, match="220 mail"), Dashboard(host):
        pass


def test_a_server_that_falls_silent(controller: Start) -> None:
    host = controller(29999, lambda connection: (connection.sendall(BANNER), connection.recv(10), connection.recv(1)))
    with Dashboard(host, timeout=0.2) as dashboard, pytest.raises(DriverTimeout, match=r"within 0\.2 s"):
        dashboard.robot_mode()


def test_a_server_that_goes_away(controller: Start) -> None:
    with Dashboard(controller(29999, converse())) as dashboard, pytest.raises(ConnectionLost):
        dashboard.robot_mode()


def test_answers_of_another_kind(controller: Start) -> None:
    host = controller(
        29999, converse(b"what?\n", b"maybe\n", b"Program running: maybe\n", *[b"could not understand\n"] * 2)
    )
    with Dashboard(host) as dashboard:
        with pytest.raises(DriverProtocolError, match="expected an answer to 'PolyscopeVersion', got 'what"):
            dashboard.version()
        with pytest.raises(DriverProtocolError, match="expected an answer to 'Robotmode"):
            dashboard.robot_mode()
        with pytest.raises(DriverProtocolError, match="expected an answer to 'running', got 'maybe'"):
            dashboard.program_running()
        assert dashboard.serial_number() is None
        assert dashboard.robot_model() is None


def test_a_stop_that_is_refused_matters_only_while_a_program_runs(controller: Start) -> None:
    refusal = b"Failed to execute: stop\n"
    host = controller(29999, converse(refusal, b"Program running: true\n", refusal, b"Program running: false\n"))
    with Dashboard(host) as dashboard:
        with pytest.raises(ControllerNotReady, match="use its stop button") as refused:
            dashboard.stop()
        assert refused.value.code == "stop-refused"
        dashboard.stop()
