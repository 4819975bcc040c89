"""The command channel against controllers that answer as the vendors' documents say, and against some that do not."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from drivers.contract import ConnectionLost, ControllerNotReady, DriverTimeout, UnsupportedController
from drivers.vendor_socket import commands
from drivers.vendor_socket.commands import CommandChannel
from drivers.vendor_socket.layout import load_layout

Serve = Callable[[int, bytes, Callable[[bytes], bytes | None]], list[bytes]]


@pytest.fixture
def serve(loopback_host: str) -> Iterator[Serve]:
    """Answer each command of one client with what ``answer`` says; None closes the connection."""
    threads: list[threading.Thread] = []

    def start(port: int, end: bytes, answer: Callable[[bytes], bytes | None]) -> list[bytes]:
        listener = socket.create_server((loopback_host, port))
        heard: list[bytes] = []

        def talk() -> None:
            connection, _ = listener.accept()
            with listener, connection, contextlib.suppress(ConnectionResetError):  # left with an answer unread
                rest = b""
                while data := connection.recv(4096):
                    *texts, rest = (rest + data).split(end)
                    for text in texts:
                        heard.append(text + end)
                        reply = answer(text + end)
                        if reply is None:
                            return
                        connection.sendall(reply)

        threads.append(threading.Thread(target=talk))
        threads[-1].start()
        return heard

    yield start
    for thread in threads:
        thread.join()


def test_what_is_sent_is_filled_in_and_acknowledged(serve: Serve, loopback_host: str) -> None:
    heard = serve(29999, b")", lambda text: b"0,{}," + text + b";")
    with CommandChannel(loopback_host, load_layout("dobot")) as channel:
        channel.ask("enable")
        channel.stream("servo_point", q=np.array([0.0, np.pi / 2, -np.pi, 0, 0, 0]), period=0.03)
        channel.ask("stop")
    assert heard == [
        b"EnableRobot()",
        b"ServoJ(0.000000000,90.000000000,-180.000000000,0.000000000,0.000000000,0.000000000,t=0.03,aheadtime=50,"
        b"gain=500)",
        b"Stop()",
    ]


def test_a_late_answer_to_a_point_is_not_taken_for_that_to_a_stop(serve: Serve, loopback_host: str) -> None:
    """It says 0, but the stop was refused."""
    late: list[bytes] = []

    def answer(text: bytes) -> bytes:
        if text.startswith(b"ServoJ"):
            late.append(b"0,{}," + text + b";")
            return b""
        return late.pop() + b"-1,{}," + text + b";"

    serve(29999, b")", answer)
    with CommandChannel(loopback_host, load_layout("dobot")) as channel:
        channel.stream("servo_point", q=np.zeros(6), period=0.03)
        with pytest.raises(ControllerNotReady, match=r"'stop' was refused: -1,\{\},Stop\(\);") as refused:
            channel.ask("stop")
    assert refused.value.context == {"host": loopback_host, "port": 29999}


def test_a_point_that_was_refused_is_told(serve: Serve, loopback_host: str) -> None:
    serve(29999, b")", lambda text: b"-2,{}," + text + b";")
    with (
        CommandChannel(loopback_host, load_layout("dobot")) as channel,
        pytest.raises(ControllerNotReady, match="'servo_point' was refused: -2"),
    ):
        for _ in range(1000):
            channel.stream("servo_point", q=np.zeros(6), period=0.03)


def test_json_rpc_is_acknowledged_by_its_number(serve: Serve, loopback_host: str) -> None:
    """A stray answer, and one of number 12, are not that to number 1."""
    stray = b'{"jsonrpc": "2.0", "result": "true", "id": 12}\n{"jsonrpc": "2.0", "result": "true", "id": null}\n'
    serve(8055, b"\n", lambda _text: stray + b'{"jsonrpc": "2.0", "result": "false", "id": 1}\n')
    with (
        CommandChannel(loopback_host, load_layout("elite_ec")) as channel,
        pytest.raises(ControllerNotReady, match='"result": "false", "id": 1'),
    ):
        channel.ask("stop")


def test_replies_without_an_end_of_line(serve: Serve, loopback_host: str) -> None:
    serve(10001, b"}", lambda _text: b'{"errorCode":"0","errorMsg":"","cmdName":"stop_program"}')
    with CommandChannel(loopback_host, load_layout("jaka")) as channel:
        assert '"cmdName":"stop_program"' in channel.ask("stop")


def test_silence_and_closed_doors(serve: Serve, loopback_host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "REPLY_TIMEOUT", 0.2)
    serve(29999, b")", lambda text: b"" if text == b"Stop()" else None)
    with CommandChannel(loopback_host, load_layout("dobot")) as channel:
        with pytest.raises(DriverTimeout, match=r"no reply to 'stop' within 0\.2 s"):
            channel.ask("stop")
        with pytest.raises(ConnectionLost):
            channel.ask("enable")
        with pytest.raises(UnsupportedController, match="no command 'servo_begin'"):
            channel.ask("servo_begin")


def test_a_layout_without_commands(loopback_host: str) -> None:
    with pytest.raises(UnsupportedController, match="describes no commands"):
        CommandChannel(loopback_host, load_layout("xarm"))
