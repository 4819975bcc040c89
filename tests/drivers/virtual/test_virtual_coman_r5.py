"""The virtual COMAN R5: what its gears and links add, and a controller that survives what clients send."""

from __future__ import annotations

import json
import socket
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from drivers.virtual.coman_r5.controller import Controller, Mode
from drivers.virtual.coman_r5.robot import DESIGN, GEAR_RATIO, HOME, NOMINAL, controller_model, individual
from drivers.virtual.lugre import LuGreFriction
from drivers.virtual.plant import Plant
from drivers.virtual.process import VirtualComanR5
from drivers.virtual.truth import truth_torque

ZERO = np.zeros(6)


def test_each_robot_differs_from_its_type_and_is_itself_again() -> None:
    robot, again, other = individual(4), individual(4), individual(5)
    np.testing.assert_array_equal(robot.periodic, again.periodic)
    assert (robot.periodic[:, :, 2] != other.periodic[:, :, 2]).all()
    off = np.abs(robot.periodic[:, :, 1] / NOMINAL.periodic[:, :, 1] - 1.0)
    assert ((off >= 0.05) & (off <= 0.2)).all()
    gains = np.abs(robot.drive_gains / NOMINAL.gains - 1.0)
    assert ((gains >= 0.02) & (gains <= 0.08)).all()


def test_gears_ripple_twice_per_turn_of_the_wave_generator() -> None:
    """Seen in what the true torque is over one turn of a joint that moves without acceleration or speed."""
    robot = individual(2)
    turn = np.linspace(0.0, 2 * np.pi, 4096, endpoint=False)
    q = np.tile(HOME, (turn.size, 1))
    q[:, 5] = turn
    torque = truth_torque(robot, q, np.zeros_like(q), np.zeros_like(q))[:, 5]
    torque -= robot.chain.inverse_dynamics(q, np.zeros_like(q), np.zeros_like(q))[:, 5]
    spectrum = 2.0 * np.abs(np.fft.rfft(torque)) / turn.size
    orders = np.flatnonzero(spectrum > 1e-6)
    assert orders.tolist() == [1, 2, 2 * GEAR_RATIO]
    np.testing.assert_allclose(spectrum[orders], robot.periodic[5, :, 1], rtol=1e-6)


def test_the_drives_feel_what_depends_on_the_position() -> None:
    """Two robots that differ in nothing else need other currents, by that torque over the gain."""
    from dataclasses import replace

    small = np.full(6, 1e-9)
    smooth = LuGreFriction(small * 1e3, 0 * small, small, small, np.full(6, 0.1), np.full(6, 20.0))
    robot = replace(individual(2), friction=smooth)
    currents = []
    for parameters in (robot, replace(robot, periodic=np.zeros((6, 0, 3)))):
        plant = Plant(controller_model(), parameters, HOME, DESIGN)
        seen = []
        for _ in range(4000):
            plant.run_cycle(np.vstack([HOME, ZERO, ZERO]))
            seen.append(plant.out[8].copy())
        currents.append(np.mean(seen[2000:], axis=0))
    expected = robot.periodic_torque(HOME) / robot.drive_gains
    assert np.abs(expected).max() > 0.003
    np.testing.assert_allclose(currents[0] - currents[1], expected, atol=1e-3)


# --- the controller, without sockets -------------------------------------------------------------------------


def run(controller: Controller, cycles: int) -> None:
    for _ in range(cycles):
        controller.run_cycle()


def test_points_are_followed_smoothly_and_hold_when_repeated() -> None:
    controller, me = Controller(individual(1)), object()
    assert controller.begin_servo(me, 0.004, 0.02) is None
    targets = []
    for k in range(300):
        time = min(0.004 * k, 1.0)
        controller.servo(me, HOME + 0.1 * (1.0 - np.cos(np.pi * time)))
        for _ in range(4):
            controller.run_cycle()
            targets.append(controller.target.copy())
    speed = np.array(targets)[:, 1, 0]
    assert speed.max() == pytest.approx(0.1 * np.pi, rel=0.01)
    assert np.abs(np.diff(speed)).max() < 0.004  # of 1 ms, at up to 1 rad/s²
    assert speed[-1] == 0.0
    assert controller.end_servo(me) is None
    run(controller, 2)
    assert controller.mode is Mode.ENABLED


def test_points_that_end_end_the_motion_gently() -> None:
    controller, me = Controller(individual(1)), object()
    controller.begin_servo(me, 0.004, 0.02)
    for k in range(100):
        controller.servo(me, HOME + 0.5 * (0.004 * k) ** 2)
        run(controller, 4)
    speeds = []
    for _ in range(300):
        controller.run_cycle()
        speeds.append(controller.target[1, 0])
    assert (controller.mode, controller.stop_reason) == (Mode.ENABLED, "servo points ran out")
    assert speeds[-1] == 0.0
    assert np.abs(np.diff(speeds)).max() < 0.0121


@pytest.mark.parametrize(
    ("jump", "reason"), [(0.05, "joint 1: acceleration limit"), (np.nan, "finite numbers"), (np.inf, "finite numbers")]
)
def test_points_that_jump_move_nothing(jump: float, reason: str) -> None:
    controller, me = Controller(individual(1)), object()
    controller.begin_servo(me, 0.004, 0.02)
    refusal = None
    for k in range(20):
        refusal = controller.servo(me, HOME + (jump if k == 10 else 0.0)) or refusal
        run(controller, 4)
    assert reason in (refusal or controller.stop_reason)
    assert np.abs(controller.out[5] - HOME).max() < 0.01
    if refusal is None:
        assert controller.protective
        assert controller.begin_servo(me, 0.004, 0.02) is not None


def test_only_one_is_followed() -> None:
    controller, me, other = Controller(individual(1)), object(), object()
    controller.begin_servo(me, 0.004, 0.02)
    assert "not ready" in str(controller.begin_servo(other, 0.004, 0.02))
    assert "no servo points are followed" in str(controller.servo(other, HOME))
    controller.lost(other)
    assert controller.mode is Mode.SERVO
    controller.lost(me)
    assert controller.mode is Mode.STOPPING


# --- on its sockets ------------------------------------------------------------------------------------------


def ask(connection: socket.socket, text: bytes) -> dict[str, Any]:
    connection.sendall(text + b"\n")
    reply = b""
    while not reply.endswith(b"\n"):
        reply += connection.recv(4096)
    answer: dict[str, Any] = json.loads(reply)
    return answer


def test_what_clients_send_is_answered_or_refused(virtual_coman_r5: VirtualComanR5) -> None:
    with socket.create_connection((virtual_coman_r5.host, 7789), timeout=5.0) as connection:
        state = ask(connection, b'{"id": 7, "do": "read_state"}')
        assert (state["id"], state["ok"], state["model"]) == (7, True, "COMAN R5 VIRTUAL")
        for nonsense in (b"", b"{", b"[1]", b"\xff\xfe", b'{"do": 3}', b'{"do": "fly"}', b'{"do": "servo", "q": "x"}'):
            assert ask(connection, nonsense)["ok"] is False
        for rate in (b"0", b"-5", b"1001", b"300", b'"fast"', b"1e999"):
            assert ask(connection, b'{"do": "start_feedback", "rate_hz": ' + rate + b"}")["ok"] is False
        assert ask(connection, b'{"do": "servo", "q": [0, 0, 0, 0, 0, 0]}')["ok"] is False
    assert virtual_coman_r5.request("statistics")["mode"] == "ENABLED"


def test_a_frame_as_it_is_on_the_wire(virtual_coman_r5: VirtualComanR5) -> None:
    """Decoded by hand: 272 bytes, and the checksum of the first 268."""
    with (
        socket.create_connection((virtual_coman_r5.host, 7788), timeout=5.0) as feedback,
        socket.create_connection((virtual_coman_r5.host, 7789), timeout=5.0) as commands,
    ):
        assert ask(commands, b'{"do": "start_feedback", "rate_hz": 500}')["ok"]
        data = b""
        while len(data) < 3 * 272:
            data += feedback.recv(4096)
    begin = data.index(b"R5\xaa\x55\x10\x01\x01\x00")
    frames = [data[begin + 272 * k : begin + 272 * (k + 1)] for k in range(2)]
    for frame in frames:
        assert struct.unpack("<I", frame[268:])[0] == zlib.crc32(frame[:268])
        np.testing.assert_allclose(struct.unpack_from("<6d", frame, 20), HOME, atol=1e-3)
    numbers = [struct.unpack_from("<IQ", frame, 8) for frame in frames]
    assert (numbers[1][0] - numbers[0][0], numbers[1][1] - numbers[0][1]) == (1, 2_000_000)
