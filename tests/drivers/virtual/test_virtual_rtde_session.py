"""The controller's side of RTDE as a state machine: any bytes, in any portions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.virtual.ur_controller.session import RtdeSession, RtdeState
from drivers.virtual.ur_controller.wire import FrameSplitter, parse_names

VERSION = (5, 25, 1, 0)


def framed(kind: str, payload: bytes = b"") -> bytes:
    return struct.pack(">HB", 3 + len(payload), ord(kind)) + payload


def replies(data: bytes) -> list[tuple[str, bytes]]:
    return [(chr(kind), payload) for kind, payload in FrameSplitter().feed(data)]


def session(state: RtdeState | None = None) -> RtdeSession:
    opened = RtdeSession(state or RtdeState(VERSION))
    assert opened.receive(framed("V", struct.pack(">H", 2))) == framed("V", b"\x01")
    return opened


def outputs(names: str, frequency: float = 500.0) -> bytes:
    return framed("O", struct.pack(">d", frequency) + names.encode())


def test_streams_what_was_asked_for_in_that_order() -> None:
    state = RtdeState(VERSION)
    client = session(state)
    assert replies(client.receive(outputs("timestamp,runtime_state,actual_q,"))) == [
        ("O", b"\x01DOUBLE,UINT32,VECTOR6D")
    ]
    assert client.data_package() is None  # not started
    assert replies(client.receive(framed("S"))) == [("S", b"\x01")]
    state.outputs["timestamp"] = 1.5
    state.outputs["runtime_state"] = 2
    state.outputs["actual_q"] = [1, 2, 3, 4, 5, 6]
    package = client.data_package()
    assert package == framed("U", struct.pack(">BdI6d", 1, 1.5, 2, 1, 2, 3, 4, 5, 6))
    assert replies(client.receive(framed("P"))) == [("P", b"\x01")]
    assert client.data_package() is None


@pytest.mark.parametrize(("frequency", "count"), [(500.0, 500), (125.0, 125), (499.0, 499), (1.0, 1)])
def test_any_rate_up_to_500_hz(frequency: float, count: int) -> None:
    state = RtdeState(VERSION)
    client = session(state)
    client.receive(outputs("timestamp", frequency) + framed("S"))
    sent = 0
    for state.cycle in range(1, 501):
        sent += client.data_package() is not None
    assert sent == count


@pytest.mark.parametrize("frequency", [0.0, -1.0, 500.1, 1000.0, float("nan"), float("inf")])
def test_other_rates_are_refused(frequency: float) -> None:
    complaint, setup = replies(session().receive(outputs("timestamp", frequency)))
    assert complaint[0] == "M" and b"frequency" in complaint[1]
    assert setup == ("O", b"\x00DOUBLE")


def test_a_list_of_variables_has_a_limit() -> None:
    complaint, setup = replies(session().receive(outputs("actual_q," * 300)))
    assert complaint[0] == "M" and b"2048" in complaint[1]
    assert setup[1][0] == 0


def test_unknown_and_newer_variables_are_not_found() -> None:
    client = session(RtdeState((5, 22, 0, 0)))
    (setup,) = replies(client.receive(outputs("timestamp,nonsense,actual_current_as_torque")))
    assert setup == ("O", b"\x00DOUBLE,NOT_FOUND,NOT_FOUND")
    assert replies(client.receive(framed("S"))) == [("S", b"\x00")]


def test_inputs_belong_to_one_client_until_it_leaves() -> None:
    state = RtdeState(VERSION)
    first, second = session(state), session(state)
    names = b"input_int_register_0,input_double_register_3"
    assert replies(first.receive(framed("I", names))) == [("I", b"\x01INT32,DOUBLE")]
    assert replies(first.receive(framed("I", names))) == [("I", b"\x02INT32,DOUBLE")]  # its own again
    assert replies(second.receive(framed("I", names))) == [("I", b"\x00IN_USE,IN_USE")]
    first.close()
    assert replies(second.receive(framed("I", names))) == [("I", b"\x01INT32,DOUBLE")]


def test_input_data_reach_the_registers() -> None:
    state = RtdeState(VERSION)
    state.cycle = 77
    client = session(state)
    client.receive(framed("I", b"input_int_register_24,external_force_torque,input_double_register_3"))
    assert client.receive(framed("U", struct.pack(">Bi6dd", 1, -5, 1, 2, 3, 4, 5, 6, 0.25))) == b""
    assert state.inputs.integers[24] == -5
    assert state.inputs.written_at[24] == 77
    assert state.inputs.others["external_force_torque"] == [1, 2, 3, 4, 5, 6]
    assert state.inputs.doubles[3] == 0.25
    assert client.inputs_received == 1


def test_short_or_unknown_input_data_are_answered_not_applied() -> None:
    state = RtdeState(VERSION)
    client = session(state)
    client.receive(framed("I", b"input_int_register_0"))
    for payload in (b"", b"\x00", b"\x07\0\0\0\1", b"\x01\0\0"):
        ((kind, _),) = replies(client.receive(framed("U", payload)))
        assert kind == "M"
    assert client.inputs_rejected == 4 and client.violation is None
    assert state.inputs.integers[0] == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x02O", "header"),
        (framed("X"), "unknown package type"),
        (framed("O", b"\0" * 7), "frequency"),
        (framed("I", b"\xff\xfe"), "ASCII"),
        (framed("V", b"\0"), "2 bytes"),
    ],
)
def test_what_is_no_rtde_ends_the_connection(data: bytes, reason: str) -> None:
    client = session()
    ((kind, message),) = replies(client.receive(data))
    assert kind == "M" and client.violation is not None
    assert reason in client.violation and reason.encode() in message


def test_nothing_but_version_questions_before_the_negotiation() -> None:
    client = RtdeSession(RtdeState(VERSION))
    assert replies(client.receive(framed("v"))) == [("v", struct.pack(">4I", *VERSION))]
    assert replies(client.receive(framed("V", b"\0\1"))) == [("V", b"\x00")]
    client.receive(outputs("timestamp"))
    assert client.violation is not None and "negotiate" in client.violation


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=64), max_size=8))
def test_survives_arbitrary_bytes(chunks: list[bytes]) -> None:
    client = session()
    for chunk in chunks:
        client.receive(chunk)
        if client.violation is not None:
            break
        client.data_package()
    client.close()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("VvMOISPU"), st.binary(max_size=40)).map(lambda p: framed(*p)), max_size=6))
def test_survives_well_framed_nonsense(packages: list[bytes]) -> None:
    client = session()
    for package in packages:
        client.receive(package)
    client.close()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=40))
def test_torn_packages_mean_the_same_as_whole_ones(cuts: list[int]) -> None:
    data = outputs("timestamp,actual_q") + framed("I", b"input_int_register_1") + framed("S") + framed("v")
    whole = session().receive(data)
    torn, client, at = b"", session(), 0
    for cut in [*cuts, len(data)]:
        torn += client.receive(data[at : at + cut])
        at += cut
    assert torn == whole


def test_names_tolerate_the_clients_trailing_comma() -> None:
    assert parse_names(b"a,b,") == ["a", "b"]
