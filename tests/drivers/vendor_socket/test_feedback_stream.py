"""The feedback reader against the virtual COMAN R5, and against servers that misbehave."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from core.streaming.samples import STATUS_EMERGENCY_STOP, STATUS_PROTECTIVE_STOP, SampleBlock
from drivers.contract import ConnectionLost, ControllerState, DriverProtocolError, DriverUnreachable
from drivers.vendor_socket.layout import load_layout
from drivers.vendor_socket.stream import STRANGE_BYTES, FeedbackReader
from drivers.virtual.process import VirtualComanR5

R5 = load_layout("coman_r5")


def reader_of(robot: VirtualComanR5) -> FeedbackReader:
    return FeedbackReader(robot.host, R5)


def read_for(reader: FeedbackReader, seconds: float) -> SampleBlock:
    deadline = time.monotonic() + seconds
    blocks = []
    while time.monotonic() < deadline:
        block = reader.read(0.5)
        if block is not None:
            blocks.append(block)
    return np.concatenate(blocks)


def read_until_lost(reader: FeedbackReader, count: int) -> SampleBlock:
    """Read until more than ``count`` samples were lost."""
    deadline = time.monotonic() + 10.0
    blocks: list[SampleBlock] = []
    while sum(int(block["lost"].sum()) for block in blocks) <= count:
        assert time.monotonic() < deadline
        block = reader.read(0.5)
        if block is not None:
            blocks.append(block)
    return np.concatenate(blocks)


def read_until_whole(reader: FeedbackReader) -> SampleBlock:
    """Read until a hundred samples in a row came without a gap: a busy controller leaves some out, too."""
    deadline = time.monotonic() + 10.0
    samples = read_for(reader, 0.2)
    while samples.size < 100 or samples["lost"][-100:].any():
        assert time.monotonic() < deadline
        samples = np.concatenate([samples, read_for(reader, 0.1)])
    return samples


def test_no_sample_is_lost_at_1_khz(virtual_coman_r5: VirtualComanR5) -> None:
    with closing(reader_of(virtual_coman_r5)) as reader:
        info = reader.connect()
        samples = read_for(reader, 1.5)
        assert (info.serial, info.model, info.virtual) == (virtual_coman_r5.ready["serial"], "COMAN R5 VIRTUAL", True)
        assert reader.state == ControllerState("ENABLED", "unknown", program_running=False)
        assert reader.take_notices() == [
            f"{virtual_coman_r5.host}:7788: layout 'coman_r5' is to be confirmed with the vendor's document"
        ]
    assert samples.size > 1250
    assert samples["lost"].sum() == 0
    assert (np.diff(samples["sequence"].astype(np.int64)) == 1).all()
    np.testing.assert_allclose(np.diff(samples["controller_time"]), 0.001, atol=1e-9)
    assert (reader.counts.damaged, reader.counts.skipped) == (0, 0)
    assert np.abs(samples["current"]).max() > 0.5  # A, of an arm that holds its weight
    assert np.abs(samples["current"]).max() < 10.0


def test_frames_that_are_left_out_are_counted(virtual_coman_r5: VirtualComanR5) -> None:
    with closing(reader_of(virtual_coman_r5)) as reader:
        reader.connect()
        before = read_for(reader, 0.1)
        virtual_coman_r5.request("skip", frames=7)
        samples = np.concatenate([before, read_for(reader, 0.3)])
    assert samples["lost"].sum() == 7
    assert samples["sequence"][-1] - samples["sequence"][0] == samples.size - 1 + 7


def test_a_stall_shows_as_silence(virtual_coman_r5: VirtualComanR5) -> None:
    with closing(reader_of(virtual_coman_r5)) as reader:
        reader.connect()
        first = read_for(reader, 0.1)
        virtual_coman_r5.request("stall", seconds=0.4)
        while reader.read(0.05) is not None:
            pass
        assert reader.read(0.05) is None
        after = read_for(reader, 0.6)
    assert 200 < after["lost"].sum() < 800
    assert after["sequence"][0] > first["sequence"][-1] + 200


@pytest.mark.parametrize("share", [1e-4, 2e-3])
def test_spoilt_bytes_cost_only_their_frames(virtual_coman_r5: VirtualComanR5, share: float) -> None:
    """What is missing from the sequence is what was damaged, and nothing that arrives is wrong."""
    with closing(reader_of(virtual_coman_r5)) as reader:
        reader.connect()
        before = read_for(reader, 0.1)
        virtual_coman_r5.request("corrupt", share=share)
        try:
            spoilt = read_until_lost(reader, 10)
        finally:
            virtual_coman_r5.request("corrupt", share=0.0)
        samples = np.concatenate([before, spoilt, read_until_whole(reader)])
    assert samples["lost"].sum() > 10
    assert 10 * 272 < reader.counts.skipped <= 272 * samples["lost"].sum()  # a busy controller leaves out some, too
    assert reader.counts.skipped % 272 == 0
    np.testing.assert_array_equal(np.diff(samples["sequence"].astype(np.int64)) - 1, samples["lost"][1:])
    assert np.ptp(samples["q"], axis=0).max() < 1e-4
    assert any("damaged frames were skipped" in notice for notice in reader.take_notices())


def test_two_per_cent_of_spoilt_bytes_silence_it_and_do_not_end_it(virtual_coman_r5: VirtualComanR5) -> None:
    """Of 272 bytes all are intact once in 250 frames; that is silence for the acquisition, and no error."""
    with closing(reader_of(virtual_coman_r5)) as reader:
        reader.connect()
        read_for(reader, 0.1)
        virtual_coman_r5.request("corrupt", share=0.02)
        try:
            deadline = time.monotonic() + 0.7
            blocks = [reader.read(0.1)]
            while time.monotonic() < deadline:
                blocks.append(reader.read(0.1))
        finally:
            virtual_coman_r5.request("corrupt", share=0.0)
        samples = np.concatenate([*(block for block in blocks if block is not None), read_until_whole(reader)])
    assert samples["lost"].sum() > 500


def test_a_dropped_connection_is_taken_up_again_with_its_gap(virtual_coman_r5: VirtualComanR5) -> None:
    with closing(reader_of(virtual_coman_r5)) as reader:
        reader.connect()
        samples = read_for(reader, 0.1)
        virtual_coman_r5.request("drop")
        with pytest.raises(ConnectionLost, match="connection lost") as lost:
            while True:
                block = reader.read(1.0)
                assert block is not None
                samples = np.concatenate([samples, block])
        assert lost.value.context == {"host": virtual_coman_r5.host, "port": 7788}
        time.sleep(0.1)  # the gap
        reader.connect()
        after = read_for(reader, 0.1)
    samples = np.concatenate([samples, after])
    np.testing.assert_array_equal(np.diff(samples["sequence"].astype(np.int64)) - 1, samples["lost"][1:])
    assert after["lost"][0] >= 90
    assert after["lost"][1:].sum() == 0


def test_a_controller_that_was_restarted_goes_on_counting(virtual_coman_r5: VirtualComanR5) -> None:
    with closing(reader_of(virtual_coman_r5)) as reader:
        reader.connect()
        before = read_for(reader, 0.2)
        virtual_coman_r5.request("restart")
        with pytest.raises(ConnectionLost):
            while True:
                reader.read(1.0)
        reader.take_notices()
        reader.connect()
        after = read_for(reader, 0.1)
        notices = reader.take_notices()
    assert after["controller_time"][0] < before["controller_time"][-1]
    assert after["sequence"][0] > before["sequence"][-1]
    assert any("the controller was restarted" in notice for notice in notices)


def test_safety_shows_in_the_status(virtual_coman_r5: VirtualComanR5) -> None:
    from drivers.vendor_socket.driver import VendorSocketDriver

    driver = VendorSocketDriver(virtual_coman_r5.host, 1000.0, "coman_r5")
    with closing(driver.source()) as reader:
        reader.connect()
        virtual_coman_r5.request("protective-stop")
        assert read_for(reader, 0.25)["status"][-1] & STATUS_PROTECTIVE_STOP
        driver.recover()
        assert not read_for(reader, 0.1)["status"][-1] & (STATUS_PROTECTIVE_STOP | STATUS_EMERGENCY_STOP)


# --- controllers that misbehave ------------------------------------------------------------------------------

Serve = Callable[[bytes], str]


@pytest.fixture
def feedback_of(loopback_host: str) -> Iterator[Callable[[int, list[bytes]], str]]:
    """Serve these pieces to one client of a port."""
    closing_down = threading.Event()
    threads = []

    def start(port: int, pieces: list[bytes]) -> str:
        listener = socket.create_server((loopback_host, port))

        def serve() -> None:
            with listener:
                connection, _ = listener.accept()
                with connection:
                    for piece in pieces:
                        connection.sendall(piece)
                    closing_down.wait(10.0)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return loopback_host

    yield start
    closing_down.set()
    for thread in threads:
        thread.join()


def test_stamps_that_jitter_lose_nothing(
    feedback_of: Callable[[int, list[bytes]], str], loopback_host: str, frame_bytes: Any
) -> None:
    """The xArm's layout has no commands, so no other port is needed; its stamps come 4 ms apart, more or less."""
    random = np.random.default_rng(3)
    stamps = 10_000_000 + 4000 * np.arange(300) + random.integers(-900, 900, 300)
    gone = {50, 51, 200}
    feedback_of(30000, [frame_bytes.xarm(int(stamp)) for n, stamp in enumerate(stamps) if n not in gone])
    with closing(FeedbackReader(loopback_host, load_layout("xarm"))) as reader:
        reader.connect()
        blocks: list[SampleBlock] = []
        while sum(block.size for block in blocks) < 297:
            block = reader.read(2.0)
            assert block is not None
            blocks.append(block)
    samples = np.concatenate(blocks)
    assert samples["lost"].sum() == 3
    assert sorted(np.flatnonzero(samples["lost"])) == [50, 198]


def test_numbers_that_are_none_never_become_samples(
    feedback_of: Callable[[int, list[bytes]], str], loopback_host: str, frame_bytes: Any
) -> None:
    """Whoever watches a robot compares; a comparison with NaN is never true."""
    frames = [frame_bytes.xarm(4000 * n, q=np.nan if n in (4, 5) else 0.5) for n in range(1, 11)]
    feedback_of(30000, frames)
    with closing(FeedbackReader(loopback_host, load_layout("xarm"))) as reader:
        reader.connect()
        blocks: list[SampleBlock] = []
        while sum(block.size for block in blocks) < 8:
            block = reader.read(2.0)
            assert block is not None
            blocks.append(block)
        samples = np.concatenate(blocks)
        assert np.isfinite(samples["q"]).all()
        assert samples["lost"].sum() == 2
        assert reader.counts.damaged == 2


def test_a_peer_that_speaks_something_else_is_named(
    feedback_of: Callable[[int, list[bytes]], str], loopback_host: str
) -> None:
    feedback_of(30000, [b"HTTP/1.1 400 Bad Request\r\n" * (STRANGE_BYTES // 20)])
    with closing(FeedbackReader(loopback_host, load_layout("xarm"))) as reader:
        reader.connect()
        with pytest.raises(DriverProtocolError, match="not in frames of layout 'xarm'") as strange:
            while True:
                reader.read(2.0)
        assert loopback_host in strange.value.detail


def test_nobody_there(loopback_host: str) -> None:
    with pytest.raises(DriverUnreachable, match="check that the controller is on"):
        FeedbackReader(loopback_host, R5).connect()
