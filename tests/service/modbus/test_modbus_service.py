"""What PLCs see: the real service and a virtual robot, asked by pymodbus's own client over a socket."""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymodbus.client import ModbusTcpClient

from service.modbus.register_map import (
    MAILBOX,
    MAP_VERSION,
    RESULTS,
    UNKNOWN,
    WINDOW_BLOCKS,
    Answer,
    Block,
    Command,
    Connection,
    Flags,
    Permit,
    Quantity,
    WindowState,
)
from service.storage import audit

UNIT, OTHER_UNIT = 1, 7
PATIENCE = 15.0
RNG_SEED = 5

ILLEGAL_FUNCTION, ILLEGAL_ADDRESS, NO_SUCH_UNIT = 1, 2, 11


def random_table(samples: int, seed: int = RNG_SEED) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(samples, 6)).astype(np.float32)


def read_until(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """Poll as a PLC does until the answer is as wanted."""
    deadline = time.monotonic() + PATIENCE
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, seen
    return seen


def read_block(client: ModbusTcpClient, block: Block) -> dict[str, Any]:
    answer = client.read_holding_registers(block.start, count=block.registers, device_id=UNIT)
    assert not answer.isError(), answer
    return {field.name: block.decode(answer.registers, field.name) for field in block.fields}


def look(client: ModbusTcpClient, window: Block, row: int, quantity: int = Quantity.TORQUE) -> dict[str, Any]:
    """Select and read in one request."""
    answer = client.readwrite_registers(
        read_address=window.start,
        read_count=window.registers,
        write_address=window.start,
        values=window.encode({"select_row": row, "select_quantity": quantity}),
        device_id=UNIT,
    )
    assert not answer.isError(), answer
    return {field.name: window.decode(answer.registers, field.name) for field in window.fields}


def read_table(
    client: ModbusTcpClient, window: Block, quantity: int = Quantity.TORQUE
) -> tuple[int, NDArray[np.float32]]:
    """Read a whole table page by page, as the map's document says; begin again when a newer one came meanwhile."""
    while True:
        first = page = look(client, window, 0, quantity)
        assert first["state"] == WindowState.SHOWN
        rows: list[NDArray[np.float32]] = []
        while (page["version"], page["crc"]) == (first["version"], first["crc"]):
            if page["state"] == WindowState.BEYOND_END:
                table = np.concatenate(rows)
                assert zlib.crc32(table.astype("<f4").tobytes()) == first["crc"]
                return first["version"], table
            values = np.array(page["values"][: page["rows"] * page["joints"]], np.float32)
            rows.append(values.reshape(page["rows"], page["joints"]))
            page = look(client, window, page["row"] + page["rows"], quantity)


def test_status_of_a_robot_that_streams_and_of_one_that_is_absent(served: Any) -> None:
    seen = read_until(served.results, lambda seen: seen["connection"] == Connection.STREAMING)
    assert seen["map_version"] == MAP_VERSION
    assert seen["permit"] == Permit.DISARMED
    assert seen["joints"] == 6
    assert Flags(seen["flags"]) & (Flags.VIRTUAL | Flags.MOTION_ENABLED) == Flags.VIRTUAL
    assert seen["seq_begin"] == seen["seq_end"]
    assert read_until(served.results, lambda seen: seen["sample_age"] < 1000)
    absent = served.results(OTHER_UNIT)
    assert absent["connection"] != Connection.STREAMING
    assert absent["sample_age"] == absent["result_age"] == UNKNOWN
    assert (absent["table_version"], absent["result_mark"]) == (0, 0)


def test_the_heartbeat_goes_on(served: Any) -> None:
    before = served.results()["heartbeat"]
    assert read_until(served.results, lambda seen: (seen["heartbeat"] - before) % 0x10000 >= 3)


def test_what_is_not_computed_is_not_available(served: Any) -> None:
    seen = served.results(OTHER_UNIT)
    for name in ("residual_rms", "residual_relative", "friction_coulomb", "friction_viscous", "drift"):
        assert all(math.isnan(value) for value in seen[name]), name
    assert math.isnan(seen["table_cycle"])


def test_result_and_table_in_force(served: Any, client: ModbusTcpClient, make_table: Any, result_of_cell: str) -> None:
    torque = random_table(20)
    version = make_table(torque)
    seen = read_until(served.results, lambda seen: seen["table_version"] == version)
    assert seen["result_mark"] == zlib.crc32(result_of_cell.encode())
    assert seen["result_age"] < 600
    np.testing.assert_allclose(seen["residual_rms"], [0.1, 0.2, 0.3, 0.4, 0.5, *[math.nan] * 3], rtol=1e-6)
    np.testing.assert_allclose(seen["residual_relative"], [*[0.01] * 6, *[math.nan] * 2], rtol=1e-6)
    in_force = Flags.RESULT_IN_FORCE | Flags.RESULT_PASSED | Flags.TABLE | Flags.TABLE_OF_RESULT
    assert Flags(seen["flags"]) & in_force == in_force
    assert (seen["table_rows"], seen["table_joints"]) == (20, 6)
    assert seen["table_cycle"] == np.float32(0.002)
    assert seen["table_crc"] == zlib.crc32(torque.tobytes())
    assert seen["stored_age"] < 1e3 * PATIENCE
    point = look(client, WINDOW_BLOCKS[2], 13)
    assert (point["state"], point["row"], point["rows"]) == (WindowState.SHOWN, 13, 7)
    np.testing.assert_array_equal(np.array(point["values"][:6], np.float32), torque[13])
    assert all(math.isnan(value) for value in point["values"][42:])


def test_a_whole_table_and_its_currents_by_pages(served: Any, client: ModbusTcpClient, make_table: Any) -> None:
    torque, current = random_table(333), random_table(333, seed=6)
    version = make_table(torque, current)
    read_until(served.results, lambda seen: seen["table_version"] == version)
    for quantity, wanted in ((Quantity.TORQUE, torque), (Quantity.CURRENT, current)):
        found, table = read_table(client, WINDOW_BLOCKS[0], quantity)
        assert found == version
        np.testing.assert_array_equal(table, wanted)
    assert look(client, WINDOW_BLOCKS[0], 0, 9)["state"] == WindowState.NO_SUCH_QUANTITY
    assert look(client, WINDOW_BLOCKS[0], UNKNOWN)["state"] == WindowState.BEYOND_END


def test_a_window_can_be_selected_by_plain_writes(served: Any, client: ModbusTcpClient, make_table: Any) -> None:
    torque = random_table(10)
    version = make_table(torque)
    read_until(served.results, lambda seen: seen["table_version"] == version)
    window = WINDOW_BLOCKS[-1]
    assert not client.write_registers(window.start, [0, 4, 0], device_id=UNIT).isError()
    before = read_block(client, window)
    assert before["row"] == 4
    assert not client.write_register(window.start + 1, 5, device_id=UNIT).isError()
    after = read_block(client, window)
    np.testing.assert_array_equal(np.array(after["values"][:6], np.float32), torque[5])
    assert after["seq_begin"] == after["seq_end"] != before["seq_begin"]
    newer = random_table(10, seed=8)
    version = make_table(newer)
    read_until(served.results, lambda seen: seen["table_version"] == version)
    replaced = read_block(client, window)
    assert (replaced["version"], replaced["row"]) == (version, 5)
    np.testing.assert_array_equal(np.array(replaced["values"][:6], np.float32), newer[5])
    assert replaced["seq_begin"] == replaced["seq_end"] != after["seq_begin"]


def test_two_clients_read_while_the_table_is_replaced(served: Any, make_table: Any) -> None:
    """Every table that a client puts together is one that was stored, whole; both see several of them."""
    stored = {}

    def store(seed: int) -> None:
        table = random_table(64, seed)
        stored[make_table(table)] = table

    store(100)
    read_until(served.results, lambda seen: seen["table_version"] in stored)
    done = threading.Event()
    read: list[list[tuple[int, NDArray[np.float32]]]] = [[], []]

    def poll(number: int) -> None:
        with served.client() as client:
            while not done.is_set():
                read[number].append(read_table(client, WINDOW_BLOCKS[number]))

    pollers = [threading.Thread(target=poll, args=(number,)) for number in (0, 1)]
    for poller in pollers:
        poller.start()
    try:
        for seed in range(101, 105):
            store(seed)
            newest = max(stored)
            read_until(served.results, lambda seen, newest=newest: seen["table_version"] == newest)
            seen = [len(tables) for tables in read]
            read_until(lambda: [len(tables) for tables in read], lambda now, seen=seen: all(np.subtract(now, seen) > 1))
    finally:
        done.set()
        for poller in pollers:
            poller.join(PATIENCE)
    for tables in read:
        assert len({version for version, _ in tables}) >= 3
        for version, table in tables:
            np.testing.assert_array_equal(table, stored[version])


def test_what_is_not_in_the_map_is_refused(client: ModbusTcpClient) -> None:
    read_input, read_holding = client.read_input_registers, client.read_holding_registers
    end, window = RESULTS.start + RESULTS.registers, WINDOW_BLOCKS[0]
    refused = [
        (read_input(end, count=1, device_id=UNIT), ILLEGAL_ADDRESS),
        (read_input(end - 1, count=2, device_id=UNIT), ILLEGAL_ADDRESS),
        (read_input(0xFFFF, count=1, device_id=UNIT), ILLEGAL_ADDRESS),
        (read_holding(MAILBOX.registers, count=1, device_id=UNIT), ILLEGAL_ADDRESS),
        (read_holding(window.start - 1, count=3, device_id=UNIT), ILLEGAL_ADDRESS),
        (client.write_register(window.address("version"), 1, device_id=UNIT), ILLEGAL_ADDRESS),
        (client.write_registers(window.start, [0] * 5, device_id=UNIT), ILLEGAL_ADDRESS),
        (client.read_coils(0, count=1, device_id=UNIT), ILLEGAL_FUNCTION),
        (client.read_discrete_inputs(0, count=1, device_id=UNIT), ILLEGAL_FUNCTION),
        (client.write_coil(0, True, device_id=UNIT), ILLEGAL_FUNCTION),
        (client.diag_force_listen_only(device_id=UNIT, no_response_expected=False), ILLEGAL_FUNCTION),
        (client.read_device_information(device_id=UNIT), ILLEGAL_FUNCTION),
        (read_input(0, count=1, device_id=2), NO_SUCH_UNIT),
        (read_input(0, count=1, device_id=0), NO_SUCH_UNIT),
    ]
    for answer, code in refused:
        assert answer.isError()
        assert answer.exception_code == code, answer
    assert not read_input(0, count=1, device_id=UNIT).isError()


def _command(client: ModbusTcpClient, command: int, argument: int) -> dict[str, Any]:
    request = (read_block(client, MAILBOX)["request"] + 1) % 0x10000
    words = MAILBOX.encode({"command": command, "argument": argument, "request": request})
    assert not client.write_registers(MAILBOX.start, words, device_id=UNIT).isError()
    answered = read_until(
        lambda: read_block(client, MAILBOX),
        lambda seen: seen["answered"] == request and seen["answer"] != Answer.PENDING,
    )
    return dict(answered)


def test_the_mailbox_takes_an_acknowledgement_and_nothing_else(
    served: Any, client: ModbusTcpClient, make_table: Any
) -> None:
    version = make_table(random_table(3))
    assert _command(client, Command.ACKNOWLEDGE, version + 1)["answer"] == Answer.REFUSED
    taken = _command(client, Command.ACKNOWLEDGE, version)
    assert (taken["answer"], taken["acknowledged"]) == (Answer.DONE, version)
    assert _command(client, Command.START_CALIBRATION, 0)["answer"] == Answer.NOT_PERMITTED
    assert _command(client, 99, 0)["answer"] == Answer.UNKNOWN_COMMAND
    with served.database.reading() as session:
        rows = audit.find(session, robot="cell", limit=2)
        assert audit.first_broken(session) is None
    assert [(row.principal, row.details["version"], row.details["taken"]) for row in rows] == [
        ("modbus", version, True),
        ("modbus", version + 1, False),
    ]
