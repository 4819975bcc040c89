"""The stream reader against the virtual controller, and against servers that misbehave."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing

import numpy as np
import pytest

from core.streaming.samples import STATUS_PROGRAM_RUNNING, STATUS_PROTECTIVE_STOP, SampleBlock
from drivers.contract import (
    ConnectionLost,
    ControllerState,
    DriverProtocolError,
    DriverTimeout,
    DriverUnreachable,
    UnsupportedController,
)
from drivers.universal_robots.stream import RtdeStreamReader
from drivers.virtual.process import VirtualUR10e

Start = Callable[..., str]


def read_for(reader: RtdeStreamReader, seconds: float) -> SampleBlock:
    deadline = time.monotonic() + seconds
    blocks = []
    while time.monotonic() < deadline:
        block = reader.read(0.5)
        assert block is not None
        blocks.append(block)
    return np.concatenate(blocks)


def read_count(reader: RtdeStreamReader, count: int) -> SampleBlock:
    blocks: list[SampleBlock] = []
    while sum(block.size for block in blocks) < count:
        block = reader.read(1.0)
        assert block is not None
        blocks.append(block)
    return np.concatenate(blocks)


def read_until(reader: RtdeStreamReader, bit: int, on: bool) -> None:
    """Read until the status has ``bit``, or has it no more."""
    deadline = time.monotonic() + 5.0
    while bool(read_count(reader, 1)["status"][-1] & bit) != on:
        assert time.monotonic() < deadline


def test_no_sample_is_lost(virtual_ur10e: VirtualUR10e) -> None:
    with closing(RtdeStreamReader(virtual_ur10e.host, 500.0)) as reader:
        info = reader.connect()
        samples = read_for(reader, 1.0)
        assert (info.version, info.serial) == ("5.25.1.0", virtual_ur10e.ready["serial"])
        assert reader.state == ControllerState("RUNNING", "NORMAL", program_running=False, temperatures=(30.0,) * 6)
    assert samples.size > 400
    assert samples["lost"].sum() == 0
    assert (np.diff(samples["sequence"].astype(np.int64)) == 1).all()
    np.testing.assert_allclose(np.diff(samples["controller_time"]), 0.002, atol=1e-9)
    assert (np.diff(samples["receive_time"]) >= 0).all()
    assert np.isfinite(samples["q"]).all()
    assert np.isfinite(samples["torque"]).all()
    assert (np.abs(samples["target_torque"]).max(axis=0) > 1.0).any()


def test_a_slower_stream_counts_its_own_periods(virtual_ur10e: VirtualUR10e) -> None:
    with closing(RtdeStreamReader(virtual_ur10e.host, 125.0)) as reader:
        reader.connect()
        samples = read_for(reader, 0.2)
    assert samples["lost"].sum() == 0
    assert (np.diff(samples["sequence"].astype(np.int64)) == 1).all()


def test_packets_the_controller_skips_are_counted(virtual_ur10e: VirtualUR10e) -> None:
    with closing(RtdeStreamReader(virtual_ur10e.host, 500.0)) as reader:
        reader.connect()
        before = read_for(reader, 0.1)
        virtual_ur10e.request("skip", packages=7)
        samples = np.concatenate([before, read_for(reader, 0.2)])
    assert samples["lost"].sum() == 7
    assert samples["sequence"][-1] - samples["sequence"][0] == samples.size - 1 + 7


def test_a_stall_shows_as_silence(virtual_ur10e: VirtualUR10e) -> None:
    with closing(RtdeStreamReader(virtual_ur10e.host, 500.0)) as reader:
        reader.connect()
        first = read_for(reader, 0.1)
        virtual_ur10e.request("stall", seconds=0.4)
        while reader.read(0.05) is not None:
            pass
        assert reader.read(0.05) is None
        after = read_count(reader, 10)
    assert 100 < after["lost"].sum() < 400
    assert after["sequence"][0] > first["sequence"][-1] + 100


def test_a_dropped_connection_is_taken_up_again_with_its_gap(virtual_ur10e: VirtualUR10e) -> None:
    with closing(RtdeStreamReader(virtual_ur10e.host, 500.0)) as reader:
        reader.connect()
        before = read_for(reader, 0.1)
        virtual_ur10e.request("drop")
        with pytest.raises(ConnectionLost, match="connection lost") as lost:
            while True:
                block = reader.read(1.0)
                assert block is not None
                before = np.concatenate([before, block])
        assert lost.value.context == {"host": virtual_ur10e.host, "port": 30004}
        time.sleep(0.1)  # the gap
        reader.connect()
        after = read_count(reader, 20)
    samples = np.concatenate([before, after])
    missing = np.diff(samples["sequence"].astype(np.int64)) - 1
    np.testing.assert_array_equal(missing, samples["lost"][1:])
    assert after["lost"][0] >= 45
    assert after["lost"][1:].sum() == 0


def test_safety_shows_in_status_and_state(virtual_ur10e: VirtualUR10e) -> None:
    from drivers.universal_robots.dashboard import Dashboard

    with closing(RtdeStreamReader(virtual_ur10e.host, 500.0)) as reader:
        reader.connect()
        virtual_ur10e.request("protective-stop")
        read_until(reader, STATUS_PROTECTIVE_STOP, True)
        assert reader.state is not None
        assert reader.state.safety_mode == "PROTECTIVE_STOP"
        time.sleep(0.2)  # until it may be unlocked, which nothing tells
        with Dashboard(virtual_ur10e.host) as dashboard:
            dashboard.unlock_protective_stop()
        read_until(reader, STATUS_PROTECTIVE_STOP, False)


# --- controllers that misbehave ----------------------------------------------------------------------------


def packet(kind: str, payload: bytes) -> bytes:
    return struct.pack(">HB", 3 + len(payload), ord(kind)) + payload


def data_packet(stamp: float, robot_status_bits: int = 1, recipe: int = 1) -> bytes:
    """One packet in the order of ``outputs.outputs`` for an older controller, with 0.5 in every joint field."""
    joints = [0.5] * 6 * 7
    heat = [30.0] * 6
    return packet("U", struct.pack(">Bd42d2I2i6d", recipe, stamp, *joints, robot_status_bits, 1, 7, 1, *heat))


ANSWERS = {
    "V": b"\x01",
    "v": struct.pack(">4I", 5, 20, 1, 2),
    "O": b"\x01" + ",".join(["DOUBLE", *["VECTOR6D"] * 7, "UINT32", "UINT32", "INT32", "INT32", "VECTOR6D"]).encode(),
    "S": b"\x01",
}


def handshake(connection: socket.socket, answers: dict[str, bytes]) -> None:
    """Answer requests until the stream is started."""
    received = b""
    while True:
        while len(received) < 3 or len(received) < struct.unpack_from(">H", received)[0]:
            data = connection.recv(4096)
            if not data:
                return
            received += data
        size, kind = struct.unpack_from(">HB", received)
        received = received[size:]
        connection.sendall(packet(chr(kind), answers[chr(kind)]))
        if chr(kind) == "S":
            return


def test_nobody_at_the_address(loopback_host: str) -> None:
    with pytest.raises(DriverUnreachable, match=rf"^{loopback_host}:30004: .*refused"):
        RtdeStreamReader(loopback_host, 500.0).connect()
    with pytest.raises(DriverUnreachable, match=r"^no-such-robot\.invalid:30004: "):
        RtdeStreamReader("no-such-robot.invalid", 500.0).connect()
    with pytest.raises(ConnectionLost, match="not connected"):
        RtdeStreamReader(loopback_host, 500.0).read(0.1)


def test_more_samples_than_the_controller_gives(virtual_ur10e: VirtualUR10e) -> None:
    with pytest.raises(UnsupportedController, match="at most 500; lower rate_hz"):
        RtdeStreamReader(virtual_ur10e.host, 1000.0).connect()


def test_a_server_that_says_nothing(controller: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivers.universal_robots.stream.CONNECT_TIMEOUT", 0.2)
    host = controller(30004, lambda connection: connection.recv(5) and connection.recv(1))
    with pytest.raises(DriverTimeout, match="no answer to RTDE request 'V' within"):
        RtdeStreamReader(host, 500.0).connect()


def test_a_server_of_another_kind(controller: Start) -> None:
    host = controller(30004, lambda connection: connection.sendall(b"\x00\x00\x00SSH-2.0-OpenSSH_9.6\r\n"))
    with pytest.raises(DriverProtocolError, match=rf"^{host}:30004: .*does not speak RTDE"):
        RtdeStreamReader(host, 500.0).connect()


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "closes"])
def test_a_server_that_answers_in_another_language(
    controller: Start, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """What it says happens to look like the beginning of a long packet."""
    monkeypatch.setattr("drivers.universal_robots.stream.CONNECT_TIMEOUT", 0.3)

    def answer(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        if stays:
            connection.recv(1)

    host = controller(30004, answer)
    with pytest.raises(
        DriverProtocolError, match=rf"^{host}:30004: something answers, but not in RTDE: .*HTTP/1\.1 400"
    ):
        RtdeStreamReader(host, 500.0).connect()


def test_a_server_that_never_stops_talking(controller: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets that are right and no answer; the wait for one is over in time all the same."""
    monkeypatch.setattr("drivers.universal_robots.stream.CONNECT_TIMEOUT", 0.3)

    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall(packet("x", b"?") * 10)
            time.sleep(0.001)  # many in every wait of the reader, and no processor for the flood alone

    host = controller(30004, flood)
    begun = time.monotonic()
    with pytest.raises(DriverTimeout, match="no answer to RTDE request 'V'"):
        RtdeStreamReader(host, 500.0).connect()
    assert time.monotonic() - begun < 2.0


@pytest.mark.parametrize(
    ("junk", "error"),
    [(b"\x00\x01junk", DriverProtocolError), (packet("U", b"\x07" * 50), DriverProtocolError), (b"", ConnectionLost)],
    ids=["no-packet", "other-layout", "closes"],
)
def test_a_controller_that_goes_wrong_after_a_good_beginning(
    controller: Start, junk: bytes, error: type[Exception]
) -> None:
    were_read = threading.Event()

    def talk(connection: socket.socket) -> None:
        handshake(connection, ANSWERS)
        connection.sendall(data_packet(100.0) + data_packet(100.002))
        were_read.wait(5.0)
        connection.sendall(junk)

    host = controller(30004, talk)
    with closing(RtdeStreamReader(host, 500.0)) as reader:
        reader.connect()
        assert read_count(reader, 2)["lost"].tolist() == [0, 0]
        were_read.set()
        with pytest.raises(error, match=rf"^{host}:30004: "):
            reader.read(2.0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"V": b"\x00"}, "does not speak RTDE version 2"),
        ({"O": ANSWERS["O"].replace(b"VECTOR6D", b"NOT_FOUND", 1)}, "does not offer actual_q"),
        ({"S": b"\x00"}, "refuses to start"),
    ],
)
def test_a_controller_that_refuses(controller: Start, change: dict[str, bytes], problem: str) -> None:
    host = controller(30004, lambda connection: handshake(connection, ANSWERS | change))
    with pytest.raises(DriverProtocolError, match=problem):
        RtdeStreamReader(host, 500.0).connect()


def test_a_cb3_controller_is_slower(controller: Start) -> None:
    version = struct.pack(">4I", 3, 15, 8, 1)
    host = controller(30004, lambda connection: handshake(connection, ANSWERS | {"v": version}))
    with pytest.raises(UnsupportedController, match=r"version 3\.15 gives at most 125"):
        RtdeStreamReader(host, 500.0).connect()


def test_notices_restarts_and_repetitions(controller: Start) -> None:
    """Text, an unknown packet, a repeated sample; then the controller restarts and its clock begins anew."""

    def before(connection: socket.socket) -> None:
        handshake(connection, ANSWERS)
        connection.sendall(data_packet(100.0) + packet("M", b"\x08overheat\x06joint3\x02") + packet("x", b"?"))
        connection.sendall(data_packet(100.002) + data_packet(100.002) + data_packet(100.004, 3))

    def after(connection: socket.socket) -> None:
        handshake(connection, ANSWERS)
        connection.sendall(data_packet(0.002) + data_packet(0.004))

    host = controller(30004, before, after)
    with closing(RtdeStreamReader(host, 500.0)) as reader:
        assert reader.connect().serial is None
        first = read_count(reader, 3)
        assert first["sequence"].tolist() == [50000, 50001, 50002]
        assert (first["q"] == 0.5).all()
        assert np.isnan(first["torque"]).all()  # this version does not have it
        assert [bool(status & STATUS_PROGRAM_RUNNING) for status in first["status"]] == [False, False, True]
        with pytest.raises(ConnectionLost):
            reader.read(1.0)
        notices = "\n".join(reader.take_notices())
        for expected in (
            "neither serial number nor model",
            "warning from joint3: overheat",
            "unknown type 120",
            "repeats samples",
        ):
            assert expected in notices
        reader.connect()
        second = read_count(reader, 2)
        assert second["sequence"][0] > 50002
        assert second["sequence"][0] - 50003 == second["lost"][0]
        assert "controller was restarted" in "\n".join(reader.take_notices())
