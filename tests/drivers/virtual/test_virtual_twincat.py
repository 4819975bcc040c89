"""The virtual TwinCAT against the unmodified vendor's client: symbols, structures, sums, notifications, errors."""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyads
import pytest

from drivers.twincat_layout import SAMPLE, STRUCTURES, SYSTEM_VARIABLES, VARIABLES
from drivers.virtual.process import VirtualUpru6

SYMBOL_NOT_FOUND, SYMBOL_VERSION_INVALID, INVALID_SIZE = 1808, 1809, 1797
LREAL, REAL, UDINT, UINT, STRING = (
    pyads.PLCTYPE_LREAL,
    pyads.PLCTYPE_REAL,
    pyads.PLCTYPE_UDINT,
    pyads.PLCTYPE_UINT,
    pyads.PLCTYPE_STRING,
)


@pytest.fixture
def plc(virtual_upru6: VirtualUpru6) -> Iterator[pyads.Connection]:
    with pyads.Connection(virtual_upru6.net_id, 851, virtual_upru6.host) as connection:
        connection.set_timeout(2000)
        yield connection


def test_it_introduces_itself(plc: pyads.Connection) -> None:
    name, version = plc.read_device_info()
    assert (name, version.version, version.build) == ("Plc30 App", 3, 4026)
    assert plc.read_state() == (pyads.ADSSTATE_RUN, 0)


def test_every_symbol_is_uploaded_with_its_type(plc: pyads.Connection) -> None:
    symbols = {symbol.name: symbol for symbol in plc.get_all_symbols()}
    assert {f"GVL_Dynid.{name}" for name in VARIABLES} | set(SYSTEM_VARIABLES) <= set(symbols)
    assert symbols["GVL_Dynid.aRing"].symbol_type == "ARRAY [0..4095] OF ST_DynidSample"
    assert symbols["GVL_Dynid.stState"].symbol_type == "ST_DynidState"
    head = symbols["GVL_Dynid.nHead"]
    assert head.plc_type is UDINT
    assert head.read() > 0


def test_data_types_are_uploaded_with_their_members(plc: pyads.Connection) -> None:
    _, _, count, size = struct.unpack("<4I", bytes(plc.read(0xF00F, 0, ctypes.c_ubyte * 16, return_ctypes=True)))
    blob = bytes(plc.read(0xF00E, 0, ctypes.c_ubyte * size, return_ctypes=True))
    types, at = {}, 0
    while at < size:
        length, _, _, _, item_size, _, _, _, name_length, _, _, _, members = struct.unpack_from("<8I5H", blob, at)
        types[blob[at + 42 : at + 42 + name_length].decode()] = item_size, members
        at += length
    assert (at, len(types)) == (size, count)
    for structure in STRUCTURES:
        assert types[structure.name] == (structure.dtype.itemsize, len(structure.members))


def test_variables_members_and_elements_are_read_and_written_by_name(plc: pyads.Connection) -> None:
    assert plc.read_by_name("GVL_Dynid.stInfo.sModel", STRING) == "6-UPRU VIRTUAL"
    plc.write_by_name("gvl_dynid.stcommand.fspeed", 0.25, LREAL)
    assert plc.read_by_name("GVL_Dynid.stCommand.fSpeed", LREAL) == 0.25
    lengths = plc.read_by_name("GVL_Dynid.aRing[5].aLength", LREAL * 6)
    assert lengths[2] == plc.read_by_name("GVL_Dynid.aRing[5].aLength[3]", LREAL)
    assert all(0.9 < length < 1.1 for length in lengths)


def test_a_structure_is_read_as_the_client_declares_it(plc: pyads.Connection) -> None:
    definition = (
        ("eMode", UINT, 1),
        ("eError", UINT, 1),
        ("eEnd", UINT, 1),
        ("nMotion", UDINT, 1),
        ("nSaturated", UINT, 1),
        ("aDriveState", UINT, 6),
        ("aDriveError", UINT, 6),
        ("bHostAlive", pyads.PLCTYPE_BOOL, 1),
    )
    state = plc.read_structure_by_name("GVL_Dynid.stState", definition)
    assert (state["eMode"], state["aDriveError"]) == (1, [0] * 6)


def test_sums_read_and_write_many_variables_at_once(plc: pyads.Connection) -> None:
    names = ["GVL_Dynid.nHead", "GVL_Dynid.nPlcBeat", "GVL_Dynid.stInfo.nCycle"]
    values = plc.read_list_by_name(names)
    assert values["GVL_Dynid.nHead"] == values["GVL_Dynid.nPlcBeat"]  # of one cycle
    assert values["GVL_Dynid.stInfo.nCycle"] == 1_000_000
    answer = plc.write_list_by_name({"GVL_Dynid.nHostBeat": 7, "GVL_Dynid.stCommand.fAcceleration": 0.5})
    assert set(answer.values()) == {"no error"}
    assert plc.read_by_name("GVL_Dynid.nHostBeat", UDINT) == 7


def test_a_sum_of_reads_and_writes_keeps_failures_apart(plc: pyads.Connection) -> None:
    """0xF082, which the client has no call for: a handle for one symbol that exists and one that does not."""
    good, bad = b"GVL_Dynid.nHead\0", b"GVL_Dynid.nNothing\0"
    request = struct.pack("<8I", 0xF003, 0, 4, len(good), 0xF003, 0, 4, len(bad)) + good + bad
    buffer = ctypes.c_ubyte * len(request)
    answer = bytes(
        plc.read_write(0xF082, 2, ctypes.c_ubyte * 20, buffer(*request), buffer, return_ctypes=True, check_length=False)
    )
    assert struct.unpack_from("<4I", answer) == (0, 4, SYMBOL_NOT_FOUND, 0)
    (handle,) = struct.unpack_from("<I", answer, 16)
    assert plc.read_by_name("", UDINT, handle=handle) > 0
    plc.release_handle(handle)


class Notifications:
    def __init__(self) -> None:
        self.values: list[tuple[int, bytes]] = []
        self.arrived = threading.Event()

    def __call__(self, notification: Any, _name: str) -> None:
        header = notification.contents
        data = ctypes.addressof(header) + type(header).data.offset
        self.values.append((header.nTimeStamp, ctypes.string_at(data, header.cbSampleSize)))
        self.arrived.set()


def test_notifications_come_on_change_and_in_cycles(plc: pyads.Connection, virtual_upru6: VirtualUpru6) -> None:
    changes, cycles = Notifications(), Notifications()
    handles = [
        plc.add_device_notification("GVL_Dynid.stState.nSaturated", pyads.NotificationAttrib(2), changes),
        plc.add_device_notification(
            "GVL_Dynid.nHead",
            pyads.NotificationAttrib(4, pyads.ADSTRANS_SERVERCYCLE, max_delay=50.0, cycle_time=10.0),
            cycles,
        ),
    ]
    try:
        deadline = time.monotonic() + 5.0
        while len(cycles.values) < 30 and time.monotonic() < deadline:
            time.sleep(0.01)  # the client library fills the list in a thread of its own
        heads = [int.from_bytes(value, "little") for _, value in cycles.values[1:30]]
        assert {b - a for a, b in itertools.pairwise(heads)} == {10}
        quiet = len(changes.values)
        changes.arrived.clear()
        virtual_upru6.request("saturate", leg=2, on=True)
        assert changes.arrived.wait(2.0)
        virtual_upru6.request("saturate", leg=2, on=False)
        assert quiet <= 1  # nothing had changed before
        assert virtual_upru6.request("statistics")["subscriptions"] == 2
    finally:
        for handle in handles:
            plc.del_device_notification(*handle)
    assert virtual_upru6.request("statistics")["subscriptions"] == 0


def test_what_cannot_be_is_refused_with_the_code_of_a_real_plc(
    plc: pyads.Connection, virtual_upru6: VirtualUpru6
) -> None:
    def code(action: Any) -> int:
        with pytest.raises(pyads.ADSError) as refused:
            action()
        return int(refused.value.err_code)

    assert code(lambda: plc.read_by_name("GVL_Dynid.nNothing", UDINT)) == SYMBOL_NOT_FOUND
    assert code(lambda: plc.read_by_name("GVL_Dynid.aRing[4096].nSeq", UDINT)) == SYMBOL_NOT_FOUND
    assert code(lambda: plc.write_by_name("GVL_Dynid.nHostBeat", 1.0, LREAL)) == INVALID_SIZE
    assert code(lambda: plc.read(0x1234, 0, UDINT)) == 1794
    assert code(lambda: plc.read(0x4040, 1, UDINT)) == 1795
    assert code(lambda: plc.read_by_name("", UDINT, handle=99999)) == SYMBOL_NOT_FOUND
    with pyads.Connection("9.8.7.6.1.1", 851, virtual_upru6.host) as stranger:
        assert code(stranger.read_state) == 7
    with pyads.Connection(virtual_upru6.net_id, 801, virtual_upru6.host) as other_port:
        assert code(other_port.read_state) == 6
    with pyads.Connection(virtual_upru6.net_id, 10000, virtual_upru6.host) as system:
        assert system.read_state() == (pyads.ADSSTATE_RUN, 0)


def test_an_online_change_voids_handles_and_moves_symbols(plc: pyads.Connection, virtual_upru6: VirtualUpru6) -> None:
    handle = plc.get_handle("GVL_Dynid.nHead")
    changes = "TwinCAT_SystemInfoVarList._AppInfo.OnlineChangeCnt"
    before = plc.read_by_name(changes, UDINT), plc.get_symbol("GVL_Dynid.nHead").index_offset
    version = plc.read(0xF008, 0, pyads.PLCTYPE_BYTE)
    virtual_upru6.request("online-change")
    with pytest.raises(pyads.ADSError) as void:
        plc.read_by_name("", UDINT, handle=handle)
    assert void.value.err_code == SYMBOL_VERSION_INVALID
    assert plc.read_by_name(changes, UDINT) == before[0] + 1
    assert plc.get_symbol("GVL_Dynid.nHead").index_offset != before[1]
    assert plc.read(0xF008, 0, pyads.PLCTYPE_BYTE) == version  # that one counts downloads
    virtual_upru6.request("download")
    assert plc.read(0xF008, 0, pyads.PLCTYPE_BYTE) != version
    assert plc.read_by_name(changes, UDINT) == 0


def test_a_client_stops_and_starts_the_plc(plc: pyads.Connection) -> None:
    plc.write_control(pyads.ADSSTATE_STOP, 0, 0, pyads.PLCTYPE_INT)
    try:
        assert plc.read_state()[0] == pyads.ADSSTATE_STOP
        head = plc.read_by_name("GVL_Dynid.nHead", UDINT)
        time.sleep(0.02)
        assert plc.read_by_name("GVL_Dynid.nHead", UDINT) == head
    finally:
        plc.write_control(pyads.ADSSTATE_RUN, 0, 0, pyads.PLCTYPE_INT)
    time.sleep(0.02)
    assert plc.read_by_name("GVL_Dynid.nHead", UDINT) > head


def test_samples_carry_their_number_and_time(plc: pyads.Connection) -> None:
    head = plc.read_by_name("GVL_Dynid.nHead", UDINT)
    slot = plc.get_symbol(f"GVL_Dynid.aRing[{(head - 1) % 4096}]")
    raw = plc.read(slot.index_group, slot.index_offset, ctypes.c_ubyte * SAMPLE.dtype.itemsize, return_ctypes=True)
    number, clock = struct.unpack_from("<IQ", bytes(raw))
    assert number == head - 1
    since_2000 = time.time() - 946684800
    assert abs(1e-9 * clock - since_2000) < 120.0
