"""Bytes that are no AMS, or not whole, end at most their own connection."""

from __future__ import annotations

import contextlib
import random
import socket
import struct

import pyads
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.twincat_layout import VARIABLES
from drivers.virtual.process import VirtualUpru6
from drivers.virtual.twincat.ams import HEADER, TCP_HEADER, Address, AdsState, AmsViolation, FrameSplitter, Request
from drivers.virtual.twincat.device import PlcDevice
from drivers.virtual.twincat.notifications import Subscriptions
from drivers.virtual.twincat.symbols import Declaration, SymbolTable


def frame(net_id: bytes, command: int, data: bytes, *, length: int | None = None, flags: int = 4) -> bytes:
    header = HEADER.pack(
        net_id, 851, b"\x7f\0\0\1\1\1", 40000, command, flags, len(data) if length is None else length, 0, 1
    )
    return TCP_HEADER.pack(0, len(header) + len(data)) + header + data


NET_ID = b"\1\2\3\4\1\1"
READ_STATE = frame(NET_ID, 4, b"")


@given(cuts=st.lists(st.integers(1, 40), max_size=30), count=st.integers(1, 5))
def test_requests_are_found_however_the_stream_is_cut(cuts: list[int], count: int) -> None:
    stream = READ_STATE * count
    splitter, found, at = FrameSplitter(), 0, 0
    for cut in [*cuts, len(stream)]:
        found += len(list(splitter.feed(stream[at : at + cut])))
        at += cut
    assert found == count


@pytest.mark.parametrize(
    "bad",
    [
        b"\1\0" + READ_STATE[2:],
        TCP_HEADER.pack(0, 8) + bytes(8),
        TCP_HEADER.pack(0, 2**31) + READ_STATE[6:],
        frame(NET_ID, 4, b"", length=100),
        frame(NET_ID, 4, b"", flags=5),
    ],
    ids=["reserved", "too-short", "too-long", "announces-more", "no-request"],
)
def test_a_frame_that_cannot_be_is_a_violation(bad: bytes) -> None:
    with pytest.raises(AmsViolation):
        list(FrameSplitter().feed(bad))


def device() -> tuple[PlcDevice, Subscriptions]:
    symbols = SymbolTable([Declaration(f"GVL.{name}", kind) for name, kind in VARIABLES.items()])
    return PlcDevice(symbols, lambda _state: None), Subscriptions(symbols, 0.001)


@settings(max_examples=400)
@given(
    command=st.integers(0, 12),
    head=st.lists(st.sampled_from([0, 1, 2, 4, 16, 500, 2**31, 2**32 - 1, 0x4040, 0x60000, *range(0xF003, 0xF010),
                                   0xF080, 0xF081, 0xF082, 0xF100]), max_size=7),
    tail=st.binary(max_size=64),
)  # fmt: skip
def test_a_device_answers_whatever_is_asked(command: int, head: list[int], tail: bytes) -> None:
    plc, subscriptions = device()
    data = struct.pack(f"<{len(head)}I", *head) + tail
    request = Request(Address(NET_ID, 851), Address(NET_ID, 40000), command, 1, data)
    answer = plc.answer(request, subscriptions)
    assert len(answer) >= 4
    assert len(answer) < 9 * 2**20
    list(subscriptions.due(0))
    assert plc.state is AdsState.RUN


def test_garbage_on_the_wire_ends_only_its_own_connection(virtual_upru6: VirtualUpru6) -> None:
    net_id = bytes(map(int, virtual_upru6.net_id.split(".")))
    noise = random.Random(7)  # noqa: S311
    good = frame(net_id, 2, struct.pack("<3I", 0xF00B, 0, 2**22))
    for turn in range(60):
        with contextlib.suppress(ConnectionError), socket.create_connection((virtual_upru6.host, 48898), 5.0) as raw:
            message = bytearray(good) if turn % 3 else bytearray(noise.randbytes(noise.randrange(1, 400)))
            for _ in range(turn % 3):
                message[noise.randrange(len(message))] = noise.randrange(256)
            raw.sendall(message)
            raw.shutdown(socket.SHUT_WR)
            raw.settimeout(5.0)
            while raw.recv(65536):
                pass
    for _ in range(20):  # and many at once, of which each new one replaces the last
        socket.create_connection((virtual_upru6.host, 48898), 5.0).close()
    with pyads.Connection(virtual_upru6.net_id, 851, virtual_upru6.host) as plc:
        assert plc.read_state() == (pyads.ADSSTATE_RUN, 0)
        before = plc.read_by_name("GVL_Dynid.nHead", pyads.PLCTYPE_UDINT)
        assert plc.read_by_name("GVL_Dynid.nPlcBeat", pyads.PLCTYPE_UDINT) >= before > 0
    assert virtual_upru6.request("statistics")["violations"] > 0


def test_a_second_link_from_the_same_computer_ends_the_first(virtual_upru6: VirtualUpru6) -> None:
    with socket.create_connection((virtual_upru6.host, 48898), 5.0) as first:
        first.settimeout(5.0)
        with socket.create_connection((virtual_upru6.host, 48898), 5.0), contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""
