"""RTDE packets, however the network cuts them."""

from __future__ import annotations

import contextlib
import itertools
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.contract import DriverProtocolError
from drivers.universal_robots import rtde

NAMES = ("timestamp", "actual_q", "robot_mode")
RECIPE = rtde.recipe(NAMES, b"\x01DOUBLE,VECTOR6D,INT32")


def data(number: int) -> bytes:
    return rtde.request(rtde.DATA, struct.pack(">B7di", 1, *[float(number)] * 7, -number))


def text(number: int) -> bytes:
    words, source = f"message {number}".encode(), b"safety"
    return rtde.request(rtde.TEXT, bytes([len(words)]) + words + bytes([len(source)]) + source + bytes([number % 4]))


def unknown(number: int) -> bytes:
    return rtde.request(200, struct.pack(">I", number))


@settings(max_examples=100, deadline=None)
@given(
    kinds=st.lists(st.sampled_from([data, data, data, text, unknown]), max_size=20),
    cuts=st.lists(st.integers(0, 1500), max_size=12),
)
def test_packets_survive_any_cutting(kinds: list[object], cuts: list[int]) -> None:
    stream = b"".join(make(number) for number, make in enumerate(kinds))  # type: ignore[operator]
    decoder = rtde.Decoder()
    decoder.recipe = RECIPE
    seen: list[tuple[object, int]] = []
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, end in itertools.pairwise(edges):
        for item in decoder.feed(stream[start:end]):
            if isinstance(item, np.ndarray):
                np.testing.assert_array_equal(item["actual_q"], item["timestamp"][:, None] * np.ones(6))
                np.testing.assert_array_equal(item["robot_mode"], -item["timestamp"])
                seen += [(data, int(stamp)) for stamp in item["timestamp"]]
            elif isinstance(item, rtde.TextMessage):
                number = int(item.text.removeprefix("message "))
                assert (item.source, item.level) == ("safety", rtde._TEXT_LEVELS[number % 4])
                seen.append((text, number))
            else:
                assert item.kind == 200
                seen.append((unknown, *struct.unpack(">I", item.payload)))
    assert seen == [(make, number) for number, make in enumerate(kinds)]


@settings(max_examples=200, deadline=None)
@given(
    wrong=st.lists(st.tuples(st.integers(0, 64 * 8 - 1), st.integers(0, 255)), max_size=6),
    tail=st.binary(max_size=80),
    answer=st.binary(max_size=40),
)
def test_damaged_bytes_are_refused_or_decoded(wrong: list[tuple[int, int]], tail: bytes, answer: bytes) -> None:
    """Nothing but DriverProtocolError is raised, and all that is decoded has the agreed layout."""
    stream = bytearray(b"".join(map(data, range(8))) + tail)
    for at, byte in wrong:
        stream[at] = byte
    decoder = rtde.Decoder()
    decoder.recipe = RECIPE
    with contextlib.suppress(DriverProtocolError):
        for item in decoder.feed(bytes(stream)):
            if isinstance(item, np.ndarray):
                assert item.dtype == RECIPE.packet
                assert (item["recipe"] == 1).all()
    for decode in (rtde.controller_version, lambda payload: rtde.recipe(NAMES, payload)):
        with contextlib.suppress(DriverProtocolError):
            decode(answer)
    rtde.accepted(answer)


def test_packets_in_one_piece_are_decoded_at_once() -> None:
    decoder = rtde.Decoder()
    decoder.recipe = RECIPE
    (run,) = decoder.feed(b"".join(map(data, range(500))))
    assert isinstance(run, np.ndarray)
    assert run["timestamp"].tolist() == list(range(500))


def test_requests_are_as_the_guide_has_them() -> None:
    assert rtde.request_protocol() == bytes.fromhex("0005 56 0002")
    assert rtde.request(rtde.START) == bytes.fromhex("0003 53")
    assert rtde.request_outputs(["timestamp"], 500.0) == bytes.fromhex("0014 4f 407f400000000000") + b"timestamp"
    assert rtde.controller_version(struct.pack(">4I", 5, 25, 1, 128)) == (5, 25, 1, 128)
    assert rtde.accepted(b"\x01")
    assert not rtde.accepted(b"\x00")


def test_text_that_is_cut_short_still_shows() -> None:
    (message,) = rtde.Decoder().feed(rtde.request(rtde.TEXT, b"\x20overheated"))
    assert message == rtde.TextMessage("unknown", "", "overheated")


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        (b"\x00\x02V", "does not speak RTDE"),
        (rtde.request(rtde.DATA, b"\x01" + bytes(8)), "expected 64 bytes for recipe 1"),
        (rtde.request(rtde.DATA, b"\x02" + bytes(60)), "64 bytes for recipe 2"),
    ],
)
def test_streams_of_another_kind_are_refused(stream: bytes, problem: str) -> None:
    decoder = rtde.Decoder()
    decoder.recipe = RECIPE
    with pytest.raises(DriverProtocolError, match=problem):
        decoder.feed(stream)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"\x01DOUBLE,NOT_FOUND,INT32", "does not offer actual_q"),
        (b"\x01DOUBLE,INT32", "asked for 3 fields, the answer has 2"),
        (b"\x01DOUBLE,VECTOR6D,FLOAT16", "unknown field types FLOAT16"),
        (b"", "empty"),
    ],
)
def test_outputs_that_are_not_offered_are_named(answer: bytes, problem: str) -> None:
    with pytest.raises(DriverProtocolError, match=problem):
        rtde.recipe(NAMES, answer)


def test_data_before_the_setup_is_refused() -> None:
    with pytest.raises(DriverProtocolError, match="before any output"):
        rtde.Decoder().feed(data(1))
    with pytest.raises(DriverProtocolError, match="3 bytes"):
        rtde.controller_version(b"abc")
