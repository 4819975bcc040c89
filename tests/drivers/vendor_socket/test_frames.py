"""Bytes to frames: whatever is between them and however they are cut, intact ones arrive, damaged ones never."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.vendor_socket.checksums import CHECKSUMS
from drivers.vendor_socket.feedback_layout import BinaryFeedback
from drivers.vendor_socket.frames import FrameParser
from drivers.vendor_socket.json_frames import JsonFrameParser
from drivers.vendor_socket.layout import load_layout
from drivers.vendor_socket.samples import SampleMaker


def parser(name: str) -> FrameParser | JsonFrameParser:
    layout = load_layout(name)
    if isinstance(layout.feedback, BinaryFeedback):
        return FrameParser(layout.feedback, layout.n_joints)
    return JsonFrameParser(layout.feedback, layout.n_joints)


def numbers(reader: FrameParser | JsonFrameParser, pieces: list[bytes], field: str = "sequence") -> list[int]:
    return [int(value) for piece in pieces for run in reader.feed(piece) for value in run[field]]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), longest=st.integers(1, 3000))
def test_however_the_stream_is_cut(frame_bytes: Any, seed: int, longest: int) -> None:
    reader = parser("coman_r5")
    stream = b"".join(frame_bytes.r5(n) for n in range(40))
    assert numbers(reader, frame_bytes.cut(stream, seed, longest)) == list(range(40))
    assert (reader.counts.frames, reader.counts.damaged, reader.counts.skipped) == (40, 0, 0)


@settings(max_examples=60, deadline=None)
@given(
    garbage=st.lists(
        st.one_of(st.binary(max_size=600), st.sampled_from([b"R5\xaa\x55\x10\x01\x01\x00", b"R5\xaa", b"R5"])),
        min_size=12,
        max_size=12,
    ),
    seed=st.integers(0, 2**32),
)
def test_garbage_between_frames_costs_no_frame(frame_bytes: Any, garbage: list[bytes], seed: int) -> None:
    """Even when it looks like the beginning of one."""
    reader = parser("coman_r5")
    stream = b"".join(waste + frame_bytes.r5(n) for n, waste in enumerate(garbage)) + frame_bytes.r5(12) * 2
    seen = numbers(reader, frame_bytes.cut(stream, seed))
    assert seen == [*range(12), 12, 12]
    assert reader.counts.skipped == sum(map(len, garbage))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.sampled_from([1e-4, 1e-3, 0.02]))
def test_corrupted_bytes_never_make_a_frame_and_cost_only_their_own(frame_bytes: Any, seed: int, share: float) -> None:
    """Of 2 % corrupted bytes hardly a frame of 272 is free; the few that are arrive all the same."""
    random = np.random.default_rng(seed)
    frames = [frame_bytes.r5(n) for n in range(200)]
    stream = np.frombuffer(b"".join(frames), np.uint8).copy()
    hit = random.random(stream.size) < share
    hit[-3 * 272 :] = False  # the end shows that the reader has found its way back
    stream[hit] ^= random.integers(1, 256, int(hit.sum())).astype(np.uint8)
    intact = [n for n in range(200) if not hit[272 * n : 272 * (n + 1)].any()]
    reader = parser("coman_r5")
    assert numbers(reader, frame_bytes.cut(stream.tobytes(), seed)) == intact
    assert reader.counts.skipped == 272 * (200 - len(intact))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), dropped=st.sets(st.integers(0, 272 * 50 - 1), max_size=8))
def test_bytes_that_are_missing_cost_only_their_frames(frame_bytes: Any, seed: int, dropped: set[int]) -> None:
    stream = np.delete(np.frombuffer(b"".join(frame_bytes.r5(n) for n in range(53)), np.uint8), sorted(dropped))
    intact = [n for n in range(53) if n not in {at // 272 for at in dropped}]
    assert numbers(parser("coman_r5"), frame_bytes.cut(stream.tobytes(), seed)) == intact


@pytest.mark.parametrize("name", ["dobot", "elite_ec", "xarm", "jaka", "coman_r5"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_bytes_raise_anything_and_the_way_back_is_found(frame_bytes: Any, name: str, data: st.DataObject) -> None:
    """Without a checksum some of what follows garbage may be lost, but not for long."""
    make = {
        "dobot": lambda n: frame_bytes.dobot(8 * n),
        "elite_ec": lambda n: frame_bytes.elite(8 * n, 607),
        "xarm": lambda n: frame_bytes.xarm(5000 * n),
        "jaka": lambda n: frame_bytes.jaka(float(n)),
        "coman_r5": frame_bytes.r5,
    }[name]
    reader = parser(name)
    frames = [make(n) for n in range(12)]
    beginning = frames[0][: data.draw(st.integers(0, len(frames[0]) - 1))]
    waste = data.draw(st.binary(max_size=3000))
    for piece in frame_bytes.cut(beginning + waste + b"".join(frames), data.draw(st.integers(0, 2**32))):
        reader.feed(piece)
    assert reader.counts.frames >= 5
    before = reader.counts.frames
    for frame in frames:
        reader.feed(frame)
    assert reader.counts.frames == before + 12


def test_frames_whose_size_firmware_decides(frame_bytes: Any) -> None:
    """The same file reads both; signals that older firmware does not send are missing from its frames."""
    for size in (365, 607, 1024):
        reader = parser("elite_ec")
        runs = [run for n in range(20) for run in reader.feed(frame_bytes.elite(8 * n, size))]
        assert {run.dtype.itemsize for run in runs} == {size}
        frames = np.concatenate(runs)
        assert (frames["stamp"] == 8 * np.arange(20)).all()
        assert ("qd" in frames.dtype.names) == (size >= 607)


def test_a_head_in_a_signal_does_not_unsettle_a_reader_that_is_on_its_way(frame_bytes: Any) -> None:
    reader = parser("xarm")
    looks_like_a_size = struct.unpack("<f", struct.pack("<I", 784))[0]
    stream = b"".join(frame_bytes.xarm(5000 * n, q=looks_like_a_size) for n in range(10))
    assert numbers(reader, frame_bytes.cut(stream, 3), "stamp") == [5000 * n for n in range(10)]


CHECK = {  # of b"123456789", from the CRC catalogue (reveng.sourceforge.io)
    "crc32": 0xCBF43926,
    "crc16_modbus": 0x4B37,
    "crc16_arc": 0xBB3D,
    "crc16_ccitt_false": 0x29B1,
    "crc16_xmodem": 0x31C3,
    "sum8": 0xDD,
    "sum16": 0x1DD,
    "sum32": 0x1DD,
    "xor8": 0x31,
}


def test_checksums_are_the_catalogues() -> None:
    assert {name: check(b"123456789") for name, check in CHECKSUMS.items()} == CHECK


def test_four_milliseconds_of_frames_cost_less_than_a_twentieth_of_them(frame_bytes: Any) -> None:
    """Bytes to samples, at 1 kHz. As a ratio to what this machine does now: an addition in Python takes some 40 ns
    where nothing else runs, so that 5000 of them are 0.2 ms.
    """
    reader, maker = parser("coman_r5"), SampleMaker(load_layout("coman_r5"))
    pieces = [b"".join(frame_bytes.r5(4 * n + k) for k in range(4)) for n in range(400)]

    def read(some: list[bytes]) -> None:
        for piece in some:
            for run in reader.feed(piece):
                maker.samples(run, 0)

    def add() -> None:
        total = 0
        for k in range(5000):
            total += k

    read(pieces)
    reading = min(_seconds(lambda at=at: read(pieces[at : at + 20])) for at in range(0, 400, 20)) / 20
    assert reading < min(_seconds(add) for _ in range(20))


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun
